"""`kore logs`: what the gateway logged, newest last; without a secret."""

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from gateway.cli.context import data_dir_of, settings_of, whole
from gateway.cli.output import clean, clean_lines

if TYPE_CHECKING:
    from gateway.config.sections import LoggingSection

_LEVELS = ("debug", "info", "warning", "error")
_LOOK_S = 0.25
_PIECE_BYTES = 1 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--lines", type=whole, default=50, metavar="N", help="number of lines (50)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow new lines")
    parser.add_argument("--level", choices=_LEVELS, default="debug", help="minimum level")
    parser.add_argument("--agent", action="store_true", help="log of terminals without a gateway")
    parser.add_argument("--json", action="store_true", help="print raw JSON lines")


def run(args: argparse.Namespace) -> int:
    home, settings = data_dir_of(args), _settings(args)
    file = settings.file or home.logs / "kore.log"
    if args.agent:
        file = home.logs / "agent.log"
    old = _files(file, settings.files_kept)
    if not old and not args.follow:
        raise KoreError(
            t("there is no log yet: {path}", path=file),
            hint=t("The gateway writes it. Under systemd: journalctl --user -u kore"),
        )
    chosen = _chooser(args)
    shown: deque[str] = deque(maxlen=args.lines)
    at = 0
    for path in old:
        try:
            with path.open("rb") as opened:
                shown.extend(filter(None, map(chosen, opened)))
                at = opened.tell()
        except OSError as exc:
            raise KoreError(
                t("{path} cannot be read: {reason}", path=path, reason=exc.strerror)
            ) from None
    for line in shown:
        print(line)
    if args.follow:
        for raw in _coming(file, at if old and old[-1] == file else 0):
            if (come := chosen(raw)) is not None:
                print(come, flush=True)
    return 0


def _settings(args: argparse.Namespace) -> "LoggingSection":
    """A configuration that is wrong hides no log, which says so, too."""
    try:
        return settings_of(args).logging
    except ConfigError as exc:
        from agent.security.redaction import Redactor
        from gateway.config.references import read_secrets
        from gateway.config.sections import LoggingSection

        print(f"kore: {clean_lines(str(exc))}", file=sys.stderr)
        try:
            secrets = read_secrets(data_dir_of(args).root / "secrets.json")
        except ConfigError:
            secrets = {}
        args.crash.redactor = Redactor(secrets.values())
        return LoggingSection()


def _files(file: Path, kept: int) -> list[Path]:
    """Those that there are, the oldest first."""
    names = [*(file.with_name(f"{file.name}.{n}") for n in range(kept, 0, -1)), file]
    return [path for path in names if path.is_file()]


def _chooser(args: argparse.Namespace) -> Callable[[bytes], str | None]:
    """A line as it is shown; None for one that is not asked for."""
    least = _LEVELS.index(args.level)
    redact = args.crash.redactor.clean

    def chosen(raw: bytes) -> str | None:
        text = raw.decode(errors="replace").rstrip("\n")
        try:
            entry = json.loads(text)
            level = _LEVELS.index(entry["level"]) if entry["level"] in _LEVELS else len(_LEVELS)
        except (ValueError, KeyError, TypeError):
            return None  # cut off by a full disk, or not ours
        if level < least:
            return None
        return str(redact(text if args.json else _readable(entry)))

    return chosen


def _readable(entry: dict[str, Any]) -> str:
    told = ("ts", "level", "logger", "text", "traceback")
    facts = "".join(f" {name}={value}" for name, value in entry.items() if name not in told)
    at = _when(entry.get("ts"))
    line = f"{at} {entry['level']:<7} {clean(str(entry.get('text', '')))}{clean(facts)}"
    trace = entry.get("traceback")
    return f"{line}\n{clean_lines(str(trace))}" if trace else line


def _when(stamp: Any) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(stamp)))
    except (TypeError, ValueError, OverflowError, OSError):
        return "?"


def _coming(file: Path, at: int) -> Iterator[bytes]:
    """Whole lines as they are written, also over a change of files."""
    opened, inode, rest = None, None, b""
    while True:
        if opened is None and file.exists():
            opened = file.open("rb")
            inode = os.fstat(opened.fileno()).st_ino
            opened.seek(at)
            at = 0
        piece = opened.read(_PIECE_BYTES) if opened else b""
        if piece:
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
            continue
        if opened is not None and (not file.exists() or file.stat().st_ino != inode):
            opened.close()
            opened = None
            continue
        sys.stdout.flush()
        time.sleep(_LOOK_S)
