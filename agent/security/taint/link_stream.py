"""Streaming removal of links from a growing answer, before it is shown.

Text that is harmless in any context is released word by word. A word that may be part of a longer
link (brackets, tags, code) waits for the end of its line, or of its paragraph if the line leaves
something open. The pieces depend only on the text and not on how it arrives, so the stored answer
equals the streamed one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from agent.security.taint.link_defusing import (
    CONTROL,
    LinkText,
    break_openings,
    break_pictures,
    join_pieces,
    longest_ticks,
    spans,
)

# Not all renderers support blocks between tildes.
_OPENING = re.compile(r"(?P<ticks>`{3,}+)[^`\n]*\n")
_FENCE_END = re.compile(r" {0,3}(?P<ticks>`{3,}+)[ \t]*(?P<more>.*)")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"(?:[^\s\[\]<`]|<(?=[\s=\d]))+(?=\s)")
_PARAGRAPH_END = re.compile(r"\n(?:[ \t]*\n|(?=`{3}|~{3}))")
# A line that leaves nothing open for the next one.
_SETTLED = re.compile(
    r"(?:[^`\\<\[\]$|\n]|<(?=[\s=\d])|`[^`|\n]+`"
    r"|\[[^\[\]`\n]*+\](?:\([^()\s<>`]*+\))?(?![ \t]*[(:\[\n]))*+\n"
)
# Text after which it is uncertain what is code: blocks of code other than plain ones, and formulas
# over several lines, which commands may also begin. At the start of a text, also what some
# renderers treat as front matter.
_UNSURE = re.compile(r"`{3}|~{3}|\$\$")
_COMMAND = re.compile(r"\\[A-Za-z(\[]")
# A line may begin a block that only some renderers support, and in which code marks have no
# meaning. Only the following beginnings are known not to do so; a doubled mark begins blocks in
# many dialects.
_IN_LIST = r"(?:[ \t>]|(?:[-*+]|\d{1,9}[.)])(?=\s|\Z))*+"
_PLAIN_START = (
    r"(?:\Z|\n|[^\W_]|[^\x00-\x7f]|#{1,6}(?=\s|\Z)|(?:-{3,}|\*{3,}|_{3,})[ \t]*(?:\n|\Z)"
    r"|`|\*{2,3}(?!\*)|__(?!_)|~~(?!~)|\|\|(?!\|)|(?P<mark>[\"'(\[<$!/@.~*_|#+\\-])(?!(?P=mark)))"
)
_ODD_LINE = re.compile(rf"^(?!{_IN_LIST}{_PLAIN_START})", re.MULTILINE)
# A rule with a line below it begins data in some dialects.
_RULE = re.compile(r"-{3,}[ \t]*")
_DATA = re.compile(r"^-{3,}[ \t]*\n(?=[ \t]*\S)", re.MULTILINE)
# In an earlier reply that was already sent, a tag may be open too.
_TAG = re.compile(r"<[a-z!?/]", re.IGNORECASE)
# Text in which only backticks decide what is code: no backslash, no formula, and no end of a table
# cell within a span.
_PLAIN = re.compile(r"(?:[^`\\$]|\\(?![`(\[A-Za-z])|`[^`|\n]+`(?!`))*+")
# Some screens show the info string of a code block, except for the language, as text.
_MORE_INFO = re.compile(r"(`{3,}+[ \t]*+[\w+#.-]*+)[ \t]*+(\S.*)")
_FRONT_MATTER = re.compile(r"\s*(?:---|\+\+\+)[ \t]*(?:\n|\Z)")
# Text without a dot or colon, and without entities for them, contains no address.
_HARMLESS = re.compile(r"[^.:&\[\]<`~+\\$-]*+")
_JOINT = re.compile(r"[.:@&/?#](?=\S)")
# Some renderers do not pair longer marks.
_MAX_TICKS = 40
# The start of a line decides how it is rendered.
_LINE_START = 100


def no_address(address: str) -> bool:
    return False


class LinkStream:
    """Stream that defuses the links of one reply.

    `earlier` contains the replies that a screen may show in one text with it. Some screens put
    nothing between replies, so the paragraph break before the reply is part of it. Links stay if
    `is_shown` accepts the address, pictures if the address `is_own` (the person's).
    """

    def __init__(
        self,
        is_shown: Callable[[str], bool],
        earlier: Iterable[str] = (),
        *,
        is_own: Callable[[str], bool] = no_address,
    ) -> None:
        self._is_shown, self._is_own = is_shown, is_own
        self._pending = ""
        # A carriage return: the next character decides the kind of line end.
        self._return = ""
        # Released start of the current line. `_has_begun`: more than whitespace has been released.
        self._line = ""
        self._has_begun = False
        self._is_behind_rule = False
        # Opening marks of the current code block.
        self._fence = ""
        self._longest_ticks = 0
        self._is_unsure = False
        # Code spans end with their paragraph.
        self._are_spans_sure = True
        # A formula of the paragraph may contain code marks.
        self._has_formula = False
        self._is_out = True
        # Whitespace at the end of the earlier replies; None without earlier replies, and after the
        # first character of this reply.
        self._gap: str | None = None
        self._held_blanks = ""
        earlier_text = ""
        for text in earlier:
            earlier_text += text
            self.feed(text)
            # An earlier reply may have been sent with an open block.
            is_open = bool(self._fence)
            self.end()
            self._is_unsure |= is_open
        self._is_out = False
        if earlier_text:
            self._gap = earlier_text[len(earlier_text.rstrip()) :]

    def feed(self, text: str) -> str:
        """Return the text that may be shown so far."""
        return self._separated(self._fed(text), is_end=False)

    def end(self) -> str:
        """Return the withheld text.

        An open code block is closed, so that later text is not part of it.
        """
        return self._separated(self._ended(), is_end=True)

    def _separated(self, text: str, *, is_end: bool) -> str:
        if self._gap is None:
            return text
        text = f"{self._held_blanks}{text}"
        blanks = text[: len(text) - len(text.lstrip())]
        if blanks == text:
            self._held_blanks = "" if is_end else text
            return text if is_end else ""
        is_apart = _BLANK_LINE.search(f"{self._gap}{blanks}") is not None
        self._gap = None
        return text if is_apart else f"\n\n{text}"

    def _fed(self, text: str) -> str:
        text = f"{self._return}{text}"
        self._return = "\r" if text.endswith("\r") else ""
        is_waiting = bool(self._pending) and not self._fence
        self._hold(text.removesuffix("\r"))
        if is_waiting and _SPACE.search(text) is None:
            # Every piece outside code ends with whitespace.
            return ""
        return "".join(self._pieces(is_end=False))

    def _ended(self) -> str:
        self._hold(self._return)
        output = "".join(self._pieces(is_end=True))
        if self._fence:
            output += f"{'' if not self._line else chr(10)}{self._fence}"
        self._fence = self._line = self._return = ""
        self._are_spans_sure, self._has_formula, self._has_begun = True, False, False
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
            if self._fence:
                yield self._code(piece)
            else:
                self._look_at_lines(piece)
                yield self._text(piece)
            self._follow_line(piece)
        self._pending = self._pending[at:]

    def _look_at_lines(self, piece: str) -> None:
        lines = f"{self._line}{piece}"
        self._is_unsure |= _ODD_LINE.search(lines) is not None
        self._is_unsure |= self._is_behind_rule and not lines.isspace()
        self._is_unsure |= _DATA.search(lines) is not None

    def _follow_line(self, piece: str) -> None:
        *lines, rest = f"{self._line}{piece}".split("\n")
        self._line = rest[:_LINE_START]
        if lines:
            self._is_behind_rule = _RULE.fullmatch(lines[-1]) is not None
        if any(not line or line.isspace() for line in lines):
            self._are_spans_sure, self._has_formula = True, False

    def _code_end(self, at: int, is_end: bool) -> int:
        """Return the end of the next piece within a code block.

        A piece is a line, or a part of a line that cannot be the end of the block.
        """
        line = self._pending.find("\n", at) + 1
        if line or is_end:
            return line or len(self._pending)
        is_code = self._line or self._pending[at:].strip(" ")[:1] not in ("", self._fence[0])
        return len(self._pending) if is_code else at

    def _code(self, piece: str) -> str:
        self._longest_ticks = max(self._longest_ticks, longest_ticks(piece))
        end = _FENCE_END.match(piece) if not self._line else None
        if end is None or len(end["ticks"]) < len(self._fence):
            return piece
        fence, self._fence = self._fence, ""
        if not end["more"]:
            return piece
        # Some renderers end the block here, others treat it as code.
        self._is_unsure = True
        return f"{fence}\n{self._text(piece)}"

    def _end(self, at: int, is_end: bool) -> int:
        """Return the end of the next piece outside code, or `at` while it is unknown."""
        pending = self._pending
        if (space := _SPACE.match(pending, at)) is not None:
            return space.end()
        has_line = pending.find("\n", at) >= 0
        if not self._line and not self._is_unsure and pending.startswith("`", at):
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
            self._fence = opening["ticks"]
            self._has_begun = self._are_spans_sure = True
            self._has_formula = False
            return _MORE_INFO.sub(r"\1\n\2", piece)
        if not self._has_begun:
            self._is_unsure |= _FRONT_MATTER.match(f"{self._line}{piece}") is not None
            self._has_begun = True
        self._is_unsure |= _UNSURE.search(f"{self._line}{piece}") is not None
        self._is_unsure |= self._is_out and _TAG.search(piece) is not None
        self._are_spans_sure &= _PLAIN.fullmatch(piece) is not None
        has_command = not self._are_spans_sure and _COMMAND.search(piece) is not None
        self._is_unsure |= has_command
        self._has_formula |= has_command or "$" in piece
        # Trailing whitespace may look like part of a link.
        text = piece.rstrip()
        is_code_sure = self._are_spans_sure and not self._is_unsure
        output = self._defused(text, spans(text) if is_code_sure else [(text, False)])
        if is_code_sure and output.count("\\(") > text.count("\\("):
            # The backslash between `]` and `(` begins a formula for some renderers.
            self._are_spans_sure = False
            output = self._defused(text, [(text, False)])
        return f"{output}{piece[len(text) :]}"

    def _defused(self, piece: str, parts: Sequence[tuple[str, bool]]) -> str:
        output = []
        followers = [text[:1] for text, _ in parts[1:]] + [""]
        for (text, is_code), follows in zip(parts, followers, strict=True):
            if is_code:
                output.append(text)
                continue
            read = LinkText(
                text,
                self._is_shown,
                is_own=self._is_own,
                ticks=self._longest_ticks + 1,
                # After an unpaired mark, some renderers miss a second span of the same length.
                grow=not self._are_spans_sure,
                follows=follows,
            )
            is_uncertain = self._has_formula or read.ticks > _MAX_TICKS
            if read.hides_more() or (read.has_code and is_uncertain):
                return self._shown_as_code(piece)
            output.append(read.defused)
            self._longest_ticks = max(self._longest_ticks, read.ticks - 1)
        return join_pieces(output)

    def _shown_as_code(self, piece: str) -> str:
        piece = break_pictures(break_openings(piece))
        if self._is_unsure:
            # A fence may not open here. Without its joints, no text is an address.
            return _JOINT.sub(r"\g<0> ", piece)
        self._longest_ticks = max(self._longest_ticks + 1, 3)
        fence = "`" * self._longest_ticks
        before = "\n" if self._line else ""
        return f"{before}{fence}\n{piece}\n{fence}\n"


def defuse_links(
    markdown: str, is_shown: Callable[[str], bool], is_own: Callable[[str], bool] = no_address
) -> str:
    """Return the text with links and pictures shown as code.

    Links stay if `is_shown` accepts the address, pictures if the address `is_own`.
    """
    stream = LinkStream(is_shown, is_own=is_own)
    return stream.feed(markdown) + stream.end()
