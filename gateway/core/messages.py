"""Records on the message bus: inbound messages, outbound messages and routes."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, Literal, get_args

from agent.providers.effort import read_effort
from agent.records import frozen
from agent.serialization import dumps
from agent.types import ReasoningEffort, Taint
from gateway.core.session_folder import SessionFolder

# Prefix of lanes of one-shot runs; after their process has ended, no one waits for the answer.
ONCE = "cli:local:once-"

MessageKind = Literal[
    "message", "button", "job", "subagent_task", "subagent_report", "command_report",
    "goal", "goal_step", "goal_check", "overheard",
]  # fmt: skip

FileKind = Literal["document", "photo", "video", "audio", "voice", "animation"]


@frozen
class Route:
    """Origin of a message and destination of its answer; frozen for the life of a turn.

    `account` distinguishes several bots of one channel, `thread_id` names a forum topic.
    """

    channel: str
    account: str
    chat_id: str
    thread_id: str | None = None

    @property
    def lane(self) -> str:
        """Name of the queue that orders this route's messages."""
        parts = [self.channel, self.account, self.chat_id]
        return ":".join([*parts, self.thread_id] if self.thread_id else parts)


def route_of_session(session: str) -> Route:
    """Return the route that all clients of a session share."""
    return Route(CONSOLE, "local", f"session-{session}")


@frozen
class Sender:
    """Author of a message. `id` is the platform's numeric id, never a name."""

    id: str
    name: str = ""


