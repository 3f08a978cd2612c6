"""Decoder of one raw update to a message for Kore.

https://core.telegram.org/bots/api#update
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.i18n import language_of
from agent.records import frozen
from agent.text.visible import escape_invisible, replace_lone_surrogates
from gateway.channels.chat_aliases import ChatIdAliases
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.telegram.ids import direct_topic, stored_id
from gateway.channels.telegram.inbound.media import kind_of, media_of
from gateway.channels.telegram.inbound.rich_message import rich_markdown
from gateway.channels.telegram.inbound.text_marks import mark_links_and_code
from gateway.channels.telegram.settings import Bot
from gateway.core.messages import InboundMessage, Media, Route, Sender

# Fields of messages with another person's words: https://core.telegram.org/bots/api#message
_PASSED_ON = ("forward_origin", "forward_date", "external_reply")
# Service messages in private chats that need no answer.
_SERVICE = frozenset(
    (
        *("pinned_message", "message_auto_delete_timer_changed", "write_access_allowed"),
        *("chat_background_set", "connected_website", "users_shared", "chat_shared"),
        *("successful_payment", "refunded_payment", "proximity_alert_triggered", "boost_added"),
        *("forum_topic_created", "forum_topic_edited", "forum_topic_closed"),
        *("forum_topic_reopened", "general_forum_topic_hidden", "general_forum_topic_unhidden"),
        *("migrate_to_chat_id", "migrate_from_chat_id", "new_chat_title", "new_chat_photo"),
        *("delete_chat_photo", "new_chat_members", "left_chat_member", "group_chat_created"),
        *("supergroup_chat_created", "channel_chat_created", "video_chat_scheduled"),
        *("video_chat_started", "video_chat_ended", "video_chat_participants_invited"),
        *("checklist_tasks_done", "checklist_tasks_added", "direct_message_price_changed"),
        *("paid_message_price_changed", "giveaway_created", "giveaway_completed"),
        *("suggested_post_approved", "suggested_post_approval_failed", "suggested_post_declined"),
        *("suggested_post_paid", "suggested_post_refunded", "gift_upgrade_sent"),
        *("chat_owner_left", "chat_owner_changed", "managed_bot_created"),
        *("poll_option_added", "poll_option_deleted"),
        *("community_chat_added", "community_chat_removed", "community_chat_joined"),
    )
)
_NAME_CHARS = 80
_COMMAND = re.compile(r"/(\w{1,64})(?:@(\w+))?(?=\s|\Z)")


class Undecodable(Exception):
    """Update that violates the Bot API; the text gives the place without quoting a value."""


# Exceptions raised when reading a value of the wrong type.
MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


def undecodable(error: Exception) -> Undecodable:
    """Convert an exception, leaving out a value that a person may have written.

    A `ValueError` quotes the value.
    """
    reason = "a value has the wrong form" if isinstance(error, ValueError) else str(error)
    return Undecodable(f"{type(error).__name__}: {reason}")


@frozen
class DecodeContext:
    """Context for decoding an update: the bot, its account, and the settings of chats."""

    bot: Bot
    account: str
    chat_settings: ChatSettingsIndex

    @property
    def moves(self) -> ChatIdAliases:
        return self.chat_settings.moves("telegram")


def chat_migration(update: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the ids of a group and its new supergroup; both chats report the migration."""
    message = update.get("message")
    if not isinstance(message, dict):
        return None
    match message:
        case {"migrate_from_chat_id": int(first), "chat": {"id": int(now)}}:
            return str(first), str(now)
        case {"migrate_to_chat_id": int(now), "chat": {"id": int(first)}}:
            return str(first), str(now)
    return None


