"""Structured logs: JSON lines to a file, a readable line to stderr, and no secret in either."""

import json
import logging
import logging.handlers
import sys
from pathlib import Path
from typing import Any

from gateway.secrets import redact, secret_values
from gateway.settings import Settings

FILE_LIMIT_BYTES = 10_000_000
FILES_KEPT = 5
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line: ts (Unix seconds), level, logger, text, and what `extra` gave."""

    def __init__(self, secrets: list[str]) -> None:
        super().__init__()
        self._secrets = secrets

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
        return redact(json.dumps(line, ensure_ascii=True, default=str), self._secrets)


class Readable(logging.Formatter):
    """What somebody who watches the terminal reads."""

    def __init__(self, secrets: list[str]) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={value}" for name, value in _extra(record).items())
        return redact(super().format(record), self._secrets) + redact(facts, self._secrets)


def open_logs(settings: Settings, *, terminal: bool, default_file: Path | None = None) -> None:
    """Set up logging for this process, once, from the main program.

    The file is `logging.file`, else `default_file`; it is made with mode 0600 and rotated.
    """
    secrets = secret_values(settings)
    handlers: list[logging.Handler] = []
    file = settings.logging.file or default_file
    if file is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        rotating = logging.handlers.RotatingFileHandler(
            file, maxBytes=FILE_LIMIT_BYTES, backupCount=FILES_KEPT, encoding="utf-8"
        )
        rotating.setFormatter(JsonLines(secrets))
        handlers.append(rotating)
    if terminal:
        stream = logging.StreamHandler(sys.stderr)
        stream.setFormatter(Readable(secrets))
        handlers.append(stream)
    # A line that cannot be written (a full disk) is left out, and no traceback takes its place.
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


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
