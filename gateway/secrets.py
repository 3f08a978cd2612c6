"""Which texts are secret, and how they are kept out of everything that is printed."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, SecretStr

from gateway.settings import Settings

# A shorter one would blot out ordinary words.
_SHORTEST = 6


def secret_values(settings: Settings) -> list[str]:
    """Every secret in the settings, the longest first, so that none leaves a tail behind."""
    return sorted({text for text in _walk(settings) if len(text) >= _SHORTEST}, key=len)[::-1]


def redact(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, "***")
    return text


def describe(settings: Settings) -> dict[str, Any]:
    """The settings as JSON values, with secrets as stars."""
    return settings.model_dump(mode="json")


def _walk(value: Any) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            for _, inner in value:
                yield from _walk(inner)
        case dict():
            for inner in value.values():
                yield from _walk(inner)
        case tuple() | list():
            for inner in value:
                yield from _walk(inner)