def decode(
    update: Mapping[str, Any], here: DecodeContext, received_at: float
) -> InboundMessage | None:
    """Decode an update; return None if it is not for Kore.

    These are service messages, and group messages that do not mention the bot. Raises `Undecodable`
    for an update that no version of the Bot API would send.
    """
    try:
        if "callback_query" in update:
            return _press(update["callback_query"], here, received_at)
        if "stopped_message_generation" in update:
            return _stop(update, here, received_at)
        edited = "edited_message" in update
        message = update.get("edited_message" if edited else "message")
        if message is None:
            return None
        return _MessageDecoder(message, here).inbound(received_at, edited)
    except MALFORMED as exc:
        raise undecodable(exc) from exc


def _press(query: Mapping[str, Any], here: DecodeContext, received_at: float) -> InboundMessage:
    """Decode a pressed button; its message may be too old to be included, or another bot's."""
    sender = person(query["from"])
    message = query.get("message") or {}
    chat = message.get("chat") or {"id": sender.id, "type": "private"}
    return InboundMessage(
        channel="telegram",
        account=here.account,
        chat_id=here.moves.canonical(str(int(chat["id"]))),
        sender=sender,
        event_id=str(query["id"]),
        content=replace_lone_surrogates(str(query.get("data", ""))),
        received_at=received_at,
        thread_id=_topic(message),
        private=chat["type"] == "private",
        kind="button",
        pressed_on=_pressed_on(message, chat, here),
        language=language_of(query["from"].get("language_code")),
    )


def _stop(update: Mapping[str, Any], here: DecodeContext, received_at: float) -> InboundMessage:
    """Decode a pressed Stop below a draft as the command; drafts exist only in private chats.

    https://core.telegram.org/bots/api#messagegenerationstopped
    """
    stopped = update["stopped_message_generation"]
    chat, thread = stopped["chat"], stopped.get("message_thread_id")
    sender = person(chat)
    return InboundMessage(
        channel="telegram",
        account=here.account,
        chat_id=here.moves.canonical(sender.id),
        sender=sender,
        event_id=f"stopped:{int(update['update_id'])}",
        content="/stop",
        received_at=received_at,
        thread_id=str(int(thread)) if thread else None,
        private=chat["type"] == "private",
    )


def _pressed_on(
    message: Mapping[str, Any], chat: Mapping[str, Any], here: DecodeContext
) -> str | None:
    number = message.get("message_id")
    return stored_id(str(int(chat["id"])), int(number), here.moves) if number else None


def _topic(message: Mapping[str, Any]) -> str | None:
    if direct := message.get("direct_messages_topic"):
        return direct_topic(int(direct["topic_id"]))
    thread = message.get("message_thread_id")
    return str(int(thread)) if thread and message.get("is_topic_message") else None


def person(user: Mapping[str, Any]) -> Sender:
    names = (user.get("first_name"), user.get("last_name"))
    name = " ".join(str(name) for name in names if name) or str(user.get("title", ""))
    return Sender(str(int(user["id"])), replace_lone_surrogates(name))


def _source(origin: Mapping[str, Any], chat: Mapping[str, Any] | None = None) -> str | None:
    """Return the author and place of a MessageOrigin; None without a name.

    The place defaults to the surrounding `chat`.
    """
    place = origin.get("sender_chat") or origin.get("chat") or chat or {}
    author = origin.get("sender_user")
    name = (
        person(author).name
        if author
        else origin.get("sender_user_name") or origin.get("author_signature")
    )
    names = [_one_line(str(item)) for item in (name, place.get("title")) if item]
    return f"{names[0]} ({names[1]})" if len(names) > 1 else next(iter(names), None)


def _forward_source(message: Mapping[str, Any]) -> str | None:
    if origin := message.get("forward_origin"):
        return _source(origin)
    if "forward_date" not in message:
        return None
    # Servers before Bot API 7.0.
    chat = message.get("forward_from_chat")
    names = {"sender_user": message.get("forward_from"), "sender_chat": chat}
    return _source(names | {"sender_user_name": message.get("forward_sender_name")})


