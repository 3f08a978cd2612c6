"""Command `kore logs`: log of the gateway, newest last, without secrets."""

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.security.redaction import Redactor
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, clean_lines
from gateway.cli.settings import settings_of
from gateway.config.references import read_secrets
from gateway.config.sections import LoggingSection
from gateway.core.log_levels import LOG_LEVELS

_POLL_INTERVAL_S = 0.25
_CHUNK_BYTES = 1 << 16


def run(args: argparse.Namespace) -> int:
    home, settings = data_dir_of(args), _settings(args)
    file = settings.file or home.logs / "kore.log"
    if args.agent:
        file = home.logs / "agent.log"
    files = _files(file, settings.files_kept)
    if not files and not args.follow:
        raise KoreError(
            t("there is no log yet: {path}", path=file),
            hint=t("The gateway writes it. Under systemd: journalctl --user -u kore"),
        )
    read_line = _line_reader(args)
    lines: deque[str] = deque(maxlen=args.lines)
    position = 0
    for path in files:
        try:
            with path.open("rb") as stream:
                lines.extend(filter(None, map(read_line, stream)))
                position = stream.tell()
        except OSError as exc:
            raise KoreError(
                t("{path} cannot be read: {reason}", path=path, reason=exc.strerror)
            ) from None
    for line in lines:
        print(line)
    if args.follow:
        for raw in _follow(file, position if files and files[-1] == file else 0):
            if (line_text := read_line(raw)) is not None:
                print(line_text, flush=True)
    return 0


def _settings(args: argparse.Namespace) -> LoggingSection:
    """Return the logging settings; an invalid configuration must not hide the log."""
    try:
        return settings_of(args).logging
    except ConfigError as exc:
        print(f"kore: {clean_lines(str(exc))}", file=sys.stderr)
        try:
            secrets = read_secrets(data_dir_of(args).root / "secrets.json")
        except ConfigError:
            secrets = {}
        args.crash.redactor = Redactor(secrets.values())
        return LoggingSection()


def _files(file: Path, count: int) -> list[Path]:
    """Return the existing files, oldest first."""
    names = [*(file.with_name(f"{file.name}.{n}") for n in range(count, 0, -1)), file]
    return [path for path in names if path.is_file()]


def _line_reader(args: argparse.Namespace) -> Callable[[bytes], str | None]:
    """Return a function that formats a line, or returns None for a filtered line."""
    min_level = LOG_LEVELS.index(args.level)
    redact = args.crash.redactor.clean

    def read_line(raw: bytes) -> str | None:
        text = raw.decode(errors="replace").rstrip("\n")
        try:
            entry = json.loads(text)
            level = (
                LOG_LEVELS.index(entry["level"])
                if entry["level"] in LOG_LEVELS
                else len(LOG_LEVELS)
            )
        except (ValueError, KeyError, TypeError):
            return None  # truncated by a full disk, or not from Kore
        if level < min_level:
            return None
        return str(redact(text if args.json else _readable(entry)))

    return read_line


def _readable(entry: dict[str, Any]) -> str:
    standard = ("ts", "level", "logger", "text", "traceback")
    facts = "".join(f" {name}={value}" for name, value in entry.items() if name not in standard)
    at = _when(entry.get("ts"))
    line = f"{at} {entry['level']:<7} {clean(str(entry.get('text', '')))}{clean(facts)}"
    trace = entry.get("traceback")
    return f"{line}\n{clean_lines(str(trace))}" if trace else line


def _when(stamp: Any) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(stamp)))
    except (TypeError, ValueError, OverflowError, OSError):
        return "?"


def _follow(file: Path, position: int) -> Iterator[bytes]:
    """Yield complete lines as they are written, across rotated files."""
    stream, inode, rest = None, None, b""
    while True:
        if stream is None and file.exists():
            stream = file.open("rb")
            inode = os.fstat(stream.fileno()).st_ino
            stream.seek(position)
            position = 0
        chunk = stream.read(_CHUNK_BYTES) if stream else b""
        if chunk:
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            continue
        if stream is not None and (not file.exists() or file.stat().st_ino != inode):
            stream.close()
            stream = None
            continue
        sys.stdout.flush()
        time.sleep(_POLL_INTERVAL_S)
