"""Parser for the field `messages` of a chat completion."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from agent.errors import KoreError
from agent.run.content import ImageUrl, message_of
from agent.serialization import safe_text
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from agent.types import Image, Message, Part, Text, ToolCall
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import ApiError, bad_field
from gateway.server.openai_api.fields import objects_field, text_field

MAX_PICTURES = 20
_SYSTEM = frozenset({"system", "developer"})


async def read_messages(body: Mapping[str, Any]) -> ClientConversation:
    """Return the conversation in a request. Raises `ApiError`."""
    system: list[str] = []
    messages: list[Message] = []
    for number, item in enumerate(objects_field(body, "messages")):
        place = f"messages[{number}]"
        role = item.get("role")
        content = await read_content(item.get("content"), f"{place}.content")
        if role in _SYSTEM:
            system.append(_words(content))
        elif role == "user":
            messages.append(Message("user", content))
        elif role == "assistant":
            calls = tuple(_tool_call(call) for call in objects_field(item, "tool_calls"))
            messages.append(Message("assistant", content, calls))
        elif role == "tool":
            call = text_field(item, "tool_call_id") or ""
            messages.append(Message("tool", content, tool_call_id=call))
        else:
            raise bad_field(f"{place}.role", "system, developer, user, assistant, tool", role)
    if not messages or messages[-1].role not in ("user", "tool"):
        raise bad_field("messages", "a message of the user at the end")
    pictures = sum(isinstance(part, Image) for message in messages for part in message.content)
    if pictures > MAX_PICTURES:
        raise bad_field("messages", f"at most {MAX_PICTURES} pictures")
    return ClientConversation("\n\n".join(text for text in system if text), tuple(messages))


async def read_content(content: Any, place: str) -> tuple[Part, ...]:
    """Return the text and pictures in a string or in a list of parts of either API."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (Text(safe_text(content)),)
    if not isinstance(content, list):
        raise bad_field(place, "a string or a list", content)
    return tuple([await _part(item, f"{place}[{n}]") for n, item in enumerate(content)])


async def _part(part: Any, place: str) -> Part:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Text(safe_text(text))
        case {"type": "refusal", "refusal": str(text)}:
            return Text(safe_text(text))
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return await _picture(url, place)
        case {"type": "input_image", "image_url": str(url)}:
            return await _picture(url, place)
    raise bad_field(place, "text or a picture")


async def _picture(url: str, place: str) -> Image:
    head, comma, data = url.partition(",")
    if not url.startswith("data:"):
        return await _fetched(url, place)
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    kind = sniff_image_type(content[:16])
    if not (comma and head.endswith(";base64")) or kind is None or len(content) > MAX_PICTURE_BYTES:
        raise bad_field(place, f"a PNG, JPEG, GIF or WebP of at most {MAX_PICTURE_BYTES:,} bytes")
    return Image(kind, content)


async def _fetched(url: str, place: str) -> Image:
    """Return the picture at a URL, which must have a public address."""
    try:
        (picture,) = (await message_of([ImageUrl(url)])).content
    except KoreError as exc:
        raise ApiError(400, str(exc), param=place) from exc
    assert isinstance(picture, Image)
    return picture


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    match call:
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(raw)}}:
            return ToolCall(call_id, name, arguments_of(raw), raw)
    raise bad_field("tool_calls", "calls of functions with an id")


def arguments_of(raw: str) -> Mapping[str, Any] | None:
    """Return the arguments, or None if `raw` is not a JSON object."""
    try:
        arguments = json.loads(raw or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _words(content: tuple[Part, ...]) -> str:
    return "\n\n".join(part.text for part in content if isinstance(part, Text))
