"""Updates in Telegram's format: messages, edits, button presses.

https://core.telegram.org/bots/api#update
"""

import time
from collections.abc import Sequence
from typing import Any

from tests.fakes.bot_chats import ChatMessage, Chats, person_json
from tests.fakes.bot_text import utf16_units


def message_update(chats: Chats, shown: ChatMessage, *, edited: bool) -> tuple[str, dict[str, Any]]:
    """Show a person's message in its chat; return the update's field and its Message."""
    if edited:
        old = chats.get(shown.chat_id, shown.message_id)
        assert old is not None, f"no message {shown.message_id} in chat {shown.chat_id} to edit"
        old.text, old.edit_date = shown.text, int(time.time())
        shown = old
    shown.entities = _commands(shown.text)
    chats.put(shown)
    message = chats.message_json(shown)
    if shown.thread_id is not None:
        message["chat"]["is_forum"] = True
    return ("edited_message" if edited else "message"), message


def upgrade(chats: Chats, group: int, supergroup: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the service messages for both chats: https://core.telegram.org/bots/api#message"""
    results = (
        (group, "migrate_to_chat_id", supergroup),
        (supergroup, "migrate_from_chat_id", group),
    )
    items = []
    for chat_id, field, other in results:
        message = chats.message_json(chats.put(ChatMessage(0, chat_id, "", False, 1)))
        del message["text"]
        items.append(("message", {**message, field: other}))
    return items


def membership(chats: Chats, chat_id: int, before: str, after: str, author: int) -> dict[str, Any]:
    """Return the bot's ChatMemberUpdated: https://core.telegram.org/bots/api#chatmemberupdated"""
    return {
        "chat": chats.chat_json(chat_id),
        "from": person_json(author),
        "date": int(time.time()),
        "old_chat_member": {"user": chats.me, "status": before},
        "new_chat_member": {"user": chats.me, "status": after},
    }


def callback_query(
    chats: Chats, chat_id: int, message_id: int, data: str, presser: int
) -> dict[str, Any]:
    shown = chats.get(chat_id, message_id)
    assert shown is not None, f"no message {message_id} in chat {chat_id}"
    return {
        "id": str(time.time_ns()),
        "from": person_json(presser),
        "chat_instance": str(chat_id),
        "data": data,
        "message": chats.message_json(shown) | {"reply_markup": shown.reply_markup},
    }


def _commands(text: str) -> Sequence[dict[str, Any]]:
    """Return the entity for a leading command; Telegram marks it and clients rely on it."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    if not text.startswith("/") or len(word) < 2:
        return ()
    return [{"type": "bot_command", "offset": 0, "length": utf16_units(word)}]
