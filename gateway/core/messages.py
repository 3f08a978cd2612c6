"""What travels over the bus: messages in, messages out, and the route between them."""

import json
from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any, Literal

from agent.records import frozen
from agent.serialization import dumps

# The prefix of lanes of one-shot runs: once their process is gone, no one waits for the answer.
ONCE = "cli:local:once-"

MessageKind = Literal["message", "button", "job", "subagent_task", "subagent_report", "overheard"]

FileKind = Literal["document", "photo", "video", "audio", "voice", "animation"]


@frozen
class Route:
    """Where a message came from and where its answer goes; frozen for the life of a turn.

    `account` tells several bots of one channel apart, `thread_id` a forum topic.
    """

    channel: str
    account: str
    chat_id: str
    thread_id: str | None = None

    @property
    def lane(self) -> str:
        """The name of the queue that keeps this route's messages in order."""
        parts = [self.channel, self.account, self.chat_id]
        return ":".join([*parts, self.thread_id] if self.thread_id else parts)


@frozen
class Sender:
    """Who speaks. `id` is the platform's numeric id, never a name."""

    id: str
    name: str = ""


@frozen
class Media:
    """A received attachment: a reference, the bytes are in a file.

    `kind` is the platform's word for it (photo, document, voice …). `path` is where the file is,
    in the workspace's `inbox` folder (relative to the workspace) or anywhere (absolute). As long as
    it is None the channel can fetch it by `remote`, unless `trouble` says in a sentence why it
    cannot be had; `unique` stays the same when the same file is sent again. `quoted`: it belongs to
    the message that is replied to. `words` is what it says: what was spoken, a place, a contact.
    `digest` (SHA-256, hex) binds a picture that a model can be shown.
    """

    kind: str
    path: str | None = None
    name: str | None = None
    media_type: str | None = None
    size_bytes: int | None = None
    seconds: int | None = None
    remote: str | None = None
    unique: str | None = None
    trouble: str | None = None
    quoted: bool = False
    words: str | None = None
    digest: str | None = None
    # Which model wrote down what was spoken, and what that cost in nano-dollars if it is known.
    heard_by: str | None = None
    heard_nano: int | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether it is still to be fetched."""
        return self.remote is not None and self.path is None and self.trouble is None


@frozen
class InboundMessage:
    """One received message.

    `event_id` is what the platform keeps across redelivery; with channel and account it is
    unique. `message_id` is the platform's id of the message (an edit keeps it). `edited` marks a
    new version of an earlier message. `private` is false in groups. `received_at` is Unix time in
    seconds. `quoted` is the text of the message that this one replies to, `quoted_id` its id, and
    `quoted_own` says that the sender wrote it.
    """

    channel: str
    account: str
    chat_id: str
    sender: Sender
    event_id: str
    content: str
    received_at: float
    thread_id: str | None = None
    message_id: str | None = None
    quoted: str | None = None
    quoted_id: str | None = None
    quoted_own: bool = False
    edited: bool = False
    private: bool = True
    # Another person's words, which the sender forwards.
    forwarded: bool = False
    # What the sender chose for this one message: model, thinking, auto, mode, allowed_tools,
    # disallowed_tools, unattended, agent, cwd, project, run, max_iterations, max_cost_usd. Only
    # the console's count.
    options: dict[str, Any] = field(default_factory=dict)
    # A button below one of our messages was pressed: `content` is what the button holds.
    # `pressed_on` is the id of that message.
    pressed: bool = False
    pressed_on: str | None = None
    # Not a person's words: what a sub-agent is to do, waiting in a `lane` of its own, or else what
    # one came to. `task` is the errand's number.
    task: int | None = None
    lane: str | None = None
    # Said in a group and not to us: what the next answer there is given as context.
    overheard: bool = False
    # Not typed now: a job that came due, in its maker's name. No one can be asked.
    job: int | None = None
    # Files that came with it, in order. Parts of one `album` come one by one and become one
    # message (see `store/held.py`). One that `follows` is meant for us only if its album is.
    media: tuple[Media, ...] = ()
    album: str | None = None
    follows: bool = False
    # It holds nothing that this version of Kore can read; `content` is empty.
    unknown: bool = False
    # What the sender's app is set to, one of `agent.i18n.LANGUAGES`.
    language: str | None = None

    @property
    def answer_to(self) -> str | None:
        """What an answer points at: in a group, its question."""
        return None if self.private else self.message_id

    @property
    def route(self) -> Route:
        return Route(self.channel, self.account, self.chat_id, self.thread_id)

    @property
    def model(self) -> str | None:
        """The one that a terminal's `--model` names; it goes before the conversation's."""
        model = self.options.get("model")
        return model if isinstance(model, str) else None

    @property
    def session_key(self) -> str:
        """The lane that this message waits in; it is bound to a session when it is claimed."""
        return self.lane or self.route.lane

    @property
    def kind(self) -> MessageKind:
        """What it is, whatever it brings besides: a sub-agent that works for a job has its `job`,
        too. Which messages are commands, those who read them know."""
        if self.pressed:
            return "button"
        if self.task is not None:
            return "subagent_report" if self.lane is None else "subagent_task"
        if self.job is not None:
            return "job"
        return "overheard" if self.overheard else "message"

    @property
    def speakers(self) -> list["InboundMessage"]:
        """Itself; what a sub-agent tells stands for everybody whom that one worked for."""
        others = self.options.get("speakers", ()) if self.task is not None else ()
        return [self, *(replace(self, sender=Sender(**one)) for one in others)]

    @property
    def principal(self) -> str:
        return f"{self.channel}:{self.sender.id}"

    def to_json(self) -> str:
        media = [_values(one) for one in self.media]
        return dumps(_values(self) | {"sender": _values(self.sender), "media": media})

    @classmethod
    def from_json(cls, text: str) -> "InboundMessage":
        """Raises TypeError or KeyError when the text is not an inbound message's."""
        data = json.loads(text)
        # Stored by another version of Kore, it may have fields that this one does not know.
        values = _matching_fields(cls, data)
        media = tuple(Media(**_matching_fields(Media, one)) for one in values.get("media", ()))
        return cls(**{**values, "sender": Sender(**data["sender"]), "media": media})


