"""Line buffer for program output that arrives in chunks."""

from collections import deque

from gateway.cli.console.output.text import last_printed

_LINE_CHARS = 10_000


class LineBuffer:
    """Splits output into lines (`feed`).

    `latest` are the newest lines including the unfinished one. A carriage return restarts the line,
    as on any terminal.
    """

    def __init__(self, most_lines: int = 0) -> None:
        self._recent: deque[str] = deque(maxlen=most_lines)
        self._rest = ""

    def feed(self, piece: str) -> list[str]:
        *complete, self._rest = (self._rest + piece).split("\n")
        if len(self._rest) > _LINE_CHARS:
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
