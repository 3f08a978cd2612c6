"""Plain text for any screen: program output, durations and shortened lines."""

import re
from collections import deque
from pathlib import Path

from agent.errors import KoreError
from agent.text.visible import escape_invisible

MAX_LINE_CHARS = 200
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_MAX_BUFFERED_CHARS = 10_000


def without_ansi(text: str) -> str:
    """Return program output without colours and cursor movements."""
    return escape_invisible(_ANSI.sub("", text))


def last_printed(line: str) -> str:
    """Return the final text of a line, without overwritten parts."""
    return without_ansi(line.rstrip("\r").rpartition("\r")[2])


def seconds(elapsed_s: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `3:07 min`."""
    if elapsed_s < 10:
        return f"{elapsed_s:.1f} s"
    if elapsed_s < 60:
        return f"{elapsed_s:.0f} s"
    return f"{int(elapsed_s) // 60}:{int(elapsed_s) % 60:02} min"


def whole_seconds(elapsed_s: float) -> str:
    """Format a duration that is still growing, without tenths: `4 s`, `3:07 min`."""
    return seconds(int(elapsed_s)).replace(".0", "")


def complaint(error: KoreError) -> str:
    """Return an error as a sentence, with the hint below it."""
    return escape_invisible(f"kore: {error}" + (f"\n      {error.hint}" if error.hint else ""))


def home_relative(path: str, home: str | None = None) -> str:
    """Return a path with `~` for the home folder, by default this user's."""
    home = str(Path.home()) if home is None else home
    is_inside = path == home or path.startswith(f"{home.rstrip('/')}/")
    return f"~{path[len(home) :]}" if is_inside and home != "/" else path


def one_line(text: str) -> str:
    """Return the text on one line of limited length."""
    return shorten(" ".join(text.split()))


def shorten(line: str, limit: int = MAX_LINE_CHARS) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"


class LineBuffer:
    """Splitter of program output into lines (`feed`).

    `latest` are the newest lines including the unfinished one. A carriage return restarts the line,
    as on any terminal.
    """

    def __init__(self, max_lines: int = 0) -> None:
        self._recent: deque[str] = deque(maxlen=max_lines)
        self._rest = ""

    def feed(self, piece: str) -> list[str]:
        *complete, self._rest = (self._rest + piece).split("\n")
        if len(self._rest) > _MAX_BUFFERED_CHARS:
            complete.append(self._rest)
            self._rest = ""
        lines = [last_printed(line) for line in complete]
        self._recent += (line for line in lines if line.strip())
        return lines

    def finish(self) -> list[str]:
        """Return the unfinished line, if there is one."""
        rest, self._rest = self._rest, ""
        return [last_printed(rest)] if rest else []

    @property
    def latest(self) -> list[str]:
        rest = last_printed(self._rest)
        return [*self._recent, *([rest] if rest.strip() else [])]
