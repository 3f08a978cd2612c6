"""Questions of a server to a person during a call: a form to fill in, or a page to open.

Also converts a person's text to a value of a form field.
"""

import math
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_invisible

# Limits against a server with endless text.
_MAX_CHOICES = 100
_MAX_TITLE_CHARS = 200
_MAX_TEXT_CHARS = 20_000
# Number of characters of a server's text that are checked.
_READ_CHARS = 1_000
# The patterns are compiled on first use: few servers ask questions.
_SENSITIVE = (
    r"(?i)"
    r"pass(?:wor[dt]|wd|phrase|code)|secret|credential|token|api[ _-]?key|private[ _-]?key"
    r"|access[ _-]?key|\b(?:pin|otp|2fa|cvv|cvc|iban|ssn)\b|card[ _-]?number|seed[ _-]?phrase"
    r"|kennwort|geheimzahl|contrase(?:ñ|n)a|mot de passe|wachtwoord|парол|пин-?код"
    r"|\b(?:senha|parola|hasło|heslo|şifre)\b|パスワード|暗証番号|비밀번호|암호"
    r"|密码|密碼|口令|令牌|密钥|密鑰|验证码|驗證碼"
)
# Invisible characters in raw and written form; single letters with separators in between.
_UNSEEN = (
    r"\\u\{[0-9a-f]+\}|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
_SPACED = r"\b(\w)[\W_]{1,3}(?=\w\b)"
_LATIN = r"[A-Za-z]"
_LOOKS_LATIN = r"[\u0370-\u03ff\u0400-\u052f]"
# The part before the path: browsers treat some other characters there as its end.
_PLACE = r"([\w.~%+:-]*@)?(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]*)?"


@frozen
class FormField:
    """Requested value, described by its JSON Schema: a plain type or a list."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool = False

    @property
    def title(self) -> str:
        return _short(self.schema.get("title") or self.name)

    @property
    def description(self) -> str:
        return _short(self.schema.get("description") or "")

    @property
    def is_secret(self) -> bool:
        """True if it looks like something that only the person should know."""
        if self.choices:
            return False
        keys = ("title", "description", "format")
        words = " ".join(str(self.schema.get(key, ""))[:_READ_CHARS] for key in keys)
        # A word in "apiToken" and "user_password" begins somewhere in the middle.
        name = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", self.name[:_READ_CHARS])
        return looks_secret(f"{self.name} {name} {words}")

    @property
    def takes_several(self) -> bool:
        return self.schema.get("type") == "array"

    @property
    def choices(self) -> tuple[tuple[str, Any], ...]:
        """Possible answers as labels with their values; empty for a free answer."""
        if self.schema.get("type") == "boolean":
            return ((t("Yes"), True), (t("No"), False))
        schema = self.schema.get("items") if self.takes_several else self.schema
        return _choices(schema) if isinstance(schema, Mapping) else ()

    @property
    def kind(self) -> str:
        """Description of the expected text, for a field without choices."""
        low, high = self.schema.get("minimum"), self.schema.get("maximum")
        match self.schema.get("type"):
            case "integer" | "number" if low is not None and high is not None:
                return t("a number from {low} to {high}", low=_short(low), high=_short(high))
            case "integer":
                return t("a whole number")
            case "number":
                return t("a number")
        formats = {
            "email": t("an e-mail address"),
            "uri": t("a web address"),
            "date": t("a date, as 2026-11-23"),
            "date-time": t("a time, as 2026-11-23T15:00:00Z"),
        }
        return formats.get(str(self.schema.get("format")), t("text"))

    def label_of(self, value: Any) -> str:
        """Return the label of a value of the field."""
        if self.is_secret:
            return "••••"
        if self.takes_several and isinstance(value, list | tuple):
            return ", ".join(map(self._label, value))
        return self._label(value)

    def _label(self, value: Any) -> str:
        for label, choice in self.choices:
            if type(choice) is type(value) and choice == value:
                return label
        return _short(value)

    def read(self, text: str) -> Any:
        """Convert a person's text to the value. Raises `ValueError` with a sentence."""
        if self.takes_several:
            values = [self._choice(part) for part in re.split(r"[,，、\n]", text) if part.strip()]
            values = [choice for n, choice in enumerate(values) if choice not in values[:n]]
            least, most = self.schema.get("minItems"), self.schema.get("maxItems")
            _check_bounds(len(values), least, most, t("The number of choices"))
            return values
        if self.choices:
            return self._choice(text)
        if self.schema.get("type") in ("integer", "number"):
            return self._number(text.strip())
        return self._text(text)

    def _choice(self, text: str) -> Any:
        words = text.strip()
        # A label may be the value, or the number, of another choice: people see the label.
        for n in (0, 1):
            for choice in self.choices:
                if words.casefold() == str(choice[n]).casefold():
                    return choice[1]
        if words.isascii() and words.isdecimal() and 0 < int(words[:9]) <= len(self.choices):
            return self.choices[int(words[:9]) - 1][1]
        raise ValueError(t("{words} is not one of the choices.", words=_short(words)))

    def _number(self, words: str) -> int | float:
        is_whole = self.schema.get("type") == "integer"
        try:
            value: int | float = int(words) if is_whole else float(words)
            is_number = math.isfinite(value)
        except (ValueError, OverflowError):
            is_number = False
        if not is_number:
            raise ValueError(t("{words} is not {kind}.", words=_short(words), kind=self.kind))
        _check_bounds(value, self.schema.get("minimum"), self.schema.get("maximum"), self.title)
        return value

    def _text(self, text: str) -> str:
        if len(text) > _MAX_TEXT_CHARS:
            raise ValueError(t("That is too long."))
        least, most = self.schema.get("minLength"), self.schema.get("maxLength")
        _check_bounds(len(text), least, most, t("The number of characters"))
        if not _has_format(text, str(self.schema.get("format", ""))):
            # The text may be private, so it is not repeated.
            raise ValueError(t("That is not {kind}.", kind=self.kind))
        return text


@frozen
class Elicitation:
    """Question of the server `server`.

    With `url` a person is asked to open that page, and nothing else.
    """

    server: str
    message: str
    fields: tuple[FormField, ...] = ()
    url: str | None = None

    @property
    def host(self) -> str | None:
        """Real host of the page.

        None without a web page, or if a browser might find another host in its address.
        """
        url = self.url or ""
        try:
            parts = urlsplit(url)
            if not url.isprintable() or " " in url or re.fullmatch(_PLACE, parts.netloc) is None:
                return None
            # Letters of other alphabets may look like the letters of a known name.
            host = (parts.hostname or "").encode("idna").decode()
        except ValueError:
            return None
        return host if host and parts.scheme in ("http", "https") else None

    def defaults(self) -> dict[str, Any]:
        """Return the values that the server proposes."""
        return {
            field.name: field.schema["default"]
            for field in self.fields
            if "default" in field.schema
        }


@frozen
class ElicitationAnswer:
    """Answer of a person. Omitted fields of a form have their default value."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)


# Ask a person; use `decline` if no person is available.
Elicit = Callable[[Elicitation], Awaitable[ElicitationAnswer]]


async def decline(question: Elicitation) -> ElicitationAnswer:
    """Decline every question: an `Elicit` for places without a person."""
    return ElicitationAnswer("decline")


def looks_secret(words: str) -> bool:
    """Return whether the text asks for a secret, even in disguise."""
    text = re.sub(_UNSEEN, "", unicodedata.normalize("NFKC", words))
    return re.search(_SENSITIVE, re.sub(_SPACED, r"\1", text)) is not None or any(
        # Letters that resemble letters of another alphabet.
        re.search(_LATIN, word) and re.search(_LOOKS_LATIN, word)
        for word in text.split()
    )


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    values = schema.get("enum")
    if isinstance(values, Sequence) and not isinstance(values, str):
        names = schema.get("enumNames")
        labels = names if isinstance(names, Sequence) and len(names) == len(values) else values
        pairs = zip(labels, values, strict=True)
        return tuple((_short(label), value) for label, value in pairs)[:_MAX_CHOICES]
    options = schema.get("oneOf") or schema.get("anyOf") or ()
    if not isinstance(options, Sequence):
        return ()
    return tuple(
        (_short(option.get("title") or option["const"]), option["const"])
        for option in options
        if isinstance(option, Mapping) and "const" in option
    )[:_MAX_CHOICES]


def _check_bounds(value: float, least: Any, most: Any, what: str) -> None:
    if isinstance(least, int | float) and value < least:
        raise ValueError(t("{what} is at least {n}.", what=what, n=least))
    if isinstance(most, int | float) and value > most:
        raise ValueError(t("{what} is at most {n}.", what=what, n=most))


def _has_format(text: str, name: str) -> bool:
    try:
        match name:
            case "email":
                return re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None
            case "uri":
                return bool(urlsplit(text).scheme)
            case "date":
                return bool(date.fromisoformat(text))
            case "date-time":
                return bool(datetime.fromisoformat(text))
    except ValueError:
        return False
    return True


def _short(value: object) -> str:
    line = escape_invisible(" ".join(str(value)[:_READ_CHARS].split()))
    return line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1]}…"
