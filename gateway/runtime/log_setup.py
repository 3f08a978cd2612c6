"""Structured logs: JSON lines in a file and readable lines on stderr, without secrets."""

import json
import logging
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from agent.security.redaction import Redactor
from gateway.config import Settings

_ENCODER = json.JSONEncoder(default=str)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formatter with one JSON object per line: ts (Unix seconds), level, logger, text, `extra`."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return self._redactor.clean(_ENCODER.encode(line))


class TextFormatter(logging.Formatter):
    """Formatter for people at the terminal."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={value}" for name, value in _extra(record).items())
        return self._redactor.clean(super().format(record) + facts)


def open_logs(
    settings: Settings, redactor: Redactor, *, terminal: bool, default_file: Path | None = None
) -> None:
    """Set up logging for this process, once, from the main program.

    The file is `logging.file`, else `default_file`; it has mode 0600 and is rotated. `redactor`
    cleans each line.
    """
    handlers: list[logging.Handler] = []
    file = settings.logging.file or default_file
    if file is not None:
        rotating = _rotating(file, settings)
        rotating.setFormatter(JsonFormatter(redactor))
        handlers.append(rotating)
    if terminal:
        stream = logging.StreamHandler(sys.stderr)
        stream.setFormatter(TextFormatter(redactor))
        handlers.append(stream)
    # No format uses the source line, the thread or the process, which would be looked up each time.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # https://docs.python.org/3/howto/logging.html#optimization
    logging._srcfile = None
    # A line that cannot be written (a full disk) is dropped without a traceback.
    logging.raiseExceptions = False
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers or [logging.NullHandler()]:
        root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for ours in ("agent", "gateway"):
        logging.getLogger(ours).setLevel(settings.logging.level.upper())


def _rotating(file: Path, settings: Settings) -> logging.Handler:
    """Return a handler whose files, including rotated ones, have mode 0600."""
    from logging.handlers import RotatingFileHandler

    class Private(RotatingFileHandler):
        def _open(self) -> TextIOWrapper:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self.baseFilename, flags, 0o600)
            return open(descriptor, "a", encoding="utf-8")

        def shouldRollover(self, record: logging.LogRecord) -> bool:
            # The original formats each record to compute its length, but one line above the limit
            # does no harm.
            return self.stream is not None and self.stream.tell() >= self.maxBytes

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    size_bytes = settings.logging.file_mb * 1_000_000
    return Private(file, maxBytes=size_bytes, backupCount=settings.logging.files_kept)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