def _values(record: Any) -> dict[str, Any]:
    # `asdict` walks and copies all that there is, which every message would pay for.
    return {name: getattr(record, name) for name in record.__slots__}


def _matching_fields(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: data[field.name] for field in fields(cls) if field.name in data}


@frozen
class Entity:
    """Formatting of a stretch of text; offset and length count UTF-16 units."""

    type: str
    offset: int
    length: int
    extra: dict[str, Any] = field(default_factory=dict)


@frozen
class Button:
    """A button below a message; `data` (at most 64 bytes) comes back when it is pressed."""

    label: str
    data: str


@frozen
class OutboundFile:
    """A file on its way out: the one at `path`, which nothing changes until it is sent (see
    `outgoing.py`), or one that holds `text`.

    `kind` is how the platform should show it; a platform that knows no such thing sends a document.
    """

    name: str
    path: str | None = None
    text: str | None = None
    kind: FileKind = "document"
    size_bytes: int = 0


@frozen
class OutboundPart:
    """One platform message: already rendered and within the platform's size limit.

    With `files` it is a message of the files, several of them an album, and `text` stands below;
    only a channel that `SendsMedia` is given such.
    """

    text: str
    entities: tuple[Entity, ...] = ()
    buttons: tuple[Button, ...] = ()
    files: tuple[OutboundFile, ...] = ()


OutboundKind = Literal["final", "notice", "approval"]


@frozen
class OutboundMessage:
    """One part of a reply on its way out.

    `provider_message_id` is set when the platform already shows an earlier version (a preview):
    the part then goes out as an edit of it. `maybe_duplicate` means that an earlier try may have
    arrived; the channel shows that to the reader. `preview_lost`: what may have arrived is only an
    unfinished preview. `event_id` names the inbound message that is answered, and `last` closes the
    answer. `strayed`: its topic is closed or gone, so it goes to the chat around it.
    """

    delivery_id: str
    part: int
    route: Route
    content: OutboundPart
    kind: OutboundKind = "final"
    reply_to: str | None = None
    provider_message_id: str | None = None
    maybe_duplicate: bool = False
    preview_lost: bool = False
    event_id: str | None = None
    last: bool = True
    strayed: bool = False


CONSOLE = "cli"
