"""Splitter for streamed markdown: blocks that will not change any more."""

import re

_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")


class MarkdownBlocks:
    """Splitter of markdown deltas into final blocks; `tail` is the unfinished text.

    A block ends at a blank line before text at the margin, or at the end of its fence: indented
    text may still belong to a list.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._fence: str | None = None
        self._after_blank = False

    @property
    def tail(self) -> str:
        return "\n".join([*self._lines, self._partial]).strip("\n")

    @property
    def open_fence(self) -> str | None:
        """Opening line of the fence that contains the tail."""
        return self._opening if self._fence else None

    def feed(self, text: str) -> list[str]:
        finished: list[str] = []
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._begin_line(line, finished)
            self._end_line(line, finished)
        self._begin_line(self._partial, finished)
        return finished

    def finish(self) -> str:
        """Return the tail and reset the splitter."""
        rest = self.tail
        self.__init__()  # type: ignore[misc]  # back to the start
        return rest

    def _begin_line(self, line: str, finished: list[str]) -> None:
        if line[:1].strip() and self._after_blank and self._fence is None:
            self._close(finished)

    def _end_line(self, line: str, finished: list[str]) -> None:
        self._lines.append(line)
        self._after_blank = not line.strip()
        match = _FENCE.fullmatch(line)
        if match is None:
            return
        marks, rest = match.groups()
        if self._fence is None:
            self._fence, self._opening = marks, line
        elif marks.startswith(self._fence) and not rest.strip():
            self._fence = None
            if not line[:1].isspace():
                self._close(finished)

    def _close(self, finished: list[str]) -> None:
        block = "\n".join(self._lines).strip("\n")
        self._lines.clear()
        self._after_blank = False
        if block:
            finished.append(block)
