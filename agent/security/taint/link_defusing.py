"""Defusing of links and pictures that could exfiltrate private data.

A link needs a click; a picture is loaded without one. An address is not removed: it is shown in
full, as code, which no renderer makes a link. Links that parse unambiguously may stay. Nothing
else is interpreted: where a renderer of any dialect could begin a link, a picture, a definition or
a tag, a character is inserted, so that none begins. The remaining text is read again without its
marks; if that shows an address, the text has to be shown as code.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

_SPAN = re.compile(r"`[^`\n]+`")
_TICKS = re.compile(r"`+")
# Replaced by blanks, because renderers show them as separators.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

_REST = r"[^\s<>\"`|\\^{}\[\]]"
_NAME = r"(?:[\w-]+\.)+[^\W\d_][\w-]+\.?"
_LOCAL = r"[\w.+!#$%&/=?^{};:-]"
_URL = rf"(?<![a-z0-9+.-])[a-z0-9+.-]+://{_REST}*|(?:www\.|mailto:|tel:){_REST}+"
_SCHEMELESS_URL = r"(?<![\w:/])//(?=[^\s/<>|\[\]]*\.)[^\s<>`|]*"
_MAIL = rf"(?<!{_LOCAL}){_LOCAL}++@{_NAME}{_REST}*"
# A bare name with two labels, such as `main.py`, can hardly leak data, because domains must be
# registered.
_HOST = rf"{_NAME}(?=/|[?#]\S|:\d)|(?:[\w-]+\.){{2,}}[^\W\d_][\w-]+"
_NUMBERS = r"\d{1,3}(?:\.\d{1,3}){3}[/?#:]"
_ADDRESS = rf"{_URL}|{_SCHEMELESS_URL}|{_MAIL}|(?<![\w.-])[.-]*+(?:{_HOST}|{_NUMBERS}){_REST}*"
_TITLE = r"(?:\s{1,3}(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'))?"
# Some dialects allow spaces or a line break between `[label]` and `(address)`.
_GAP = r"[ \t]*(?:\n[ \t>]*)?"
# A target on another site needs other characters.
_HARMLESS = r"\([\w ,#=+*-]*\)(?!\{)"
# A link definition never has two plain words: `[^1]: See there`.
_PROSE = r":[ \t]+[\w'-]+,?[ \t]+[\w'-]+[.,;:!?]?(?!\S)"
# Kore's own tag leads nowhere and stays.
_OPENING = rf"\]{_GAP}(?=\()(?!{_HARMLESS})|\](?=:)(?!{_PROSE})|<(?=[a-z/!?])(?!/?promise>)"
_LINK = re.compile(
    rf"\](?P<harmless>{_HARMLESS})"
    rf"|\]\(\s{{0,3}}(?:<(?P<angled>[^<>`|\n]{{0,2000}})>"
    rf"|(?P<target>(?:[^\s()<>`|]|\([^\s()<>`|]{{0,200}}\)){{0,2000}})){_TITLE}\s{{0,3}}\)"
    rf"|<(?P<auto>[a-z0-9+.-]{{1,30}}:[^\s<>`|]{{1,2000}})>"
    rf"|(?P<opening>{_OPENING})"
    rf"|(?P<bare>{_ADDRESS})",
    re.IGNORECASE,
)
_TAIL = ".,;:!?)'*_~"
_MAX_LABEL_CHARS = 500
# Text after which the bracket of a label can be removed without creating a link, definition or tag.
_BEFORE_LABEL = re.compile(r"(?:\A|[\s(*_~\"':,;|>]|[^\x00-\x7f])\Z")
# End of an address in every renderer; some include everything up to a space.
_ENDING = re.compile(r"[.,;:!?)\]\"'*_~>]{0,4}(?!\S)")
_PLAIN_TARGET = re.compile(r"[^\s<>\[\]\\\"'`]+")

# Position of an allowed address without a scheme: text that touches it would become part of it.
_ALLOWED_MARK = "\0"
# Position of an address that is now code; a scheme right before it would make it a link again.
_DEFUSED_MARK = "\1"
# Mark of a picture, and the position of an allowed one.
_PICTURE = re.compile(r"!(?=\[)")
_PICTURE_MARK = "\2"
_MARKS = re.compile(r"\|\||[\\*_~\[\]\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_FORMULA_MARKS = re.compile(r"\\[a-z]+\s?|\\[()\[\]]|[${}^]", re.IGNORECASE)
_ASSEMBLED = re.compile(
    rf"{_ADDRESS}|[\w.@+-]{_ALLOWED_MARK}|(?://|(?:https?|wss?|ftp):){_DEFUSED_MARK}",
    re.IGNORECASE | re.MULTILINE,
)
_OPENINGS = re.compile(_OPENING, re.IGNORECASE)
_BARE = re.compile(_ADDRESS, re.IGNORECASE)


def addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each address that a screen may turn into a link.

    The text must not contain marks.
    """
    for match in _BARE.finditer(text):
        yield match.start(), match.start() + len(match[0].rstrip(_TAIL))


def join_pieces(pieces: Iterable[str]) -> str:
    """Join the pieces, with a space between adjacent code marks."""
    text = ""
    for piece in pieces:
        text += f" {piece}" if text.endswith("`") and piece.startswith("`") else piece
    return text


def longest_ticks(markdown: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, _TICKS.findall(markdown)), default=0)


def spans(text: str) -> list[tuple[str, bool]]:
    """Return the text in pieces, and for each whether it is a code span.

    This is certain only if each backtick belongs to a span on its own line.
    """
    bounds = [0, *(at for match in _SPAN.finditer(text) for at in match.span()), len(text)]
    return [(text[start:end], n % 2 == 1) for n, (start, end) in enumerate(pairwise(bounds))]


