"""Redaction of secrets, in any encoding, from outgoing text: logs, prompts, screens."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeVar, cast, overload

from agent.records import frozen
from agent.security.secret_values import is_secret_value

# Not used by shells, Markdown or any programming notation, so never mistaken for content.
MARK = "⟦secret⟧"
# The UTF-8 bytes of the mark, in the representation that `RedactionStream` uses for bytes.
_BYTES_MARK = MARK.encode().decode("latin-1")
Data = TypeVar("Data")
_ESCAPE = re.compile(r"%[0-9a-f]{2}|\\(?:u[0-9a-f]{4}|[^u])", re.IGNORECASE | re.DOTALL)
_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MAX_ESCAPE_CHARS = 6
# Attributes of a redactor that are not derived from its values.
_KEPT = ("_values", "_others")


class Redactor:
    """Redactor that replaces `values` with a mark.

    It also finds values with percent-encoded or JSON-escaped characters, in base64 (at any offset
    in the encoded bytes) and in hexadecimal. Values that are not secrets according to
    `secret_values` are ignored. Without values it changes nothing.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(filter(is_secret_value, values))
        self._others: list[Redactor] = []

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"

    def __bool__(self) -> bool:
        return bool(self._values)

    def teach(self, other: "Redactor") -> None:
        """Pass on all values that this redactor learns from now on to another redactor."""
        self._others.append(other)

    def learn(self, values: Iterable[str]) -> None:
        """Redact these values too from now on, wherever this redactor is in use."""
        values = tuple(values)
        for other in self._others:
            other.learn(values)
        more = self._values.union(filter(is_secret_value, values))
        if more == self._values:
            return
        self._values = more
        for derived in [name for name in self.__dict__ if name not in _KEPT]:
            del self.__dict__[derived]

    def with_values(self, values: Iterable[str]) -> "Redactor":
        """Return a redactor that knows these values too."""
        return Redactor(self._values.union(values))

    def clean(self, text: str, mark: str = MARK) -> str:
        """Return the text with secrets replaced by the mark."""
        # Searching for each value is many times faster than the pattern, which few texts need.
        return self._pattern.sub(mark, text) if self._occurs(text) else text

    def occurs_in(self, data: object) -> bool:
        """Return whether JSON values of any depth contain a secret."""
        return bool(self._values) and any(map(self._occurs, _texts(data)))

    def clean_data(self, data: Data) -> Data:
        """Return JSON data of any depth with secrets replaced in all texts, including keys."""
        return cast(Data, _clean(data, self)) if self._values else data

    def stream(self) -> "RedactionStream":
        """Return a stream for text that arrives in chunks."""
        return RedactionStream(self)

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """Spellings to search for literally, longest first."""
        forms = {form for value in self._values for form in _forms(value)}
        return tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def stable_chars(self, text: str) -> int:
        """Return the length of the prefix of `text` that no following text can change."""
        stable_end = self._open_end(text, 0)
        if not self._occurs(text):
            return stable_end
        for match in self._pattern.finditer(text):
            if match.start() >= stable_end:
                break
            if match.end() > stable_end:
                # This value is complete and is replaced as a whole; an incomplete value can only
                # follow it.
                stable_end = self._open_end(text, match.end())
        return stable_end

    def _occurs(self, text: str) -> bool:
        if not self.forms or len(text) < len(self.forms[-1]):
            return False
        if any(map(text.__contains__, self.forms)):
            return True
        if ("%" in text or "\\" in text) and _ESCAPE.search(text):
            decoded = _ESCAPE.sub(_decode, text)
            if any(map(decoded.__contains__, self._decoded)):
                return True
        return any(map(text.lower().__contains__, self._hex))

    def _open_end(self, text: str, begin: int) -> int:
        """Return the position of a value that is cut off by the end of the text."""
        if not self.forms:
            return len(text)
        for match in self._first_letter.finditer(text, max(begin, len(text) - self._most_open)):
            open_end = text[match.start() :]
            # The first two characters rule out nearly every position; the last position has only
            # one.
            if any(item.startswith(open_end) for item in self._by_start.get(open_end[:2], ())):
                return match.start()
        return len(text)

    @cached_property
    def _most_open(self) -> int:
        return max(len(self.forms[0]), *map(len, self._spellings)) - 1

    @cached_property
    def _first_letter(self) -> re.Pattern[str]:
        return re.compile(self._first_letters)

    @cached_property
    def _first_letters(self) -> str:
        letters = "".join(sorted(start for start in self._by_start if len(start) == 1))
        return f"[{re.escape(letters)}]"

    @cached_property
    def _spellings(self) -> tuple["_Spelling", ...]:
        spellings = (spelling for value in self._values for spelling in _spellings(value))
        return tuple(sorted(spellings, key=len, reverse=True))

    @cached_property
    def _decoded(self) -> frozenset[str]:
        """Values in a text with escapes decoded byte by byte, in which `+` may be a space."""
        both = {text for value in self._values for text in (value, _as_bytes(value))}
        return frozenset(text for value in both for text in (value, value.replace(" ", "+")))

    @cached_property
    def _hex(self) -> tuple[str, ...]:
        return tuple(_hex(value) for value in self._values)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # Literals and atomic groups, so that no text makes the search slow. Longer values precede
        # their prefixes, so that no tail is left.
        patterns: list[str] = []
        for value in sorted(self._values, key=lambda value: (-len(value), value)):
            patterns += map(re.escape, sorted(set(_forms(value)), key=len, reverse=True))
            patterns += [spelling.pattern for spelling in _spellings(value)]
        # The first character rules out most positions.
        return re.compile(f"(?={self._first_letters})(?:{'|'.join(patterns)})")

    @cached_property
    def _by_start(self) -> "dict[str, list[str | _Spelling]]":
        """Forms and spellings by their first character, and by their first two."""
        by_start: dict[str, list[str | _Spelling]] = {}
        for form in self.forms:
            for start in {form[:1], form[:2]}:
                by_start.setdefault(start, []).append(form)
        for spelling in self._spellings:
            for start in spelling.starts():
                by_start.setdefault(start, []).append(spelling)
        return by_start


