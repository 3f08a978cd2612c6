"""Kore's folder, the settings and argument types for all verbs."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, KoreError
from agent.i18n import mark_for_translation, set_locale, t
from gateway.runtime.paths import DataDir, find_data_dir

if TYPE_CHECKING:
    from gateway.config import Settings
    from gateway.config.sources import Sources

_LAST_PORT = 65_535


def positive_count(text: str) -> int:
    """Parse a count from 1 on the command line."""
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(
            t("found {text!r}, expected a whole number of at least 1", text=text)
        )
    return int(text)


def count(text: str) -> int:
    """Parse a count from 0 on the command line."""
    return 0 if text == "0" else positive_count(text)


def port_number(text: str) -> int:
    """Parse a TCP port on the command line; 0 means any free port."""
    number = count(text)
    if number > _LAST_PORT:
        raise argparse.ArgumentTypeError(
            t("found {text!r}, expected a port from 0 to 65535", text=text)
        )
    return number


def dollars(text: str) -> float:
    """Parse an amount of money in dollars on the command line."""
    return _number(
        text, 0.0, 1e9, mark_for_translation("found {text!r}, expected an amount such as 0.50")
    )


def hours(text: str) -> float:
    """Parse a time in hours on the command line."""
    return _number(
        text, 1e-6, 1e4, mark_for_translation("found {text!r}, expected hours such as 1.5")
    )


def _number(text: str, least: float, most: float, wrong: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(t(wrong, text=text))
    return number


def data_dir_of(args: argparse.Namespace) -> DataDir:
    """Return the folder of `--home`, `KORE_HOME` or `~/.kore`. Raises `ConfigError`."""
    return find_data_dir(os.environ, args.home)


def record_change(args: argparse.Namespace, what: str, name: str) -> None:
    """Leave a note about a change for the audit log: its kind and its name.

    The note contains no values. Raises `KoreError`.
    """
    import time

    from gateway.ops.audit.pending import leave_note
    from gateway.store.repositories.audit_outbox import AuditNote

    facts = {"who": "command line", "operation": args.action, "name": name}
    path = data_dir_of(args).audit_pending
    if not path.parent.exists():
        # The changed file is elsewhere, and this home has no log yet.
        return
    try:
        leave_note(path, AuditNote(time.time(), what, "changed by the owner", facts))
    except OSError as exc:
        raise KoreError(
            t("changed, but {path} cannot be written: {reason}", path=path, reason=exc.strerror),
            hint=t("the change is missing from the audit log"),
        ) from exc


def config_path(args: argparse.Namespace, home: DataDir) -> Path:
    """Return the configuration file to write, which is the one that is read."""
    configured = args.config or os.environ.get("KORE_CONFIG")
    return Path(configured).expanduser() if configured else home.config


def sources_of(args: argparse.Namespace) -> "Sources":
    """Return the sources of this process's settings."""
    from gateway.config.sources import Sources

    return Sources(args.config, data_dir_of(args).root, Path.cwd(), os.environ)


def current_folder() -> Path:
    """Return the current folder. Raises `ConfigError` if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            t("the current folder no longer exists"),
            hint=t("cd to another folder and try again"),
        ) from None


def settings_of(
    args: argparse.Namespace,
    overrides: Mapping[str, Any] | None = None,
    drafts: Mapping[Path, Mapping[str, Any] | None] | None = None,
) -> "Settings":
    """Return the settings for this process.

    `overrides` are the verb's own flags, "section.key" to value; `drafts` are as for
    `load_settings`. Raises `ConfigError`.
    """
    from gateway.cli.program import is_for_programs
    from gateway.config import load_settings
    from gateway.runtime.secrets import redactor_of

    settings = load_settings(
        config=args.config,
        home=data_dir_of(args).root,
        cwd=current_folder(),
        environ=os.environ,
        overrides=overrides or {},
        drafts=drafts,
    )
    args.crash.redactor = redactor_of(settings, os.environ)
    if settings.agent.language != "auto" and not is_for_programs(args):
        set_locale(settings.agent.language)
    return settings
