"""Project context of `kore agent` from `--cwd` and `-f`."""

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.context.project.context import FILE_SHARE, ProjectContext
from agent.context.project.directory_tree import TreeLimits
from agent.context.project.pointed_file import kind_of
from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from agent.providers.vendors import CONTEXT_TOKENS
from agent.security.files.paths import blocked_entry
from agent.security.sandbox.base import Sandbox
from agent.security.taint.origin import TrustedOrigins
from agent.text.visible import escape_line
from gateway.cli.console.chat.workdir import not_text_remark
from gateway.cli.folders import data_dir_of
from gateway.config import Settings
from gateway.core.messages import MessageOptions
from gateway.ops.working_place import WorkingPlace
from gateway.runtime.paths import DataDir
from gateway.runtime.secrets import redactor_of
from gateway.turns.agents.profiles import origin_of

if TYPE_CHECKING:
    pass

_UNTRUSTED_FOLDER = mark_for_translation(
    "This folder isn't trusted: I don't follow its AGENTS.md, and ask before sending anything out. "
    "To trust it: {command}"
)


def project_of(
    args: argparse.Namespace,
    options: MessageOptions,
    settings: Settings,
    place: WorkingPlace | None = None,
) -> ProjectContext | None:
    """Return the context of the folder and the files, with a remark about the `place`.

    Raises `ConfigError` for a bad file.
    """
    if options.cwd is None and not args.file:
        return None

    folder = Path.cwd() / args.cwd.expanduser() if args.cwd is not None else Path.cwd()
    files = [(folder / name.expanduser()).resolve() for name in args.file or ()]
    remarks: list[str] = []
    for file in files:
        if not file.exists():
            raise ConfigError(t("--file {file}: no such file", file=file))
        if blocked_entry(file, Path(file.anchor), settings.security.blocked_paths):
            raise ConfigError(t("--file {file}: blocked by security.blocked_paths", file=file))
        remarks += _remarks(file)
    root = Path(options.cwd) if options.cwd is not None else None
    project = project_context(root, files, settings, data_dir_of(args))
    if options.start_folder is not None:
        project.start_folder = Path(options.start_folder)
    place_remark = "" if place is None else place.remark
    project.remark = "\n".join(filter(None, [place_remark or project.remark, *remarks]))
    return project


def _remarks(file: Path) -> list[str]:
    """Return remarks about a file that the model cannot see as text.

    Raises `ConfigError` for an unreadable file.
    """
    try:
        kind = kind_of(file)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise ConfigError(
            t("--file {file}: cannot be read: {reason}", file=file, reason=reason)
        ) from exc
    if kind == "folder":
        return [t("{path} is a folder; the model sees what is in it", path=file)]
    return [not_text_remark(file)] if kind == "binary" else []


def project_context(
    root: Path | None, files: Sequence[Path], settings: Settings, home: DataDir
) -> ProjectContext:
    """Return the project context of a folder, or of files without a folder."""
    context = settings.context
    shape = TreeLimits(context.max_tree_depth, context.max_files_per_dir)
    clean = redactor_of(settings, os.environ).clean
    limit = int((context.max_tokens or CONTEXT_TOKENS) * FILE_SHARE)
    origin = origin_of(settings, home)
    remark = _remark(root, origin)

    def sandbox() -> Sandbox | None:
        # A client of a running Kore starts no commands.
        from agent.security.sandbox.selector import select_sandbox
        from gateway.runtime.sandbox import sandbox_options

        try:
            return select_sandbox(sandbox_options(settings, home.root), home.root).sandbox
        except ConfigError:
            return None

    return ProjectContext(root, files, shape, limit, clean, remark, origin, sandbox)


def _remark(root: Path | None, origin: TrustedOrigins) -> str:
    """Return a warning about an untrusted folder, or an empty string."""
    if root is None or origin.is_own(root):
        return ""

    return t(_UNTRUSTED_FOLDER, command=f"kore trust {shlex.quote(escape_line(str(root)))}")
