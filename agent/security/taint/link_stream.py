"""Links in a growing answer, defused before anybody is shown them.

What is harmless in any surroundings leaves word by word. A word that may be part of a longer link
(brackets, tags, code) waits for the end of its line, or of its paragraph where the line leaves
something open. The pieces depend on the text alone and never on how it arrives, so the stored
answer is the same as the streamed one.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from agent.security.taint.link_defusing import (
    CONTROL,
    PLAIN_LINE,
    LinkText,
    join_pieces,
    longest_ticks,
    spans,
)

_OPENING = re.compile(r"(?P<ticks>`{3,}+)[^`\n]*\n|(?P<waves>~{3,}+)[^\n]*\n")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"(?:[^\s\[\]<`]|<(?=[\s=\d]))+(?=\s)")
_PARAGRAPH_END = re.compile(r"\n(?:[ \t]*\n|(?=`{3}|~{3}))")
# A line that leaves nothing open for the next one.
_SETTLED = re.compile(
    r"(?:[^`\\<\[\]$|\n]|<(?=[\s=\d])|`[^`|\n]+`"
    r"|\[[^\[\]`\n]*+\](?:\([^()\s<>`]*+\))?(?![(:\[]))*+\n"
)
# What makes it uncertain which of the following text is code: HTML, and blocks that are no plain
# ones. At the start of a text also what some renderers take for front matter.
_UNSURE = re.compile(r"^[ \t>*+\d.)-]*<[a-z!?/]|`{3}|~{3}", re.IGNORECASE | re.MULTILINE)
_FRONT_MATTER = re.compile(r"\s*(?:---|\+\+\+)[ \t]*(?:\n|\Z)")
# No address is without a dot or a colon, which an entity may stand for.
_HARMLESS = re.compile(r"[^.:&\[\]<`~+-]*+")
_SPECIAL = re.compile(r"[\\<$|]")
_JOINT = re.compile(r"[.:@&/?#](?=\S)")
# What decides about a line is at its start.
_LINE_START = 100


class LinkStream:
    """One reply. `earlier` are the replies that a screen may show in one text with it."""

    def __init__(self, is_shown: Callable[[str], bool], earlier: Iterable[str] = ()) -> None:
        self._is_shown = is_shown
        self._pending = ""
        # A carriage return: the next letter says which kind of line end it is.
        self._return = ""
        # The start of the line as far as it has left, and whether it could be part of a formula, a
        # table or a tag. `_has_begun`: more than blanks has left.
        self._line = ""
        self._is_line_plain = True
        self._has_begun = False
        # The marks that end the block of code which has begun.
        self._fence = ""
        self._longest_ticks = 0
        self._is_unsure = False
        self._are_spans_sure = True
        for text in earlier:
            self.feed(text)
            # An earlier text may be out already with its block open.
            is_open = bool(self._fence)
            self.end()
            self._is_unsure |= is_open

    def feed(self, text: str) -> str:
        """Return what may be shown by now."""
        text = f"{self._return}{text}"
        self._return = "\r" if text.endswith("\r") else ""
        is_waiting = bool(self._pending) and not self._fence
        self._hold(text.removesuffix("\r"))
        if is_waiting and _SPACE.search(text) is None:
            # Every piece outside of code ends with a blank.
            return ""
        return "".join(self._pieces(is_end=False))

    def end(self) -> str:
        """Return what was held back. A block of code that is open is closed, so that no later text
        is part of it."""
        self._hold(self._return)
        output = "".join(self._pieces(is_end=True))
        if self._fence:
            output += f"{'' if not self._line else chr(10)}{self._fence}"
        self._fence = self._line = self._return = ""
        self._is_line_plain, self._has_begun = True, False
        return output

    def _hold(self, text: str) -> None:
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        self._pending += CONTROL.sub(" ", lines)

    def _pieces(self, *, is_end: bool) -> Iterator[str]:
        at = 0
        while at < len(self._pending):
            end = self._code_end(at, is_end) if self._fence else self._end(at, is_end)
            if end == at:
                break
            piece, at = self._pending[at:end], end
            yield self._code(piece) if self._fence else self._text(piece)
            self._follow_line(piece)
        self._pending = self._pending[at:]

    def _follow_line(self, piece: str) -> None:
        _, is_new, rest = piece.rpartition("\n")
        if is_new:
            self._line, self._is_line_plain = "", True
        self._line = f"{self._line}{rest}"[:_LINE_START]
        self._is_line_plain &= _SPECIAL.search(rest) is None

    def _code_end(self, at: int, is_end: bool) -> int:
        """Return the end of the next piece within a block of code: a line, or what of it cannot be
        the end of the block."""
        line = self._pending.find("\n", at) + 1
        if line or is_end:
            return line or len(self._pending)
        is_code = self._line or self._pending[at:].strip(" ")[:1] not in ("", self._fence[0])
        return len(self._pending) if is_code else at

    def _code(self, piece: str) -> str:
        self._longest_ticks = max(self._longest_ticks, longest_ticks(piece))
        mark = self._fence[0]
        end = rf" {{0,3}}{mark}{{{len(self._fence)},}}[ \t]*\n?"
        if not self._line and re.fullmatch(end, piece):
            self._fence = ""
        return piece

    def _end(self, at: int, is_end: bool) -> int:
        """Return the end of the next piece outside of code, `at` while it is unknown."""
        pending = self._pending
        if (space := _SPACE.match(pending, at)) is not None:
            return space.end()
        has_line = pending.find("\n", at) >= 0
        if not self._line and pending.startswith(("`", "~"), at):
            if (opening := _OPENING.match(pending, at)) is not None:
                return opening.end()
            if not has_line and not is_end:
                return at
        if (word := _WORD.match(pending, at)) is not None:
            return word.end()
        if has_line:
            if (line := _SETTLED.match(pending, at)) is not None:
                return line.end()
            if (paragraph := _PARAGRAPH_END.search(pending, at)) is not None:
                return paragraph.end()
        return len(pending) if is_end else at

    def _text(self, piece: str) -> str:
        if _HARMLESS.fullmatch(piece) is not None:
            self._has_begun |= not piece.isspace()
            return piece
        opening = None if self._line or self._is_unsure else _OPENING.fullmatch(piece)
        self._longest_ticks = max(self._longest_ticks, longest_ticks(piece))
        if opening is not None:
            self._fence = opening["ticks"] or opening["waves"]
            self._has_begun = True
            return piece
        if not self._has_begun:
            self._is_unsure |= _FRONT_MATTER.match(f"{self._line}{piece}") is not None
            self._has_begun = True
        if any(mark in piece for mark in "<`~"):
            self._is_unsure |= _UNSURE.search(f"{self._line}{piece}") is not None
        if "`" in piece:
            lines = [line for line in piece.split("\n") if "`" in line]
            is_first_plain = self._is_line_plain or "`" not in piece.partition("\n")[0]
            self._are_spans_sure &= is_first_plain and all(map(PLAIN_LINE.fullmatch, lines))
        is_code_sure = self._are_spans_sure and not self._is_unsure
        # Blanks at the end may look like a part of a link.
        text = piece.rstrip()
        output = self._defused(text, spans(text) if is_code_sure else [(text, False)])
        return f"{output}{piece[len(text) :]}"

    def _defused(self, piece: str, parts: Iterable[tuple[str, bool]]) -> str:
        ticks = "`" * (self._longest_ticks + 1)
        output = []
        for text, is_code in parts:
            if is_code:
                output.append(text)
                continue
            read = LinkText(text, ticks, self._is_shown)
            if read.hides_more():
                return self._shown_as_code(piece, ticks)
            output.append(read.defused)
        return join_pieces(output)

    def _shown_as_code(self, piece: str, ticks: str) -> str:
        if self._is_unsure:
            # No fence is sure to open here. Without its joints no address is one.
            return _JOINT.sub(r"\g<0> ", piece)
        fence = ticks.ljust(3, "`")
        self._longest_ticks = max(self._longest_ticks, len(fence))
        before = "\n" if self._line else ""
        return f"{before}{fence}\n{piece}\n{fence}\n"
