"""What a program prints, which arrives in pieces cut anywhere, as lines."""

from collections import deque

from gateway.cli.console.output.text import last_printed

_LINE_CHARS = 10_000


class LineBuffer:
    """`feed` it pieces; whole lines come out, and `latest` is the newest of them with the one that
    is being written. A carriage return begins a line anew, as on any terminal."""

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
        """The line that was not ended, if there is one."""
        rest, self._rest = self._rest, ""
        return [last_printed(rest)] if rest else []

    @property
    def latest(self) -> list[str]:
        rest = last_printed(self._rest)
        return [*self._recent, *([rest] if rest.strip() else [])]
