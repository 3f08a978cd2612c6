"""The Bot API's validation of texts and entities, with its own error messages.

https://core.telegram.org/bots/api#messageentity
"""

import json
from collections.abc import Mapping
from typing import Any

MAX_UNITS = 4096

# fmt: off
ENTITY_TYPES = frozenset((
    "mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bold",
    "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote",
    "code", "pre", "text_link", "text_mention", "custom_emoji", "date_time",
))
# fmt: on


class Refusal(Exception):
    """An answer of the Bot API with `ok: false`."""

    def __init__(
        self,
        code: int,
        description: str,
        retry_after: int | None = None,
        migrate_to: int | None = None,
    ) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.retry_after = retry_after
        self.migrate_to = migrate_to


def bad_request(reason: str) -> Refusal:
    return Refusal(400, f"Bad Request: {reason}")


def utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_text(text: object, too_long: str = "message is too long") -> str:
    """Return the text that would be shown; for an edit, `too_long` replaces the error text."""
    if not isinstance(text, str) or not text.strip():
        raise bad_request("message text is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    if utf16_units(text) > MAX_UNITS:
        raise bad_request(too_long)
    return text


def check_entities(text: str, value: object) -> list[dict[str, Any]]:
    """Return the entities as a list; they may arrive as JSON text in a form field."""
    if value is None:
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise bad_request("can't parse entities JSON object") from None
    if not isinstance(value, list):
        raise bad_request("can't parse entities: expected an Array of MessageEntity")
    return [_check_entity(text, entity) for entity in value]


def _check_entity(text: str, entity: object) -> dict[str, Any]:
    if not isinstance(entity, Mapping):
        raise bad_request("can't parse MessageEntity: Expected an Object")
    offset, length = entity.get("offset"), entity.get("length")
    if not isinstance(offset, int) or not isinstance(length, int):
        raise bad_request('can\'t parse MessageEntity: Can\'t find field "offset" or "length"')
    if entity.get("type") not in ENTITY_TYPES:
        raise bad_request("can't parse MessageEntity: Unsupported type specified")
    if entity["type"] == "text_link" and not entity.get("url"):
        raise bad_request("can't parse MessageEntity: Can't find field \"url\"")
    if offset < 0 or length <= 0:
        raise bad_request("can't parse MessageEntity: receive an entity with incorrect offset")
    if offset + length > utf16_units(text):
        raise bad_request(
            f"entity beginning at UTF-16 offset {offset} ends after the end of the text "
            f"at UTF-16 offset {offset + length}"
        )
    if _splits_pair(text, offset) or _splits_pair(text, offset + length):
        raise bad_request(
            f"entity beginning at UTF-16 offset {offset} ends in a middle of a UTF-16 symbol "
            f"at byte offset {offset + length}"
        )
    return dict(entity)


def _splits_pair(text: str, unit: int) -> bool:
    """Return whether the boundary before this unit splits a surrogate pair."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return 0 < unit * 2 < len(raw) and 0xDC <= raw[unit * 2 + 1] <= 0xDF
