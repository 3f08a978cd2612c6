"""The kinds of values that settings have, each with the words that say what it expects."""

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict

from agent.i18n import t


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        raise ValueError(t("an address that starts with http:// or https://"))
    return text.rstrip("/")


def _bot_url(text: str) -> str:
    """The root of a Bot API server; the `/bot` that libraries want after it is taken off."""
    return _url(text).removesuffix("/bot")


def _bot_token(token: SecretStr) -> SecretStr:
    """Empty when there is none yet. Local servers and emulators make shorter ones."""
    text = token.get_secret_value()
    if text and not re.fullmatch(r"[0-9]+:[\x21-\x7e]+", text):
        raise ValueError(t("the token that @BotFather shows, such as 123456789:AAF0…"))
    return token


def _store_url(text: str) -> str:
    if not text.startswith("sqlite:///") or len(text) == len("sqlite:///"):
        raise ValueError(t("sqlite:///PATH, the only kind of store there is yet"))
    return text


def _vendor_model(text: str) -> str:
    vendor, slash, name = text.partition("/")
    if not (vendor and slash and name):
        raise ValueError(t('vendor/model, such as "openai/gpt-5"'))
    return text


def _names(value: Any) -> Any:
    listed = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, str) and one for one in listed):
        raise ValueError(t('a name, or a list of names such as ["a", "b"]'))
    return value


def _zone(text: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError) as exc:
        raise ValueError(t('a time zone by its IANA name, such as "Europe/Berlin"')) from exc
    return text


def _hours(text: str) -> str:
    from gateway.scheduler.timezones import QUIET

    if not QUIET.fullmatch(text):
        raise ValueError(t('hours of the day, such as "22:00-07:00"'))
    return text


Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict(), Field(ge=1, le=10**12)]
Number = Annotated[float, Strict(), Field(ge=0, le=10**9, allow_inf_nan=False)]
Temperature = Annotated[float, Strict(), Field(ge=0, le=2, allow_inf_nan=False)]
# A name as HTTP takes it: https://www.rfc-editor.org/rfc/rfc9110#name-field-names
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
Word = Annotated[str, Field(min_length=1, max_length=4096)]
Url = Annotated[str, AfterValidator(_url)]
BotUrl = Annotated[str, AfterValidator(_bot_url)]
BotToken = Annotated[SecretStr, AfterValidator(_bot_token)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]
Names = Annotated[Word | tuple[Word, ...], BeforeValidator(_names)]
ZoneName = Annotated[str, AfterValidator(_zone)]
Hours = Annotated[str, AfterValidator(_hours)]
VendorModel = Annotated[str, AfterValidator(_vendor_model)]
