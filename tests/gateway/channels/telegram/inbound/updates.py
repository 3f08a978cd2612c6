"""Updates as the Bot API sends them."""

from typing import Any

ADA = {"id": 9, "is_bot": False, "first_name": "Ada", "last_name": "L"}


def message(
    text: str | None = "hi", *, chat: int = 7, author: dict[str, Any] = ADA, **fields: Any
) -> dict[str, Any]:
    kind = "private" if chat > 0 else "supergroup"
    body = {
        "message_id": 5,
        "date": 1_700_000_000,
        "chat": {"id": chat, "type": kind},
        "from": author,
        **fields,
    }
    return body if text is None else {**body, "text": text}


# A rich message: https://core.telegram.org/bots/api#richmessage
RICH = {
    "blocks": [
        {"type": "heading", "text": "Plan", "size": 2},
        {
            "type": "paragraph",
            "text": [
                "See ",
                {"type": "url", "text": {"type": "bold", "text": "docs"}, "url": "https://x.org/d"},
                {"type": "custom_emoji", "custom_emoji_id": "1", "alternative_text": "👍"},
                {"type": "mathematical_expression", "expression": "x^2"},
            ],
        },
        {
            "type": "table",
            "cells": [
                [{"text": "A", "is_header": True}, {"text": "B", "is_header": True}],
                [{"text": {"type": "code", "text": "a|b"}}, {}],
            ],
            "caption": "Sizes",
        },
        {
            "type": "list",
            "items": [
                {"label": "1.", "blocks": [{"type": "paragraph", "text": "one"}]},
                {
                    "label": "•",
                    "blocks": [{"type": "paragraph", "text": "two"}],
                    "has_checkbox": True,
                    "is_checked": True,
                },
            ],
        },
        {
            "type": "details",
            "summary": "More",
            "blocks": [{"type": "pre", "text": "ls", "language": "sh"}],
        },
        {
            "type": "blockquote",
            "blocks": [{"type": "paragraph", "text": "a\nb"}],
            "credit": "Ada",
        },
        {"type": "mathematical_expression", "expression": "E=mc^2"},
        {"type": "photo", "photo": [], "caption": {"text": "A cat", "credit": "Eve"}},
        {"type": "of_a_newer_telegram", "text": "still\u200b here"},
    ]
}
