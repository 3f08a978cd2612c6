"""Links in an answer that could carry something private away when they are followed.

They are not taken away: each address is shown letter by letter, as code that nothing follows.
Markdown has many ways to put an address together, so what is left is looked at once more without
its marks. Where that shows an address, the whole answer is shown as code.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

# A block of code that stands for itself: one in a list or a quotation may end with that.
_BLOCK = re.compile(
    r"^(?:(?P<ticks>`{3,}+)[^`\n]*+\n.*?(?:^ {0,3}(?P=ticks)`*[ \t]*$|\Z)"
    r"|(?P<waves>~{3,}+)[^\n]*+\n.*?(?:^ {0,3}(?P=waves)~*[ \t]*$|\Z))",
    re.DOTALL | re.MULTILINE,
)
# What may make something else of such a block: HTML, front matter, another fence.
_UNSURE = re.compile(
    r"^[ \t>*+\d.)-]*<[a-z!?/]|^(?:---|\+\+\+)[ \t]*$|`{3}|~{3}", re.IGNORECASE | re.MULTILINE
)
# A line on which nothing but backticks says what is code.
PLAIN_LINE = re.compile(r"(?:[^`\\<\[\]$|\n]|`[^`|\n]+`)*+")
_SPAN = re.compile(r"`[^`\n]+`")
_TICKS = re.compile(r"`+")
# Shown as blanks, so that they separate here what they separate there.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

_REST = r"[^\s<>\"`|\\^{}\[\]]"
_NAME = r"(?:[\w-]+\.)+[^\W\d_][\w-]+\.?"
_ADDRESS = (
    rf"(?:(?<![a-z0-9+.-])[a-z0-9+.-]+://|www\.|mailto:|tel:){_REST}+"
    rf"|(?<![\w.+-])[\w.+-]+@{_NAME}{_REST}*"
    # Of two names alone, as in `main.py`, the last but one cannot be made up.
    rf"|(?<![\w.-])(?:{_NAME}(?=/|[?#]\S|:\d)|(?:[\w-]+\.){{2,}}[^\W\d_][\w-]+){_REST}*"
    rf"|(?<![\w.-])\d{{1,3}}(?:\.\d{{1,3}}){{3}}[/?#:]{_REST}*"
)
_TITLE = r"(?:\s{1,3}(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'))?"
# An answer that is shown while it grows may end within a link.
_LINK = re.compile(
    rf"\]\(\s{{0,3}}(?:<(?P<angled>[^<>`\n]{{0,2000}})>"
    rf"|(?P<target>(?:[^\s()<>`]|\([^\s()<>`]{{0,200}}\)){{0,2000}})){_TITLE}\s{{0,3}}(?:\)|\Z)"
    rf"|^ {{0,3}}\[(?!\^)[^\]\n`]{{1,200}}\]:[ \t]{{0,3}}"
    rf"(?P<definition>[^\s`]{{1,2000}}){_TITLE}[ \t]*$"
    rf"|<(?P<auto>[a-z0-9+.-]{{1,30}}:[^\s<>`]{{1,2000}})>"
    rf"|(?P<bare>{_ADDRESS})",
    re.IGNORECASE | re.MULTILINE,
)
_TAIL = ".,;:!?)'*_~"
_LABEL_CHARS = 500

# Where an address that may stay has been: whatever follows at once would be part of it.
_ALLOWED_MARK = "\0"
# Where one was that is code now: what stands before it must not make a link of its marks.
_DEFUSED_MARK = "\1"
_MARKS = re.compile(r"<[^>\n]{0,500}>|\|\||[\\*_~\[\]\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_ASSEMBLED = re.compile(
    rf"{_ADDRESS}|{_ALLOWED_MARK}[.,;:!?']*[\w/?#&=%@+-]|(?://|(?:https?|wss?|ftp):){_DEFUSED_MARK}",
    re.IGNORECASE | re.MULTILINE,
)
_OPEN = re.compile(r"\]\(|\[(?!\^)[^\]]{1,200}\]:")
_BARE = re.compile(_ADDRESS, re.IGNORECASE)


def addresses(text: str) -> Iterator[tuple[int, int]]:
    """Where addresses stand in a text without marks, which a screen may make links of."""
    for match in _BARE.finditer(text):
        yield match.start(), match.start() + len(match[0].rstrip(_TAIL))


def defuse_links(markdown: str, is_shown: Callable[[str], bool]) -> str:
    """`markdown` with every link shown as plain code, but for addresses that `is_shown` knows:
    those stand like this in what the person or a stranger wrote and hold nothing new."""
    markdown = CONTROL.sub(" ", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    # Longer than any other run of backticks, so that it can only pair with itself.
    ticks = "`" * (longest_ticks(markdown) + 1)
    output = []
    for text, is_code in _parts(markdown):
        if is_code:
            output.append(text)
            continue
        read = LinkText(text, ticks, is_shown)
        if read.hides_more():
            fence = ticks.ljust(3, "`")
            return f"{fence}\n{markdown}\n{fence}"
        output.append(read.defused)
    return join_pieces(output)


def join_pieces(pieces: Iterable[str]) -> str:
    """Return the pieces as one text in which marks of code that meet stay two marks."""
    text = ""
    for piece in pieces:
        text += f" {piece}" if text.endswith("`") and piece.startswith("`") else piece
    return text


def longest_ticks(markdown: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, _TICKS.findall(markdown)), default=0)


def spans(text: str) -> list[tuple[str, bool]]:
    """Return the text in pieces, and of each whether it is a span of code. Only on lines that are
    all `PLAIN_LINE` this is certain."""
    return _split(text, _SPAN)


def _parts(markdown: str) -> list[tuple[str, bool]]:
    """The text in pieces, and of each whether it is code beyond doubt."""
    parts = _split(markdown, _BLOCK)
    if any(_UNSURE.search(text) for text, is_code in parts if not is_code):
        return [(markdown, False)]
    lines = [line for text, is_code in parts if not is_code for line in text.split("\n")]
    if not all(map(PLAIN_LINE.fullmatch, (line for line in lines if "`" in line))):
        return parts
    return [
        piece for text, is_code in parts for piece in ([(text, True)] if is_code else spans(text))
    ]


def _split(text: str, pattern: re.Pattern[str]) -> list[tuple[str, bool]]:
    bounds = [0, *(at for match in pattern.finditer(text) for at in match.span()), len(text)]
    return [(text[start:end], n % 2 == 1) for n, (start, end) in enumerate(pairwise(bounds))]


class LinkText:
    """Text with links: `shown` is what people get of it, `_rest` what is left without them."""

    def __init__(self, text: str, ticks: str, is_shown: Callable[[str], bool]) -> None:
        self._text, self._ticks, self._is_shown = text, ticks, is_shown
        self._output: list[str] = []
        self._rest: list[str] = []
        end = 0
        for match in _LINK.finditer(text):
            before = text[end : match.start()]
            end = match.end()
            self._rest.append(before)
            if (bare := match["bare"]) is not None:
                self._bare(before, bare, end)
            elif (address := match["definition"] or match["auto"]) is not None:
                is_allowed = self._is_shown(address)
                self._output += [
                    before,
                    match[0] if is_allowed else self._code(address, before, end),
                ]
                self._rest.append(f"{_DEFUSED_MARK} ")
            else:
                self._add_labelled(before, match[0], match["angled"] or match["target"] or "")
        self._rest.append(text[end:])
        self.defused = "".join([*self._output, text[end:]])

    def hides_more(self) -> bool:
        """Whether marks put another address together, or make one a part of something."""
        rest = "".join(self._rest)
        if self._output and _OPEN.search(rest):
            return True
        return _ASSEMBLED.search(_MARKS.sub("", html.unescape(rest))) is not None

    def _bare(self, before: str, bare: str, end: int) -> None:
        address = bare.rstrip(_TAIL)
        tail = bare[len(address) :]
        if self._is_shown(address):
            self._output += [before, bare]
            self._rest += [_ALLOWED_MARK, tail]
        else:
            self._output += [before, self._code(address, before, end - len(tail)), tail]
            self._rest += [f"{_DEFUSED_MARK} ", tail]

    def _add_labelled(self, before: str, link: str, target: str) -> None:
        if self._is_shown(target):
            self._output += [before, link]
            return
        label = before.rfind("[", -_LABEL_CHARS)
        address = f"({self._ticks}{target}{self._ticks})"
        if label < 0:
            self._output += [before, f"] {address}"]
        else:
            label_text = before[label + 1 :]
            self._output += [before[:label].removesuffix("!"), f"{label_text} {address}".lstrip()]
        self._rest.append(" ")

    def _code(self, address: str, before: str, end: int) -> str:
        # A mark that touches would become part of it, or take its meaning away.
        before = before or "".join(self._output[-3:])
        left = " " if before.endswith(("\\", "`")) else ""
        right = " " if self._text[end : end + 1] == "`" else ""
        return f"{left}{self._ticks}{address}{self._ticks}{right}"
