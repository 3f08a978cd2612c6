"""Results of MCP servers: validation item by item and conversion for the model."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agent.prompts import render_prompt
from agent.text.media_types import sniff_image_type
from agent.text.visible import escape_line
from agent.types import Image, ToolResult

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.types import CallToolResult

# List in the result of each request.
_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "tools/call": "content",
    "resources/read": "contents",
    "prompts/get": "messages",
}
# Identifying key of an item, and the other keys that suffice.
_ESSENTIALS = {
    "tools": ("name", "description", "inputSchema"),
    "prompts": ("name", "description", "arguments"),
    "resources": ("uri", "name", "description"),
    "resourceTemplates": ("uriTemplate", "name", "description"),
}
_MAX_NAME_CHARS = 80
# Version that the SDK assumes before it knows the server's.
_DEFAULT_VERSION = "2025-11-25"
# Further images in a result are mentioned, not shown.
MAX_IMAGES = 4
MAX_IMAGE_BYTES = 5_000_000


def tool_result(result: "CallToolResult") -> ToolResult:
    """Return the result of a call; structured content is shown only if there is no other
    content."""
    parts, images = content_parts(result.content)
    structured = result.structured_content
    if structured is not None and not parts and not images:
        parts = [json.dumps(structured, ensure_ascii=False)]
    text = "\n".join(parts)
    if not text and not images:
        text = render_prompt("mcp/empty")
    return ToolResult(text, is_error=bool(result.is_error), images=tuple(images))


def content_parts(content: Sequence[Any]) -> tuple[list[str], list[Image]]:
    """Return the texts and images of content blocks; other blocks become a description."""
    parts: list[str] = []
    images: list[Image] = []
    for block in content:
        kind = getattr(block, "type", "")
        if kind == "text":
            parts.append(block.text)
        elif kind == "image":
            image = _image(block.data) if len(images) < MAX_IMAGES else None
            if image is None:
                parts.append(render_prompt("mcp/not_shown", kind=block.mime_type or "image"))
            else:
                images.append(image)
        elif kind == "resource_link":
            parts.append(render_prompt("mcp/link", title=block.name, uri=block.uri))
        elif kind == "resource":
            parts.append(resource_text(block.resource))
        else:
            parts.append(render_prompt("mcp/not_shown", kind=getattr(block, "mime_type", kind)))
    return parts, images


def resource_text(resource: Any) -> str:
    """Return the text of a resource, or a description of its type."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    return render_prompt("mcp/not_shown", kind=resource.mime_type or "binary data")


def _image(data: str) -> Image | None:
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    media_type = sniff_image_type(raw[:16])
    if media_type is None or len(raw) > MAX_IMAGE_BYTES:
        return None
    return Image(media_type, raw)


def read_tolerantly(session: "ClientSession", note: Callable[[str, Sequence[str]], None]) -> None:
    """Make a session drop malformed items of a result. The SDK would reject the whole result.

    `note` receives the method and the names of the dropped items.
    """
    dispatcher = session._dispatcher
    send_raw = dispatcher.send_raw_request

    async def send(method: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        raw = await send_raw(method, *args, **kwargs)
        result, names = readable(method, session.protocol_version or _DEFAULT_VERSION, raw)
        if names:
            note(method, names)
        return result

    dispatcher.send_raw_request = send  # type: ignore[method-assign]


def readable(
    method: str, version: str, raw: dict[str, Any]
) -> tuple[dict[str, Any], Sequence[str]]:
    """Return the result of a request without the parts that violate the protocol, and the names of
    omitted list items. An item of a result is replaced with a sentence.
    """
    key = _LISTS.get(method)
    if key is None or _fits(method, version, raw):
        return raw, ()
    rest = {name: value for name, value in raw.items() if name != key}
    for name in _wrong_keys(method, version, {**rest, key: []}):
        rest.pop(name, None)
    if not _fits(method, version, {**rest, key: []}):
        return raw, ()
    items: list[Any] = []
    names: list[str] = []
    listed = raw.get(key)
    for item in listed if isinstance(listed, list) else ():
        for candidate in _candidates(key, item):
            if _fits(method, version, {**rest, key: [candidate]}):
                items.append(candidate)
                break
        else:
            names.append(_name_of(key, item))
    structured = raw.get("structuredContent")
    if (
        key == "content"
        and not items
        and structured is not None
        and not rest.get("structuredContent")
    ):
        items.append({"type": "text", "text": json.dumps(structured, ensure_ascii=False)})
    return {**rest, key: items}, names


def _fits(method: str, version: str, result: Mapping[str, Any]) -> bool:
    return not _errors(method, version, result)


def _wrong_keys(method: str, version: str, result: Mapping[str, Any]) -> set[str]:
    errors = _errors(method, version, result)
    return {str(part) for error in errors for part in error["loc"] if part in result}


def _errors(method: str, version: str, result: Mapping[str, Any]) -> Sequence[Any]:
    from mcp.client import session

    # The SDK's own check of results has no public API.
    validate = session._methods.validate_server_result  # type: ignore[attr-defined]
    try:
        validate(method, version, result)
    except ValidationError as exc:
        return exc.errors(include_url=False, include_context=False, include_input=False)
    except KeyError:
        # The version does not define the method.
        return ()
    return ()


def _candidates(key: str, item: Any) -> Iterator[Any]:
    """Yield increasingly reduced forms of a list item."""
    if not isinstance(item, dict):
        if key == "content":
            yield {"type": "text", "text": _not_shown(item)}
        return
    yield item
    if (essentials := _ESSENTIALS.get(key)) is not None:
        if key == "tools":
            item = {**item, "inputSchema": _object_schema(item.get("inputSchema"))}
            yield item
        reduced = {name: item[name] for name in essentials if item.get(name) is not None}
        yield dict(reduced)
        reduced.pop("arguments", None)
        if not isinstance(reduced.get("description"), str):
            reduced.pop("description", None)
        yield reduced
        return
    plain = {name: value for name, value in item.items() if name not in ("annotations", "_meta")}
    yield plain
    if key == "content":
        yield {"type": "text", "text": _not_shown(item)}
    elif key == "contents":
        yield {"uri": str(item.get("uri", "")), "text": _not_shown(item)}
    else:
        content = item.get("content")
        yield {**plain, "content": {"type": "text", "text": _not_shown(content)}}


def _object_schema(schema: Any) -> Any:
    """Return the schema with the type "object" if it has none, since arguments are always an
    object."""
    if schema is None:
        return {"type": "object"}
    return (
        {**schema, "type": "object"}
        if isinstance(schema, dict) and "type" not in schema
        else schema
    )


def _not_shown(item: Any) -> str:
    kind = item.get("type") if isinstance(item, dict) else None
    return render_prompt("mcp/not_shown", kind=_shorten(kind) if kind else "an unknown kind")


def _name_of(key: str, item: Any) -> str:
    first = _ESSENTIALS.get(key, ("",))[0]
    name = item.get(first) if isinstance(item, dict) else None
    return _shorten(name) if name else "(without a name)"


def _shorten(text: Any) -> str:
    return escape_line(" ".join(str(text).split()))[:_MAX_NAME_CHARS]
