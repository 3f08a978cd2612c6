"""Chats of a fake Bot API: visible messages and the journal of effects."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.bot_files import SentFile
from tests.fakes.bot_text import Refusal, bad_request

BOT = {"id": 42, "is_bot": True, "first_name": "Kore", "username": "kore_test_bot"}
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the "
    "same as a current content and reply markup of the message"
)


@dataclass(slots=True)
class ChatMessage:
    """A message as it is visible now; `from_bot` marks messages of the bot."""

    message_id: int
    chat_id: int
    text: str
    from_bot: bool
    sender_id: int
    entities: Sequence[dict[str, Any]] = ()
    thread_id: int | None = None
    reply_to: int | None = None
    date: int = field(default_factory=lambda: int(time.time()))
    edit_date: int | None = None
    reply_markup: Any = None
    # Media fields of the message; its text is then a caption.
    media: Mapping[str, Any] = field(default_factory=dict)
    # Blocks of a rich message, of which its text is only a summary.
    blocks: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """One action of the bot; `time` is Unix time in seconds."""

    method: str
    chat_id: int | None
    thread_id: int | None = None
    text: str | None = None
    entities: Sequence[dict[str, Any]] = ()
    message_id: int | None = None
    reply_to: int | None = None
    time: float = field(default_factory=time.time)
    params: dict[str, Any] = field(default_factory=dict)
    files: Sequence[SentFile] = ()


class Chats:
    """All chats of the bot `me`. Message ids count per chat, as in Telegram's supergroups.

    Another bot sees the same messages with `share`.
    """

    def __init__(self, me: Mapping[str, Any] = BOT) -> None:
        self.me = me
        self.bots = {me["id"]: me}
        self.journal: list[Effect] = []
        self.kinds: dict[int, str] = {}
        self.blocked: set[int] = set()
        self.missing: set[int] = set()
        # Chats whose members may not send files, or may not send anything.
        self.without_files: set[int] = set()
        self.muted: set[int] = set()
        self.upgraded: dict[int, int] = {}
        # Draft of each private chat, shown until the message itself arrives.
        self.drafts: dict[int, str] = {}
        # Drafts with a button Stop: the fields of the update that it sends.
        self.stoppable: dict[int, dict[str, Any]] = {}
        self.reactions: dict[tuple[int, int], list[str]] = {}
        self.closed_as = "message thread not found"
        self.closed_threads: set[tuple[int, int]] = set()
        self._messages: dict[int, dict[int, ChatMessage]] = defaultdict(dict)
        self._last_id: dict[int, int] = defaultdict(int)

    def share(self, me: Mapping[str, Any]) -> "Chats":
        """Return the same chats for another bot, with a separate journal."""
        other = Chats(me)
        other.kinds, other._messages, other._last_id = self.kinds, self._messages, self._last_id
        self.bots[me["id"]] = me
        other.bots = self.bots
        return other

    def visible(self, chat_id: int) -> list[ChatMessage]:
        return list(self._messages[chat_id].values())

    def get(self, chat_id: int, message_id: int) -> ChatMessage | None:
        return self._messages[chat_id].get(message_id)

    def put(self, shown: ChatMessage) -> ChatMessage:
        """Show a message; an id of 0 takes the chat's next id."""
        if shown.from_bot:
            self.drafts.pop(shown.chat_id, None)
            self.stoppable.pop(shown.chat_id, None)
        if not shown.message_id:
            shown.message_id = self._last_id[shown.chat_id] + 1
        self._last_id[shown.chat_id] = max(self._last_id[shown.chat_id], shown.message_id)
        self._messages[shown.chat_id][shown.message_id] = shown
        return shown

    def edit(self, chat_id: int, message_id: int, new: ChatMessage) -> ChatMessage:
        """Edit the bot's message; unchanged content is rejected as Telegram does."""
        old = self.get(chat_id, message_id)
        if old is None:
            raise bad_request("message to edit not found")
        if not old.from_bot:
            raise bad_request("message can't be edited")
        same = (old.text, list(old.entities), list(old.blocks), old.reply_markup)
        if same == (new.text, list(new.entities), list(new.blocks), new.reply_markup):
            raise bad_request(NOT_MODIFIED)
        old.text, old.entities, old.reply_markup = new.text, new.entities, new.reply_markup
        old.blocks = new.blocks
        old.edit_date = int(time.time())
        return old

    def delete(self, chat_id: int, message_id: int) -> None:
        if self._messages[chat_id].pop(message_id, None) is None:
            raise bad_request("message to delete not found")

    def check_reachable(self, chat_id: int, thread_id: int | None) -> None:
        """Raise Telegram's error for a chat or topic that the bot cannot write to."""
        if chat_id in self.upgraded:
            text = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refusal(400, text, migrate_to=self.upgraded[chat_id])
        if chat_id in self.missing:
            raise bad_request("chat not found")
        if chat_id in self.blocked:
            kicked = chat_id < 0
            raise Refusal(
                403,
                "Forbidden: bot was kicked from the supergroup chat"
                if kicked
                else "Forbidden: bot was blocked by the user",
            )
        if thread_id is not None and (chat_id, thread_id) in self.closed_threads:
            raise bad_request(self.closed_as)
        if chat_id in self.muted:
            raise bad_request("not enough rights to send text messages to the chat")

    def check_takes_files(self, chat_id: int, kind: str) -> None:
        if chat_id in self.without_files:
            raise bad_request(f"not enough rights to send {kind}s to the chat")

    def message_json(self, shown: ChatMessage) -> dict[str, Any]:
        """Return the Message object of https://core.telegram.org/bots/api#message."""
        sender = self.bots[shown.sender_id] if shown.from_bot else person_json(shown.sender_id)
        message: dict[str, Any] = {
            "message_id": shown.message_id,
            "from": sender,
            "chat": self.chat_json(shown.chat_id),
            "date": shown.date,
            **shown.media,
        }
        if shown.blocks:
            message["rich_message"] = {"blocks": list(shown.blocks)}
        elif shown.text or not shown.media:
            message["caption" if shown.media else "text"] = shown.text
        if shown.entities:
            message["caption_entities" if shown.media else "entities"] = list(shown.entities)
        if shown.thread_id is not None:
            message |= {"message_thread_id": shown.thread_id, "is_topic_message": True}
        if shown.edit_date is not None:
            message["edit_date"] = shown.edit_date
        if shown.reply_to is not None and (quoted := self.get(shown.chat_id, shown.reply_to)):
            inner = self.message_json(quoted)
            inner.pop("reply_to_message", None)
            message["reply_to_message"] = inner
        return message

    def chat_json(self, chat_id: int) -> dict[str, Any]:
        kind = self.kinds.get(chat_id, "private" if chat_id > 0 else "supergroup")
        chat: dict[str, Any] = {"id": chat_id, "type": kind}
        return chat | (
            {"first_name": f"Person {chat_id}"}
            if kind == "private"
            else {"title": f"Group {chat_id}"}
        )


def person_json(user_id: int) -> dict[str, Any]:
    """Return the User object of a person, as used in messages and button presses."""
    name = f"Person {user_id}"
    return {"id": user_id, "is_bot": False, "first_name": name, "language_code": "en"}