def break_openings(text: str) -> str:
    """Return the text with a character inserted in everything that could begin a link or a tag."""
    return _OPENINGS.sub(_break, text)


def break_pictures(text: str) -> str:
    """Return the text with a space inserted in everything that could begin a picture."""
    return _PICTURE.sub("! ", text)


def _break(opening: re.Match[str]) -> str:
    return f"{opening[0]} " if opening[0] == "<" else f"{opening[0]}\\"


class LinkText:
    """Text with links, parsed and defused in one pass.

    `defused` is the text for people, `_rest` the text without its links. An address becomes code
    within `ticks` backticks, with one more each time if `grow`. `follows` is the character after
    the text. `has_code` means that an address became code. Links may stay if `is_shown` accepts the
    address, pictures if `is_own` recognizes it as the person's own.
    """

    def __init__(
        self,
        text: str,
        is_shown: Callable[[str], bool],
        *,
        is_own: Callable[[str], bool],
        ticks: int,
        grow: bool = False,
        follows: str = "",
    ) -> None:
        self._text, self._is_shown, self._is_own = text, is_shown, is_own
        self._follows = follows
        self.ticks, self._grow = ticks, grow
        self._output: list[str] = []
        self._rest: list[str] = []
        self.has_code = False
        end = 0
        while (match := _LINK.search(text, end)) is not None:
            before = text[end : match.start()]
            self._rest.append(before)
            end = self._add(before, match)
        self._rest.append(text[end:])
        defused = break_pictures("".join([*self._output, text[end:]]))
        self.defused = defused.replace(_PICTURE_MARK, "")

    def hides_more(self) -> bool:
        """Return whether the text without its marks contains, or extends, an address."""
        rest = html.unescape("".join(self._rest))
        # Some renderers show formulas, in which these marks disappear.
        readings = {rest, _FORMULA_MARKS.sub("", rest)}
        return any(_ASSEMBLED.search(_MARKS.sub("", reading)) for reading in readings)

    def _add(self, before: str, match: re.Match[str]) -> int:
        """Add a match and return the position at which to continue."""
        end = match.end()
        if (bare := match["bare"]) is not None:
            self._bare(before, bare, end)
        elif (address := match["auto"]) is not None:
            is_allowed = self._is_ending(end) and self._is_shown(address)
            self._output += [before, match[0] if is_allowed else self._code(address, before, end)]
            self._rest.append(f"{_DEFUSED_MARK} ")
        elif match["opening"] is not None:
            self._open(before, match)
        elif match["harmless"] is not None:
            # As a link, only its label is visible.
            self._output += [before, match[0]]
        else:
            target = match["target"] if match["angled"] is None else match["angled"]
            return self._labelled(before, match, target)
        return end

    def _open(self, before: str, match: re.Match[str]) -> None:
        self._output += [before, _break(match)]
        self._rest.append(f"{match[0]} " if match[0] == "<" else match[0])

    def _bare(self, before: str, bare: str, end: int) -> None:
        address = bare.rstrip(_TAIL)
        tail = bare[len(address) :]
        end -= len(tail)
        if (self._is_ending(end) or self._is_label(address, end)) and self._is_shown(address):
            self._output += [before, bare]
            self._rest += ["" if "://" in address else _ALLOWED_MARK, " ", tail]
        else:
            self._output += [before, self._code(address, before, end), tail]
            self._rest += [f"{_DEFUSED_MARK} ", tail]

    def _labelled(self, before: str, match: re.Match[str], target: str) -> int:
        label = before.rfind("[", -_MAX_LABEL_CHARS)
        # A picture whose mark is broken would become a link.
        is_picture = label > 0 and before[label - 1] == "!"
        may_stay = self._is_own if is_picture else self._is_shown
        if _PLAIN_TARGET.fullmatch(target) and may_stay(target):
            if is_picture:
                before = f"{before[:label]}{_PICTURE_MARK}{before[label:]}"
            gap = "" if self._is_ending(match.end()) else " "
            self._output += [before, f"]({target}){gap}"]
            return match.end()
        outside = before[:label].removesuffix("!")
        left = f"{self._last_output()}{outside}"
        if label < 0 or not _BEFORE_LABEL.search(left) or left.rstrip().endswith("]"):
            self._output += [before, "]\\("]
            self._rest.append("](")
            return match.start() + 2
        label_text = before[label + 1 :]
        self._output += [outside, f"{label_text} ({self._in_ticks(target)})".lstrip()]
        self._rest.append(" ")
        return match.end()

    def _is_ending(self, end: int) -> bool:
        match = _ENDING.match(self._text, end)
        return match is not None and not (self._follows and match.end() == len(self._text))

    def _is_label(self, address: str, end: int) -> bool:
        link = f"]({address})"
        return self._text.startswith(link, end) and self._is_ending(end + len(link))

    def _last_output(self) -> str:
        return next(filter(None, reversed(self._output)), "")

    def _code(self, address: str, before: str, end: int) -> str:
        # An adjacent backtick would become part of the code; a backslash would escape it.
        before = before or self._last_output()
        left = " " if before.endswith(("\\", "`")) else ""
        right = " " if self._text[end : end + 1] == "`" else ""
        return f"{left}{self._in_ticks(address)}{right}"

    def _in_ticks(self, address: str) -> str:
        self.has_code = True
        ticks = "`" * self.ticks
        self.ticks += self._grow
        return f"{ticks}{address}{ticks}"
