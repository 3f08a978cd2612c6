"""Redaction of secrets, in whatever spelling, from text that leaves: logs, prompts, screens."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeVar, cast, overload
from urllib.parse import quote, quote_plus

from agent.security.secret_values import is_secret_value

# Not used by shells, Markdown or any notation of programs, so nothing takes it for content.
MARK = "⟦secret⟧"
# The UTF-8 bytes of the mark, as `RedactionStream` holds bytes.
_BYTES_MARK = MARK.encode().decode("latin-1")
Data = TypeVar("Data")


class Redactor:
    """Replaces `values` by the mark, also where they are percent-encoded, in base64 (wherever in
    the encoded bytes), in hexadecimal or escaped for JSON.

    Values that are no secrets by `secret_values` are left alone. Without values it changes nothing.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(filter(is_secret_value, values))
        self._others: list[Redactor] = []

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"

    def __bool__(self) -> bool:
        return bool(self._values)

    def teach(self, other: "Redactor") -> None:
        """Have another one learn whatever this one learns from now on."""
        self._others.append(other)

    def learn(self, values: Iterable[str]) -> None:
        """Replace these too from now on, wherever this one is in use."""
        values = tuple(values)
        for other in self._others:
            other.learn(values)
        more = self._values.union(filter(is_secret_value, values))
        if more == self._values:
            return
        self._values = more
        for derived in ("forms", "_pattern", "_by_start", "_first_letter"):
            self.__dict__.pop(derived, None)

    def with_values(self, values: Iterable[str]) -> "Redactor":
        """One that knows these values too."""
        return Redactor(self._values.union(values))

    def clean(self, text: str, mark: str = MARK) -> str:
        """The text without them."""
        # The search for each is many times faster than the pattern, which few texts ever need.
        return self._pattern.sub(mark, text) if self._occurs(text) else text

    def occurs_in(self, data: object) -> bool:
        """Return whether JSON values of any depth contain a secret."""
        return bool(self._values) and any(map(self._occurs, _texts(data)))

    def clean_data(self, data: Data) -> Data:
        """JSON values of any depth, each text in them cleaned; keys too."""
        return cast(Data, _clean(data, self)) if self._values else data

    def stream(self) -> "RedactionStream":
        """For a text that comes in pieces."""
        return RedactionStream(self)

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """Every spelling that is looked for, the longest first: none leaves a tail behind."""
        forms = {form for value in self._values for form in _forms(value)}
        return tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def stable_chars(self, text: str) -> int:
        """How much of `text`, from its start, means the same whatever comes behind it."""
        stable_end = self._open_end(text, 0)
        if not self._occurs(text):
            return stable_end
        for match in self._pattern.finditer(text):
            if match.start() >= stable_end:
                break
            if match.end() > stable_end:
                # Found whole, and cleaned as such: what is open can only begin behind it.
                stable_end = self._open_end(text, match.end())
        return stable_end

    def _occurs(self, text: str) -> bool:
        return bool(self.forms) and (
            len(text) >= len(self.forms[-1]) and any(map(text.__contains__, self.forms))
        )

    def _open_end(self, text: str, begin: int) -> int:
        """Where a value begins that the end of the text cuts in two."""
        if not self.forms:
            return len(text)
        longest = len(self.forms[0]) - 1
        for match in self._first_letter.finditer(text, max(begin, len(text) - longest)):
            open_end = text[match.start() :]
            # Nearly every place is ruled out by its two letters; the last one has only one.
            if any(form.startswith(open_end) for form in self._by_start.get(open_end[:2], ())):
                return match.start()
        return len(text)

    @cached_property
    def _first_letter(self) -> re.Pattern[str]:
        letters = "".join(sorted({form[0] for form in self.forms}))
        return re.compile(f"[{re.escape(letters)}]")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # Literals only: no text can make it slow.
        return re.compile("|".join(map(re.escape, self.forms)))

    @cached_property
    def _by_start(self) -> dict[str, list[str]]:
        """The forms by their first letter, and by their first two."""
        forms_by_start: dict[str, list[str]] = {}
        for form in self.forms:
            forms_by_start.setdefault(form[:1], []).append(form)
            forms_by_start.setdefault(form[:2], []).append(form)
        return forms_by_start


class RedactionStream:
    """A text in pieces, cleaned as it comes: what may be the start of a value is held back until
    the next piece shows, at most the length of the longest spelling."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = ""

    @overload
    def feed(self, piece: str) -> str: ...
    @overload
    def feed(self, piece: bytes) -> bytes: ...

    def feed(self, piece: str | bytes) -> str | bytes:
        """What is certain by now; a stream is fed either text or UTF-8 bytes, cut anywhere."""
        if not self._redactor:
            return piece
        if isinstance(piece, bytes):
            return self._feed(piece.decode("latin-1"), _BYTES_MARK).encode("latin-1")
        return self._feed(piece)

    def end(self) -> str:
        """What was held back to the last; the stream is empty then."""
        rest, self._pending = self._pending, ""
        return self._redactor.clean(rest)

    def end_bytes(self) -> bytes:
        """The same of a stream that was fed bytes."""
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
    match data:
        case str():
            yield data
        case dict():
            for key, value in data.items():
                yield from _texts(key)
                yield from _texts(value)
        case list() | tuple():
            for item in data:
                yield from _texts(item)


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


def _forms(value: str) -> Iterator[str]:
    """A value as programs spell it."""
    raw = value.encode("utf-8", "surrogatepass")
    plain = (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for text in (*plain, raw.decode("latin-1")):
        yield text
        yield text.replace("/", "\\/")
        yield json.dumps(text)[1:-1]
    for safe in ("", "/", "/:"):
        for encoded in (quote(raw, safe), quote_plus(raw, safe)):
            yield encoded
            yield re.sub("%..", lambda match: match[0].lower(), encoded)
    yield raw.hex()
    yield raw.hex().upper()
    for offset in range(3):
        # Characters at both ends also hold bits of their neighbours: they differ from text to text.
        encoded = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
        last_whole = (offset + len(raw)) * 8 // 6
        core = encoded[-(-offset * 8 // 6) : last_whole]
        yield core
        yield core.replace("+", "-").replace("/", "_")
