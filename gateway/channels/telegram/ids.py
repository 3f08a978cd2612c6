"""Ids of chats and messages, between what Kore stores and what Telegram means.

A group that becomes a supergroup gets a new id, and its messages are counted anew: message 5 of
the group and message 5 of the supergroup are two. So ids of messages in a chat that has moved
are stored with the chat's present id in front; without it they are from before.
https://core.telegram.org/bots/api#responseparameters
"""

from gateway.channels.chat_aliases import ChatIdAliases
from gateway.core.messages import Route


def telegram_chat_id(route: Route, moves: ChatIdAliases) -> int:
    """Where Telegram has the route's chat now."""
    return int(moves.current(route.chat_id))


def thread_of(route: Route) -> int | None:
    return int(route.thread_id) if route.thread_id else None


def telegram_message_id(route: Route, message_id: str, moves: ChatIdAliases) -> int | None:
    """A stored id as Telegram counts it; None for one of a group that is no more."""
    chat, slash, number = message_id.rpartition("/")
    moved = moves.current(route.chat_id) != route.chat_id
    return (
        int(number) if bool(slash) == moved and chat in ("", moves.current(route.chat_id)) else None
    )


def stored_id(chat_id: str, message_id: int, moves: ChatIdAliases) -> str:
    """The id of a message as it is stored; `chat_id` is Telegram's."""
    return str(message_id) if moves.canonical(chat_id) == chat_id else f"{chat_id}/{message_id}"
