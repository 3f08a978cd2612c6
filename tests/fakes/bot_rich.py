"""The Bot API's validation of rich messages, with its own error messages.

https://core.telegram.org/bots/api#inputrichmessage
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.bot_text import bad_request

MAX_CHARS = 32_768
MAX_BLOCKS = 500
MAX_DEPTH = 16
MAX_COLUMNS = 20
# Kinds of formatted texts that a bot may send, with the field that each requires besides its text.
_TEXTS = {
    **dict.fromkeys(("bold", "italic", "underline", "strikethrough", "spoiler", "code"), ""),
    **dict.fromkeys(("subscript", "superscript", "marked"), ""),
    "url": "url",
}


def check_rich(value: object, *, is_draft: bool = False) -> list[dict[str, Any]]:
    """Return the blocks of an InputRichMessage, the only of its three forms that Kore sends."""
    if not isinstance(value, Mapping) or not isinstance(value.get("blocks"), list):
        raise bad_request("rich message must have exactly one of html, markdown and blocks")
    blocks = value["blocks"]
    checker = _Checker(is_draft=is_draft)
    checker.blocks(blocks, 1)
    if not blocks:
        raise bad_request("RICH_MESSAGE_EMPTY")
    if checker.chars > MAX_CHARS or checker.count > MAX_BLOCKS:
        raise bad_request("RICH_MESSAGE_TOO_LONG")
    return blocks


def rich_text(value: Any) -> str:
    """Return blocks or a RichText as plain text: blocks and rows in lines, cells with bars."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        between = "\n" if value and isinstance(value[0], dict) and _is_block(value[0]) else ""
        return between.join(map(rich_text, value))
    if "cells" in value:
        return "\n".join(
            " | ".join(rich_text(cell.get("text")) for cell in row) for row in value["cells"]
        )
    return rich_text(value.get("expression", value.get("text", value.get("blocks"))))


def _is_block(value: Mapping[str, Any]) -> bool:
    return value["type"] not in _TEXTS and value["type"] != "mathematical_expression"


class _Checker:
    def __init__(self, *, is_draft: bool) -> None:
        self.chars = 0
        self.count = 0
        self._is_draft = is_draft

    def blocks(self, blocks: Sequence[Any], depth: int) -> None:
        for block in blocks:
            if not isinstance(block, Mapping):
                raise bad_request("can't parse InputRichBlock: expected an Object")
            self.count += 1
            self._block(block, depth)

    def _block(self, block: Mapping[str, Any], depth: int) -> None:
        kind = block.get("type")
        if depth > MAX_DEPTH:
            raise bad_request("RICH_MESSAGE_DEPTH_INVALID")
        texts = ["paragraph", "pre", "footer"]
        texts += ["thinking"] if self._is_draft else []
        texts += ["heading"] if block.get("size") in range(1, 7) else []
        if kind in texts:
            self._content(block.get("text"), depth)
        elif kind == "mathematical_expression":
            self._content(block.get("expression"), depth)
        elif kind == "blockquote":
            self._children(block, depth)
        elif kind == "details":
            self._content(block.get("summary"), depth)
            self._children(block, depth)
        elif kind == "table":
            self._table(block.get("cells"), depth)
        else:
            raise bad_request(f"can't parse InputRichBlock: unsupported block {kind!r}")

    def _children(self, block: Mapping[str, Any], depth: int) -> None:
        if not block.get("blocks"):
            raise bad_request("RICH_MESSAGE_CONTENT_REQUIRED")
        self.blocks(block["blocks"], depth + 1)

    def _table(self, rows: Any, depth: int) -> None:
        if not isinstance(rows, list) or not rows or not all(rows):
            raise bad_request("RICH_MESSAGE_CONTENT_REQUIRED")
        if len({len(row) for row in rows}) != 1 or len(rows[0]) > MAX_COLUMNS:
            raise bad_request("RICH_MESSAGE_TABLE_INVALID")
        self.count += len(rows)
        for cell in (cell for row in rows for cell in row):
            if cell.get("align") not in ("left", "center", "right"):
                raise bad_request("can't parse RichBlockTableCell: invalid align")
            if cell.get("valign") not in ("top", "middle", "bottom"):
                raise bad_request("can't parse RichBlockTableCell: invalid valign")
            if "text" in cell:
                self._content(cell["text"], depth + 1)

    def _content(self, text: Any, depth: int) -> None:
        """Count a text that must not be empty."""
        before = self.chars
        self._text(text, depth)
        if self.chars == before:
            raise bad_request("RICH_MESSAGE_CONTENT_REQUIRED")

    def _text(self, text: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise bad_request("RICH_MESSAGE_DEPTH_INVALID")
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise bad_request("strings must be encoded in UTF-8") from None
            self.chars += len(text)
        elif isinstance(text, list):
            for part in text:
                self._text(part, depth)
        elif isinstance(text, Mapping) and text.get("type") == "mathematical_expression":
            self._text(text.get("expression"), depth)
        elif isinstance(text, Mapping) and text.get("type") in _TEXTS:
            required = _TEXTS[text["type"]]
            if required and not text.get(required):
                raise bad_request(f"can't parse RichText: Can't find field \"{required}\"")
            self._text(text.get("text"), depth + 1)
        else:
            raise bad_request("can't parse RichText")
