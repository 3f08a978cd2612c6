"""What an MCP server answers, as the model reads it."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.prompts import render_prompt
from agent.text.media_types import sniff_image_type
from agent.types import Image, ToolResult

if TYPE_CHECKING:
    from mcp.types import CallToolResult

# More pictures in one result are named, not shown.
MOST_IMAGES = 4
MOST_IMAGE_BYTES = 5_000_000


def tool_result(result: "CallToolResult") -> ToolResult:
    """The result of a call. What is structured is shown where nothing else says it."""
    parts, images = content_parts(result.content)
    structured = result.structured_content
    if structured is not None and not parts and not images:
        parts = [json.dumps(structured, ensure_ascii=False)]
    text = "\n".join(parts)
    if not text and not images:
        text = render_prompt("mcp/empty")
    return ToolResult(text, is_error=bool(result.is_error), images=tuple(images))


def content_parts(content: Sequence[Any]) -> tuple[list[str], list[Image]]:
    """The texts among blocks of content, and the pictures; of anything else what it is."""
    parts: list[str] = []
    images: list[Image] = []
    for block in content:
        kind = getattr(block, "type", "")
        if kind == "text":
            parts.append(block.text)
        elif kind == "image":
            image = _image(block.data) if len(images) < MOST_IMAGES else None
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
    """The text of a resource, or what else it is."""
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
    if media_type is None or len(raw) > MOST_IMAGE_BYTES:
        return None
    return Image(media_type, raw)