class RedactionStream:
    """Redaction of text that arrives in chunks.

    Text that may be the start of a value is withheld until the next chunk decides, at most the
    length of the longest spelling.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = ""

    @overload
    def feed(self, piece: str) -> str: ...
    @overload
    def feed(self, piece: bytes) -> bytes: ...

    def feed(self, piece: str | bytes) -> str | bytes:
        """Return the text that is certain so far.

        A stream receives either text or UTF-8 bytes, split at any position.
        """
        if not self._redactor:
            return piece
        if isinstance(piece, bytes):
            return self._feed(piece.decode("latin-1"), _BYTES_MARK).encode("latin-1")
        return self._feed(piece)

    def end(self) -> str:
        """Return the withheld text and empty the stream."""
        rest, self._pending = self._pending, ""
        return self._redactor.clean(rest)

    def end_bytes(self) -> bytes:
        """Return the withheld bytes of a stream of bytes and empty it."""
        rest, self._pending = self._pending, ""
        return self._redactor.clean(rest, _BYTES_MARK).encode("latin-1")

    def _feed(self, piece: str, mark: str = MARK) -> str:
        text = self._pending + piece
        certain = self._redactor.stable_chars(text)
        self._pending = text[certain:]
        return self._redactor.clean(text[:certain], mark)


def has_mark(data: object) -> bool:
    """Return whether JSON values of any depth contain the mark of a redaction."""
    return any(MARK in text for text in _texts(data))


def _texts(data: object) -> Iterator[str]:
    """Yield the texts in JSON values; containers that occur several times are read once."""
    pending, seen_ids = [data], set[int]()
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict | list | tuple) and id(part) not in seen_ids:
            seen_ids.add(id(part))
            pending += part
            if isinstance(part, dict):
                pending += part.values()


def _clean(data: object, redactor: Redactor) -> object:
    match data:
        case str():
            return redactor.clean(data)
        case dict():
            return {_clean(key, redactor): _clean(v, redactor) for key, v in data.items()}
        case list() | tuple():
            return type(data)(_clean(item, redactor) for item in data)
        case _:
            return data


@frozen
class _Spelling:
    """Value whose characters are written literally or as escapes in upper or lower case."""

    characters: tuple[tuple[str, tuple[str, ...]], ...]

    def __len__(self) -> int:
        return sum(max(map(len, (char, *escapes))) for char, escapes in self.characters)

    @property
    def pattern(self) -> str:
        return "".join(
            f"(?>{'|'.join([f'(?i:{re.escape(escape)})' for escape in escapes])}|{re.escape(char)})"
            for char, escapes in self.characters
        )

    def starts(self) -> set[str]:
        """Return the first character and the first two characters of all matches."""
        (first, escapes), (second, others) = self.characters[:2]
        starts = {
            first,
            *(first + start[0] for start in (second, *others, *map(str.upper, others))),
        }
        for escape in escapes:
            starts.update((escape[:1], escape[:2], escape[:1].upper(), escape[:2].upper()))
            if len(escape) == 1:
                both = (escape, escape.upper())
                nexts = (second, *others, *map(str.upper, others))
                starts.update(text + start[0] for text in both for start in nexts)
        return starts

    def startswith(self, text: str) -> bool:
        """Return whether more text could turn the whole text into a match."""
        at = 0
        for char, escapes in self.characters:
            rest = text[at : at + _MAX_ESCAPE_CHARS]
            if not rest:
                return True
            low = rest.lower()
            if (escape := next(filter(low.startswith, escapes), None)) is not None:
                at += len(escape)
            elif any(escape.startswith(low) for escape in escapes):
                return True
            elif rest[0] == char:
                at += 1
            else:
                return False
        return at == len(text)


def _spellings(value: str) -> Iterator[_Spelling]:
    yield _Spelling(tuple((char, _escapes(char)) for char in value))
    if not value.isascii():
        yield _Spelling(tuple((byte, _escapes(byte, is_byte=True)) for byte in _as_bytes(value)))
    yield _Spelling(tuple((digit, (digit,)) for digit in _hex(value)))


def _escapes(char: str, *, is_byte: bool = False) -> tuple[str, ...]:
    """Return the escapes of a character, or of a byte of UTF-8, in lower case."""
    escapes = []
    if char.isascii() or is_byte:
        escapes.append(f"%{ord(char):02x}")
    if char.isascii() or (not is_byte and ord(char) <= 0xFFFF):
        escapes.append(f"\\u{ord(char):04x}")
    if not char.isalnum() and char.isascii():
        short = next((key for key, escaped in _SHORT_ESCAPES.items() if escaped == char), char)
        escapes.append(f"\\{short}")
    return (*escapes, "+") if char == " " else tuple(escapes)


def _decode(match: re.Match[str]) -> str:
    escape = match[0]
    if escape[0] == "%":
        return chr(int(escape[1:], 16))
    if len(escape) > 2:
        return chr(int(escape[2:], 16))
    return _SHORT_ESCAPES.get(escape[1], escape[1])


def _as_bytes(value: str) -> str:
    """Return the UTF-8 bytes of a value, one character per byte."""
    return value.encode("utf-8", "surrogatepass").decode("latin-1")


def _hex(value: str) -> str:
    return value.encode("utf-8", "surrogatepass").hex()


def _forms(value: str) -> Iterator[str]:
    """Yield the spellings of a value in programs, except for the results of `_spellings`."""
    raw = value.encode("utf-8", "surrogatepass")
    plain = (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for text in (*plain, raw.decode("latin-1")):
        yield text
        yield text.replace("/", "\\/")
        yield json.dumps(text)[1:-1]
    for offset in range(3):
        # Characters at both ends also encode bits of their neighbours, so they vary between texts.
        encoded = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
        last_whole = (offset + len(raw)) * 8 // 6
        core = encoded[-(-offset * 8 // 6) : last_whole]
        yield core
        yield core.replace("+", "-").replace("/", "_")
