"""Recorder of a part of Kore's work: `python -m bench.traced FILE VERB …`.

SIGUSR1 starts the recording; the next SIGUSR1 ends it and writes FILE: modules, statements and the
number of function calls, as JSON.
"""

import json
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from types import FrameType

from bench.process import ROOT

_ROOMS = tuple(str(ROOT / room) + os.sep for room in ("agent", "gateway", "kore"))


class Recorder:
    """Record of calls and statements.

    `calls` lists the modules of called functions by thread; `statements` lists their SQL;
    `functions` counts all calls, including library and C functions.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._is_on = False
        self._calls: dict[int, list[str]] = {}
        self._statements: list[str] = []
        self._functions = 0
        self._connections: list[sqlite3.Connection] = []

    def toggle(self, *_: object) -> None:
        if self._is_on:
            self._is_on = False
            part = self._file.with_suffix(".part")
            part.write_text(
                json.dumps(
                    {
                        "calls": [*self._calls.values()],
                        "statements": self._statements,
                        "functions": self._functions,
                    }
                )
            )
            part.rename(self._file)
        else:
            for connection in self._connections:
                connection.set_trace_callback(self._take)
            self._is_on = True

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if not self._is_on:
            return
        if event in ("call", "c_call"):
            self._functions += 1
        if event == "call" and frame.f_code.co_filename.startswith(_ROOMS):
            name = frame.f_code.co_filename
            calls = self._calls.setdefault(threading.get_ident(), [])
            if not calls or calls[-1] != name:
                calls.append(name)

    def watch(self, event: str, arguments: tuple[object, ...]) -> None:
        """Record each connection from an audit hook, which runs before the connection is usable."""
        if event == "sqlite3.connect/handle" and isinstance(arguments[0], sqlite3.Connection):
            self._connections.append(arguments[0])

    def _take(self, statement: str) -> None:
        if self._is_on:
            self._statements.append(statement)


def main() -> int:
    from gateway.__main__ import main as kore

    recorder = Recorder(Path(sys.argv.pop(1)))
    signal.signal(signal.SIGUSR1, recorder.toggle)
    sys.addaudithook(recorder.watch)
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    return kore()


if __name__ == "__main__":
    sys.exit(main())
