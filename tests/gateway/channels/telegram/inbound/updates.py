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