@frozen
class Media:
    """Received attachment: a reference to a file.

    `kind` is the platform's word for it (photo, document, voice …). `path` is the location of the
    file, in the workspace's `inbox` folder (relative to the workspace) or anywhere (absolute).
    While it is None, the channel can fetch the file by `remote`, unless `trouble` explains in a
    sentence why it is unavailable. `unique` stays the same when the same file is sent again.
    `quoted`: it belongs to the message to which this is a reply. `words` is its content as text:
    speech, a place, a contact. `digest` (SHA-256, hex) binds a picture that a model can be shown,
    `file_digest` any file that other machines can fetch.
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
    # The model that transcribed the speech, and its cost in nano-dollars if known.
    heard_by: str | None = None
    heard_nano: int | None = None
    file_digest: str | None = None

    @property
    def is_awaited(self) -> bool:
        """True while the file still has to be fetched."""
        return self.remote is not None and self.path is None and self.trouble is None


# Handling of a message that arrives during a turn: in a separate turn afterwards, in one turn with
# all waiting messages, or in the running turn.
QueueMode = Literal["queue", "join", "steer"]

_PLAIN_OPTIONS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("auto", "unattended", "by_model", "in_session_folder"), (bool,)),
    **dict.fromkeys(
        (
            *("model", "effort", "mode", "mode_limit", "queue", "cwd", "start_folder", "session"),
            *("full_access", "plan"),
        ),
        (str,),
    ),
    **dict.fromkeys(("agent", "project"), (dict,)),
    "max_iterations": (int,),
    "max_cost_usd": (int, float),
}


@frozen
class MessageOptions:
    """Options of one message, which apply to all work that it causes.

    The choices of a terminal's sender: `model`, `effort`, `auto` (ask nothing), `mode` (see
    `first_mode`), the tools to allow or not, `unattended` (no one can be asked), `queue` (see
    `queue_mode`), `agent` (the agent definition to use), `cwd`, `start_folder` (the folder inside
    `cwd` where relative paths start), `add_dirs` (folders to add to the conversation), and limits.
    Data that the terminal sends along: `project` (changes in the folder) and `run` (commands that
    the person ran). Only the console's options count. `full_access` is the token of the process
    that gave it: to any other process it is worth nothing. `mode_limit` is the most permissive mode
    that its sender may use.

    Added by Kore to a job, a goal or a report: the `session` it belongs to, its `taint`, whether
    the model has written a job (`by_model`), and the other `speakers` of a report. Added to a
    message without a folder: the folder of its session (`in_session_folder`), which no terminal
    describes. Added to the message that begins to carry out the plan of another conversation: the
    `plan`, which a model wrote.
    """

    model: str | None = None
    effort: ReasoningEffort | None = None
    auto: bool = False
    mode: str | None = None
    mode_limit: str | None = None
    queue: QueueMode | None = None
    full_access: str | None = field(default=None, repr=False)
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] | None = None
    unattended: bool = False
    agent: Mapping[str, Any] | None = None
    cwd: str | None = None
    start_folder: str | None = None
    add_dirs: tuple[str, ...] = ()
    max_iterations: int | None = None
    max_cost_usd: float | None = None
    project: Mapping[str, Any] | None = None
    run: tuple[Mapping[str, Any], ...] = ()
    session: str | None = None
    taint: tuple[Taint, ...] = ()
    by_model: bool = False
    in_session_folder: bool = False
    speakers: tuple[Sender, ...] = ()
    plan: str | None = None

    @property
    def folder(self) -> SessionFolder | None:
        """Folder of the work; None for the default."""
        return None if self.cwd is None else SessionFolder(self.cwd, self.start_folder)

    @property
    def first_mode(self) -> str | None:
        """Permission mode for a session without one; a one-shot run always uses it."""
        return "auto" if self.auto else self.mode

    def in_folder(self, folder: SessionFolder) -> "MessageOptions":
        return replace(self, cwd=folder.workspace, start_folder=folder.start_folder)

    @property
    def lasting(self) -> "MessageOptions":
        """Return the sender's choices for all later messages, without those for this one."""
        return replace(self, queue=None, project=None, run=(), plan=None)

    def queue_mode(self, choice: QueueMode | None, default: QueueMode) -> QueueMode:
        """Return the queue mode of a message with these options that arrives during a turn.

        The `choice` for the conversation overrides the default of a screen (`queue` is "steer"),
        but not a request for this message ("queue").
        """
        return "queue" if self.queue == "queue" else choice or self.queue or default

    def to_json(self) -> dict[str, Any]:
        """Return the options that are set, as a JSON object."""
        values = {name: value for name, value in _values(self).items() if value or value == 0}
        for name in ("allowed_tools", "disallowed_tools"):
            if getattr(self, name) is not None:
                values[name] = list(getattr(self, name))
        values |= {
            name: list(values[name]) for name in ("run", "taint", "add_dirs") if name in values
        }
        if self.speakers:
            values["speakers"] = [_values(speaker) for speaker in self.speakers]
        return {name: value for name, value in values.items() if value is not False}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MessageOptions":
        """Return the options in a JSON object.

        Options of a wrong type or of another version are dropped. Tools that are not a list of
        names allow none.
        """
        values: dict[str, Any] = {
            name: data[name]
            for name, kinds in _PLAIN_OPTIONS.items()
            if isinstance(data.get(name), kinds)
            and isinstance(data[name], bool) == (kinds == (bool,))
        }
        for name in ("allowed_tools", "disallowed_tools"):
            if name in data:
                values[name] = tuple(data[name]) if isinstance(data[name], list) else ()
        values["add_dirs"] = tuple(
            name for name in _list(data, "add_dirs") if isinstance(name, str)
        )
        values["effort"] = read_effort(values.get("effort"))
        if values.get("queue") not in get_args(QueueMode):
            values["queue"] = None
        values["run"] = tuple(item for item in _list(data, "run") if isinstance(item, dict))
        values["taint"] = tuple(item for item in _list(data, "taint") if item in get_args(Taint))
        values["speakers"] = tuple(
            Sender(**_matching_fields(Sender, item))
            for item in _list(data, "speakers")
            if isinstance(item, dict) and isinstance(item.get("id"), str)
        )
        return cls(**values)


