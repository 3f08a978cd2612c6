"""Received rich messages as Markdown.

https://core.telegram.org/bots/api#richmessage
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.channels.telegram.inbound.text_marks import code_block, inline_code, link

# Telegram nests at most 16 levels, each of which is an object in a list here.
_MAX_DEPTH = 64


def rich_markdown(message: Mapping[str, Any]) -> str:
    """Return the blocks of a RichMessage as Markdown; media and unknown blocks are named.

    Raises ValueError for content that is nested deeper than Telegram allows.
    """
    return _blocks(message.get("blocks") or (), 0)


def _blocks(blocks: Sequence[Mapping[str, Any]], depth: int) -> str:
    return "\n\n".join(filter(None, (_block(block, depth + 1) for block in blocks)))


def _block(block: Mapping[str, Any], depth: int) -> str:
    kind, words = str(block.get("type")), _inline(block.get("text"), depth)
    match kind:
        case "heading":
            size = block.get("size")
            return f"{'#' * (size if isinstance(size, int) and 0 < size < 7 else 1)} {words}"
        case "pre":
            return code_block(_plain(block.get("text"), depth), str(block.get("language") or ""))
        case "divider":
            return "---"
        case "anchor":
            return ""
        case "mathematical_expression":
            return f"$${block.get('expression')}$$"
        case "list":
            return "\n".join(_item(item, depth) for item in block.get("items") or ())
        case "table":
            return _with_caption(_table(block.get("cells") or (), depth), block, depth)
    if kind not in ("paragraph", "footer", "thinking", "details", "blockquote", "pullquote"):
        words = f"[{kind.replace('_', ' ')}] {words}".rstrip()
    inner = _blocks(block.get("blocks") or (), depth)
    summary = _inline(block.get("summary"), depth)
    text = "\n\n".join(filter(None, (summary, words, inner)))
    if "quot" in kind:
        text = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return _with_caption(text, block, depth)


def _with_caption(text: str, block: Mapping[str, Any], depth: int) -> str:
    """Return the text with the block's caption and credit below it."""
    caption = block.get("caption")
    parts = caption if isinstance(caption, dict) and "type" not in caption else {"text": caption}
    credit = parts.get("credit") or block.get("credit")
    words = [_inline(part, depth) for part in (parts.get("text"), credit)]
    return "\n".join(filter(None, (text, *words)))


def _item(item: Mapping[str, Any], depth: int) -> str:
    label = str(item.get("label") or "-")
    mark = label if label.rstrip(".)").isalnum() else "-"
    if item.get("has_checkbox"):
        mark += " [x]" if item.get("is_checked") else " [ ]"
    text = _blocks(item.get("blocks") or (), depth).replace("\n", "\n  ")
    return f"{mark} {text}"


def _table(rows: Sequence[Sequence[Mapping[str, Any]]], depth: int) -> str:
    lines = [
        "| "
        + " | ".join(
            _inline(cell.get("text"), depth).replace("\n", " ").replace("|", "\\|") for cell in row
        )
        + " |"
        for row in rows
    ]
    if lines:
        lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)


def _inline(text: Any, depth: int) -> str:
    """Return a RichText (text, a list of them or a formatted one) as Markdown."""
    if depth > _MAX_DEPTH:
        raise ValueError("the rich message is nested too deeply")
    if text is None or isinstance(text, str):
        return text or ""
    if isinstance(text, list):
        return "".join(_inline(part, depth + 1) for part in text)
    match text.get("type"):
        case "code":
            return inline_code(_plain(text.get("text"), depth))
        case "url":
            return link(_inline(text.get("text"), depth + 1), str(text.get("url")))
        case "mathematical_expression":
            return f"${text.get('expression')}$"
        case "custom_emoji":
            return str(text.get("alternative_text") or "")
    return _inline(text.get("text"), depth + 1)


def _plain(text: Any, depth: int) -> str:
    """Return the characters of a RichText without any formatting."""
    if depth > _MAX_DEPTH:
        raise ValueError("the rich message is nested too deeply")
    if isinstance(text, list):
        return "".join(_plain(part, depth + 1) for part in text)
    if isinstance(text, dict):
        return _plain(text.get("text", text.get("alternative_text")), depth + 1)
    return text or ""
