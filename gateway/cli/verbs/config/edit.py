"""Changes by `kore config`: set, unset, edit, import and revert, checked before writing."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from getpass import getpass
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.security.sandbox.trusted_programs import find_trusted_program
from gateway.cli.change_note import record_change
from gateway.cli.output import print_json
from gateway.cli.settings import sources_of
from gateway.cli.verbs.config import foreign
from gateway.config import editing
from gateway.config.atomic_write import file_lock, write_atomic
from gateway.config.editing import inside
from gateway.config.foreign.formats import is_foreign
from gateway.config.json_files.document import SIZE_LIMIT_BYTES, read_text
from gateway.config.load import Sources
from gateway.config.references import has_reference
from gateway.config.secret_keys import is_secret, masked
from gateway.ops.config_check import check_usable
from gateway.runtime.paths import DataDir
from gateway.runtime.secrets import redactor_of


def run(args: argparse.Namespace) -> int:
    """Make a change and note it for the audit log. Raises `ConfigError`, `KoreError`."""
    actions = {
        "set": _set,
        "unset": _unset,
        "edit": _edit,
        "import": foreign.import_foreign,
        "revert": _revert,
    }
    code = actions[args.action](args, sources_of(args))
    record_change(args, "setting", getattr(args, "key", ""))
    return code


def _set(args: argparse.Namespace, sources: Sources) -> int:
    """Set a value in the file."""
    file = _file(args, sources)
    text = args.value if args.value is not None else _ask_value(args.key)
    if is_foreign(file):
        return foreign.set_in_foreign_file(args, file, text)
    with file_lock(file):
        path = editing.path_of(args.key, editing.content_of(file, editing.text_of(file)), ours=True)
        change = editing.setting(sources, file, path, editing.parse_argument(path, text))
        change.write(sources)
    value: Any = masked(editing.parse_argument(path, text), path)
    if "args" in path:  # the preceding argument determines whether a value is a secret
        value = inside(masked(editing.content_of(file, change.text)), path)
    location = (
        f" (in {sources.secrets_file} as {', '.join(change.secrets)})" if change.secrets else ""
    )
    if isinstance(value, str) and is_secret(path) and not has_reference(value):
        value = t("a secret")
    return _report(args, sources, change, f"{args.key} = {_short(value)}{location}")


def _unset(args: argparse.Namespace, sources: Sources) -> int:
    """Remove a value from the file, so that lower layers apply again."""
    file = _file(args, sources)
    if is_foreign(file):
        return foreign.set_in_foreign_file(args, file, None)
    with file_lock(file):
        path = editing.path_of(args.key, editing.content_of(file, editing.text_of(file)), ours=True)
        before = editing.text_of(file)
        change = editing.unsetting(sources, file, path)
        change.write(sources)
        # Delete secrets only after the file, which must never refer to a missing secret.
        removed = editing.drop_orphans(sources, file, before)
    if removed and not args.json:
        print(
            t("removed from {path}: {names}", path=sources.secrets_file, names=", ".join(removed))
        )
    return _report(args, sources, change, t("{key} is no longer set here", key=args.key))


def _edit(args: argparse.Namespace, sources: Sources) -> int:
    """Open the file in an editor.

    An invalid version is saved as a draft, and the file stays unchanged.
    """
    file = _file(args, sources)
    draft = editing.draft_path(file)
    before = editing.text_of(file)
    if draft.exists():
        notice = t("{path}: continuing from this draft; delete it to start over", path=draft)
        print(notice, file=sys.stderr)
    else:
        with file_lock(file):  # also creates the folder
            write_atomic(draft, before)
    try:
        _run_editor(draft, before)
    except KoreError:
        if read_text(draft) == before:  # no changes to continue with
            draft.unlink()
        raise
    text = _read(draft)
    if text == before:
        draft.unlink()
        print(t("{path}: nothing was changed", path=file))
        return 0
    with file_lock(file):
        if editing.text_of(file) != before:
            raise ConfigError(
                t(
                    "{file} was changed in the meantime; your version is in {aside}",
                    file=file,
                    aside=draft,
                )
            )
        try:
            change = editing.rewriting(sources, file, text)
        except ConfigError as exc:
            lines = str(exc).replace(str(draft), str(file))
            hint = t(
                "{file} is unchanged; your version is in {aside}, and the next edit "
                "continues there",
                file=file,
                aside=draft,
            )
            raise ConfigError(lines, hint=hint) from None
        change.write(sources)
    draft.unlink()
    return _report(args, sources, change, t("changed"))


def _revert(args: argparse.Namespace, sources: Sources) -> int:
    """Restore the last file that a gateway used; the current one becomes the draft for `edit`."""
    file, last_valid_file = sources.own_file, DataDir(sources.home).last_good_config
    text = read_text(last_valid_file)
    if text is None:
        raise KoreError(
            t("{path} does not exist yet", path=last_valid_file),
            hint=t("a running gateway saves it"),
        )
    with file_lock(file):
        current_text = read_text(file)
        if current_text == text:
            print(t("{file}: nothing to restore, the last gateway used this version", file=file))
            return 0
        change = editing.rewriting(sources, file, text)
        if current_text is not None:
            write_atomic(editing.draft_path(file), current_text)
        change.write(sources)
    return _report(
        args,
        sources,
        change,
        t("now matches {good}; `edit` opens your other version", good=last_valid_file),
    )


def _file(args: argparse.Namespace, sources: Sources) -> Path:
    file: Path | None = args.file
    return Path.cwd() / file.expanduser() if file is not None else sources.own_file


def _ask_value(key: str) -> str:
    """Read the value from a pipe or from the terminal, without echo for a secret."""
    if not sys.stdin.isatty():
        return sys.stdin.read(SIZE_LIMIT_BYTES).rstrip("\r\n")
    try:
        if is_secret(tuple(key.split("."))):
            return getpass(f"{key}: ").strip()
        return input(f"{key}: ").strip()
    except EOFError:
        raise KoreError(t("no value given")) from None


def _run_editor(file: Path, before: str) -> None:
    configured = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(configured)
    except ValueError:
        raise KoreError(
            t(
                "the editor {name} cannot be started: {reason}",
                name=configured,
                reason=t("unclosed quote"),
            )
        ) from None
    if not command:
        command = [editor for name in ("nano", "vi") if (editor := find_trusted_program(name))][:1]
    if not command:
        raise KoreError(t("no editor is configured"), hint=t("set EDITOR"))
    try:
        code = subprocess.run([*command, str(file)], check=False).returncode
    except OSError as exc:
        raise KoreError(
            t("the editor {name} cannot be started: {reason}", name=command[0], reason=exc.strerror)
        ) from None
    if code != 0:
        hint = t("your changes are in {file}; the next edit continues there", file=file)
        if read_text(file) == before:
            hint = t("set EDITOR to use another one")
        raise KoreError(
            t("the editor exited with code {code}; nothing was changed", code=code), hint=hint
        )


def _read(file: Path) -> str:
    text = read_text(file)
    if text is None:
        raise KoreError(t("the editor saved no file; nothing was changed"))
    return text


def _report(
    args: argparse.Namespace, sources: Sources, change: editing.ConfigEdit, message: str
) -> int:
    """Report the change, remaining problems, and settings that take precedence."""
    notes = list(change.earlier_complaints)
    at = Sources(change.file, sources.home, sources.cwd, sources.environ)
    if not notes:
        try:
            settings = at.load()
            args.crash.redactor = redactor_of(settings, os.environ)
            key = tuple(str(getattr(args, "key", "")).split("."))
            place = settings.places.get(key[:2])
            # A ${NAME} in the file refers to the variable, which does not count as a second source.
            is_reference = has_reference(inside(editing.content_of(change.file, change.text), key))
            if place and place != str(change.file) and args.action == "set" and not is_reference:
                notes.append(t("{place} also sets it and takes precedence", place=place))
            check_usable(settings, os.environ)
        except ConfigError as exc:
            notes += str(exc).splitlines()
    if args.json:
        print_json({"file": str(change.file), "secrets": list(change.secrets), "notes": notes})
        return 0
    print(f"{change.file}: {args.crash.redactor.clean(message)}")
    for note in notes:
        print(t("note: {text}", text=note), file=sys.stderr)
    return 0


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"
