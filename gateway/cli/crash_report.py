"""Crash reports: a sentence for the person, the full traceback in a file."""

import os
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.errors import ConfigError
from agent.security.redaction import Redactor
from gateway.runtime.paths import find_data_dir, write_private


@dataclass(slots=True)
class CrashReport:
    """Handler for `sys.excepthook`; `redactor` removes secrets from the traceback."""

    home: Path | None
    redactor: Redactor = field(default_factory=Redactor)

    @classmethod
    def install(cls, home: Path | None) -> Self:
        report = cls(home)
        sys.excepthook = report.write
        return report

    def write(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        text = self.redactor.clean("".join(traceback.format_exception(kind, error, trace)))
        try:
            path = self._save(text)
        except (OSError, ConfigError) as exc:
            sys.stderr.write(
                f"{text}\nkore: this is a bug in Kore, and no log could be written: {exc}\n"
            )
            return
        sys.stderr.write(
            f"kore: this is a bug in Kore ({kind.__name__}); the details are in {path}\n"
        )

    def _save(self, text: str) -> Path:

        home = find_data_dir(os.environ, self.home)
        home.ensure()
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = home.logs / f"crash-{stamp}-{os.getpid()}.log"
        write_private(path, text.encode(errors="backslashreplace").decode())
        return path