@frozen
class InboundMessage:
    """Received message.

    Its `kind` decides its treatment: a person's message, a pressed button, a due job, the task or
    the result of a sub-agent, the end of background commands, a goal, the next turn for a goal, the
    check of a goal, or a message in a group that is not addressed to Kore. The readers of messages
    recognize commands. `event_id` is the platform's id, unchanged after redelivery; with channel
    and account it is unique. `message_id` is the platform's id of the message (an edit has the
    same). `edited` marks a new version of an earlier message. `private` is false in groups.
    `received_at` is Unix time in seconds. `quoted` is the text of the message that this one replies
    to, `quoted_id` its id; `quoted_own` means that the sender wrote it; `quoted_from` names another
    author or chat.
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
    quoted_from: str | None = None
    edited: bool = False
    private: bool = True
    # Another person's words, which the sender forwards or takes from another chat.
    forwarded: bool = False
    forwarded_from: str | None = None
    kind: MessageKind = "message"
    options: MessageOptions = MessageOptions()
    # For a button, `content` is its data and `pressed_on` the id of its message.
    pressed_on: str | None = None
    # The number of the sub-agent's task, which waits in a separate `lane`.
    task: int | None = None
    lane: str | None = None
    # The number of the due job, in its creator's name, or of the job that this message works for.
    # No person can be asked.
    job: int | None = None
    # Files of the message, in order. Parts of one `album` arrive separately and become one message
    # (see `store/held.py`). A part that `follows` is addressed to Kore only if its album is.
    media: tuple[Media, ...] = ()
    album: str | None = None
    follows: bool = False
    # This version of Kore cannot read any of it; `content` is empty.
    unknown: bool = False
    # Language of the sender's app, one of `agent.i18n.LANGUAGES`.
    language: str | None = None

    @property
    def answer_to(self) -> str | None:
        """Id of the message that an answer refers to: in a group, the question."""
        return None if self.private else self.message_id

    @property
    def route(self) -> Route:
        return Route(self.channel, self.account, self.chat_id, self.thread_id)

    @property
    def model(self) -> str | None:
        """Model of a terminal's `--model`, which overrides the conversation's model."""
        return self.options.model

    @property
    def session_key(self) -> str:
        """Lane that this message waits in; it is bound to a session when it is claimed."""
        return self.lane or self.route.lane

    @property
    def is_once(self) -> bool:
        """True for a one-shot run: after its process has ended, no one waits for the answer."""
        return self.session_key.startswith(ONCE)

    @property
    def session_mode(self) -> str | None:
        """Permission mode that the message gives to its session if that has none yet.

        A one-shot run and the work that Kore adds leave the session's mode alone.
        """
        is_said = self.channel == CONSOLE and self.kind == "message" and self.job is None
        return self.options.first_mode if is_said and not self.is_once else None

    @property
    def is_report(self) -> bool:
        """True for a report of background work."""
        return self.kind in ("subagent_report", "command_report")

    @property
    def is_for_goal(self) -> bool:
        """True for a goal, and for the turns and checks that Kore adds for it."""
        return self.kind in ("goal", "goal_step", "goal_check")

    @property
    def speakers(self) -> list["InboundMessage"]:
        """Return the message itself; for a report, a message of each person it reports to."""
        others = self.options.speakers if self.task is not None or self.is_report else ()
        return [self, *(replace(self, sender=sender) for sender in others)]

    @property
    def principal(self) -> str:
        return f"{self.channel}:{self.sender.id}"

    def begun_event_id(self, command: str) -> str:
        """Return the event id of the message with which this call of a command begins a turn."""
        return f"{self.event_id}:{command}"

    def derive(  # noqa: PLR0913 - each field that passes over is named
        self,
        kind: MessageKind,
        event_id: str,
        content: str,
        received_at: float,
        *,
        options: MessageOptions,
        task: int | None = None,
        job: int | None = None,
        lane: str | None = None,
    ) -> "InboundMessage":
        """Return a message that Kore writes because of this one, for the same people and place.

        Only the fields named here are copied: files, album, quote and id belong to one message.
        """
        return InboundMessage(
            channel=self.channel,
            account=self.account,
            chat_id=self.chat_id,
            thread_id=self.thread_id,
            private=self.private,
            sender=self.sender,
            language=self.language,
            kind=kind,
            event_id=event_id,
            content=content,
            received_at=received_at,
            options=options,
            task=task,
            job=self.job if job is None else job,
            lane=lane,
        )

    def to_json(self) -> str:
        media = [_values(attachment) for attachment in self.media]
        values = {"sender": _values(self.sender), "media": media, "options": self.options.to_json()}
        return dumps(_values(self) | values)

    @classmethod
    def from_json(cls, text: str) -> "InboundMessage":
        """Parse an inbound message; raises TypeError or KeyError for any other text."""
        data = json.loads(text)
        # A later version of Kore may have stored fields that this version does not know.
        values = _matching_fields(cls, data)
        media = tuple(Media(**_matching_fields(Media, attachment)) for attachment in data["media"])
        return cls(
            **{
                **values,
                "kind": data["kind"],
                "sender": Sender(**_matching_fields(Sender, data["sender"])),
                "options": MessageOptions.from_json(data["options"]),
                "media": media,
            }
        )


def derive_report(  # noqa: PLR0913 - as `derive`
    messages: Sequence[InboundMessage],
    kind: Literal["subagent_report", "command_report"],
    event_id: str,
    content: str,
    received_at: float,
    *,
    session: str,
    taint: tuple[Taint, ...],
    task: int | None = None,
) -> InboundMessage:
    """Return a report of background work for all people whose `messages` began it."""
    last = messages[-1]
    speakers = {
        speaker.sender.id: speaker.sender for message in messages for speaker in message.speakers
    }
    return last.derive(
        kind,
        event_id,
        content,
        received_at,
        options=replace(
            last.options.lasting,
            session=session,
            speakers=tuple(speaker for speaker in speakers.values() if speaker != last.sender),
            taint=taint,
        ),
        task=task,
    )


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    return value if isinstance(value, list) else []


def _values(record: Any) -> dict[str, Any]:
    # `asdict` walks and copies everything, a cost for every message.
    return {name: getattr(record, name) for name in record.__slots__}


def _matching_fields(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: data[field.name] for field in fields(cls) if field.name in data}


@frozen
class Entity:
    """Formatting of a range of text; offset and length count UTF-16 units."""

    type: str
    offset: int
    length: int
    extra: dict[str, Any] = field(default_factory=dict)


@frozen
class Button:
    """Button below a message; `data` is returned when it is pressed."""

    label: str
    data: str


@frozen
class OutboundFile:
    """An outgoing file: the file at `path`, or a file with the content `text`.

    The file at `path` does not change until it is sent (see `outgoing.py`). `kind` is how the
    platform should show it; a platform without this kind sends a document. `digest` (SHA-256, hex)
    is set if other machines can send it, too: they fetch it by the digest and the last part of
    `path`.
    """

    name: str
    path: str | None = None
    text: str | None = None
    kind: FileKind = "document"
    size_bytes: int = 0
    digest: str | None = None


@frozen
class OutboundPart:
    """One platform message: already rendered and within the platform's size limit.

    With `files` it is a message of the files, several of them an album, and `text` is the caption;
    only a channel that `SupportsMedia` receives such parts.
    """

    text: str
    entities: tuple[Entity, ...] = ()
    buttons: tuple[Button, ...] = ()
    files: tuple[OutboundFile, ...] = ()


OutboundKind = Literal["final", "notice", "approval"]


@frozen
class OutboundMessage:
    """One outgoing part of a reply.

    `provider_message_id` is set when the platform already shows an earlier version (a preview): the
    part is then sent as an edit of it. `maybe_duplicate` means that an earlier attempt may have
    arrived; the channel shows this to the reader. `preview_lost`: only an unfinished preview may
    have arrived. `event_id` names the inbound message that is answered, and `last` closes the
    answer. `strayed`: its topic is closed or gone, so it is sent to the surrounding chat. `seq` is
    its number in the outbox. `outcome` is as in `Delivered`.
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
    seq: int = 0
    outcome: str | None = None


CONSOLE = "cli"


def console_principal() -> str:
    """Return the principal of this machine's console user, for approvals, sessions and costs."""
    return f"{CONSOLE}:{os.getuid()}"
