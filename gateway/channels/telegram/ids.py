"""Conversion of chat and message ids between Kore and Telegram.

A group that becomes a supergroup gets a new id, and message numbers restart: message 5 of the group
and message 5 of the supergroup differ. Ids of messages in a moved chat are therefore stored with
the chat's current id as a prefix; ids without it are older.
https://core.telegram.org/bots/api#responseparameters
"""

from collections.abc import Mapping

from gateway.channels.chat_aliases import ChatIdAliases
from gateway.core.messages import Route


def telegram_chat_id(route: Route, moves: ChatIdAliases) -> int:
    """Return Telegram's current id of the route's chat."""
    return int(moves.current(route.chat_id))


# Prefix of the thread ids of topics in the direct messages of a channel.
_DIRECT = "direct-"


def direct_topic(topic_id: int) -> str:
    """Return the thread id of a topic in the direct messages of a channel.

    https://core.telegram.org/bots/api#directmessagestopic
    """
    return f"{_DIRECT}{topic_id}"


def is_direct(route: Route) -> bool:
    """Return whether the route is a topic in the direct messages of a channel."""
    return (route.thread_id or "").startswith(_DIRECT)


def thread_parameters(route: Route) -> Mapping[str, int]:
    """Return the parameters that name the route's topic in calls of the Bot API."""
    if not route.thread_id:
        return {}
    if is_direct(route):
        return {"direct_messages_topic_id": int(route.thread_id.removeprefix(_DIRECT))}
    return {"message_thread_id": int(route.thread_id)}


def telegram_message_id(route: Route, message_id: str, moves: ChatIdAliases) -> int | None:
    """Return Telegram's number for a stored id; None if its group no longer exists."""
    chat, slash, number = message_id.rpartition("/")
    moved = moves.current(route.chat_id) != route.chat_id
    return (
        int(number) if bool(slash) == moved and chat in ("", moves.current(route.chat_id)) else None
    )


def stored_id(chat_id: str, message_id: int, moves: ChatIdAliases) -> str:
    """Return the stored form of a message id; `chat_id` is Telegram's."""
    return str(message_id) if moves.canonical(chat_id) == chat_id else f"{chat_id}/{message_id}"