def _text_of(message: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Return a message's text, caption or rich content, and the entities of a text."""
    for key, entities in (("text", "entities"), ("caption", "caption_entities")):
        if (text := message.get(key)) is not None:
            if not isinstance(text, str):
                raise TypeError("the text is not a string")
            return replace_lone_surrogates(text), message.get(entities) or ()
    if rich := message.get("rich_message"):
        return replace_lone_surrogates(rich_markdown(rich)), ()
    return "", ()


def _one_line(name: str) -> str:
    return escape_invisible(" ".join(replace_lone_surrogates(name).split()))[:_NAME_CHARS]


class _MessageDecoder:
    """Decoder of a message for this bot."""

    def __init__(self, message: Mapping[str, Any], here: DecodeContext) -> None:
        self._message = message
        self._context = here
        self._bot = here.bot
        self._chat_id = int(message["chat"]["id"])
        self._message_id = int(message["message_id"])
        self._private = message["chat"]["type"] == "private"
        # Invisible characters, common in forwarded text, reach the model only as visible escapes.
        self._raw_text, self._entities = _text_of(message)
        self._text = escape_invisible(self._raw_text)

    def inbound(self, received_at: float, edited: bool) -> InboundMessage | None:
        text, sender, album = self._text_for_us(self._text), self._sender(), self._album()
        # In an album, only one part has the caption with the bot's name.
        follows = text is None and album is not None and not edited
        overheard = text is None and self._listens()
        whole = self._marked() if overheard or follows else text
        content = self._text_with_media(whole, edited)
        unknown = content is None and not edited and self._is_unknown()
        if sender is None or (content is None and not unknown):
            return None
        event_id = f"{self._chat_id}:{self._message_id}"
        if edited:
            event_id += f":{int(self._message.get('edit_date', 0))}"
        return InboundMessage(
            channel="telegram",
            account=self._context.account,
            chat_id=self._context.moves.canonical(str(self._chat_id)),
            sender=sender,
            event_id=event_id,
            content=content or "",
            received_at=received_at,
            thread_id=self._thread(),
            message_id=stored_id(str(self._chat_id), self._message_id, self._context.moves),
            quoted=self._quoted_text(),
            quoted_id=self._quoted_id(),
            quoted_own=self._is_own_quote(),
            quoted_from=self._quoted_source(),
            edited=edited,
            private=self._private,
            forwarded=not self._message.keys().isdisjoint(_PASSED_ON),
            forwarded_from=_forward_source(self._message),
            language=language_of((self._message.get("from") or {}).get("language_code")),
            media=(*media_of(self._message), *self._quoted_media()),
            album=album,
            follows=follows,
            kind="overheard" if overheard else "message",
            unknown=unknown,
        )

    def _is_unknown(self) -> bool:
        """Return whether a private message has only content of unknown kinds."""
        text = self._text or kind_of(self._message)
        return self._private and not text and _SERVICE.isdisjoint(self._message)

    def _sender(self) -> Sender | None:
        """Return the responsible sender.

        Many people share the user id of an anonymous admin or a channel.
        """
        if self._message.get("is_automatic_forward"):
            return None
        if behalf := self._message.get("sender_chat"):
            return person(behalf)
        author = self._message.get("from")
        return None if not author or author.get("is_bot") else person(author)

    def _thread(self) -> str | None:
        """Return the forum topic; replies have a thread id too, but are not separate places."""
        return _topic(self._message)

    def _listens(self) -> bool:
        """Return whether messages to others serve as context, which is so in some groups, except
        for commands.
        """
        if self._private or self._text.startswith("/"):
            return False
        chat_id = self._context.moves.canonical(str(self._chat_id))
        route = Route("telegram", self._context.account, chat_id, self._thread())
        return self._context.chat_settings.of(route).listen is True

    def _text_with_media(self, text: str | None, edited: bool) -> str | None:
        """Return the text with a label for attached content; None if there is nothing to read."""
        if text is None:
            return None
        media = kind_of(self._message)
        if media is None or (edited and not text):
            # A live location is edited every few seconds, which needs no answer.
            return text if self._text else None
        return f"[{media}] {text}".rstrip()

    def _album(self) -> str | None:
        """Return the id that the messages of one album share."""
        group = self._message.get("media_group_id")
        return f"{self._chat_id}:{group}" if group else None

    def _text_for_us(self, text: str) -> str | None:
        """Return the text without the bot's name, or None if it is not addressed to the bot."""
        name = self._bot.username.lower()
        if command := _COMMAND.match(text):
            target, end = command[2], command.end()
            if target and target.lower() != name:
                return None
            # A name or number that was copied as code is an argument like any other.
            return f"/{command[1]}{self._marked(start=end, with_code=False)[end:]}"
        if self._private:
            return self._marked()
        mention = re.compile(rf"(?<![\w@])@{re.escape(name)}(?!\w)[,:]?\s*", re.IGNORECASE)
        names = [match.span() for match in mention.finditer(self._raw_text)] if name else []
        if names or self._is_named() or self._replied_sender_id() == self._bot.id:
            return self._marked(names).strip()
        return None

    def _marked(
        self, cuts: Sequence[tuple[int, int]] = (), *, start: int = 0, with_code: bool = True
    ) -> str:
        """Return the text with links and code as Markdown, without the ranges in `cuts`."""
        if not self._entities and not cuts:
            return self._text
        return escape_invisible(
            mark_links_and_code(
                self._raw_text, self._entities, cuts, start=start, with_code=with_code
            )
        )

    def _is_named(self) -> bool:
        """Return whether the text links the bot's profile, which works without a username."""
        return any(
            entity.get("type") == "text_mention" and entity["user"]["id"] == self._bot.id
            for entity in self._entities
        )

    def _reply(self) -> Mapping[str, Any] | None:
        """Return the message replied to.

        In a topic, Telegram reports the opening message unless the sender chose one; it is ignored.
        """
        reply: Mapping[str, Any] | None = self._message.get("reply_to_message")
        return None if not reply or "forum_topic_created" in reply else reply

    def _replied_sender_id(self) -> int | None:
        reply = self._reply()
        return reply.get("from", {}).get("id") if reply else None

    def _quoted_text(self) -> str | None:
        text, entities = _text_of(self._message.get("quote") or self._reply() or {})
        return escape_invisible(mark_links_and_code(text, entities)) or None

    def _is_own_quote(self) -> bool:
        """Return whether the sender wrote the message replied to, rather than forwarding it."""
        reply = self._reply()
        if reply and not reply.keys().isdisjoint(_PASSED_ON):
            return False
        return self._replied_sender_id() == (self._message.get("from") or {}).get("id")

    def _quoted_source(self) -> str | None:
        """Return the author of the message replied to, unless it is the sender or this bot."""
        if external := self._message.get("external_reply"):
            chat = external.get("chat") or {}
            return _source({"chat": chat} | (external.get("origin") or {}), chat)
        reply = self._reply()
        if not reply:
            return None
        if source := _forward_source(reply):
            return source
        author, sender = reply.get("from") or {}, self._message.get("from") or {}
        if author.get("id") in (None, sender.get("id"), self._bot.id):
            return None
        return _source({"sender_user": reply.get("sender_chat") or author})

    def _quoted_id(self) -> str | None:
        number = (self._reply() or {}).get("message_id")
        if not isinstance(number, int):
            return None
        return stored_id(str(self._chat_id), number, self._context.moves)

    def _quoted_media(self) -> tuple[Media, ...]:
        """Return files of the message replied to, even if it is in another chat."""
        quoted = self._reply() or self._message.get("external_reply")
        if not quoted and (story := self._message.get("reply_to_story")):
            quoted = {"story": story}
        return media_of(quoted, quoted=True) if quoted else ()
