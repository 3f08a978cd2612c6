"""What is known of conversations: the records that rooms hand to each other."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal

from agent.events import Event
from agent.records import frozen
from agent.types import Message, Usage
from gateway.core.messages import OutboundKind


@frozen
class Delivered:
    """A part of an answer or a notice has reached this lane for good; `text` is markdown.

    `event_id` names the inbound message that it answers (the newest, when several were joined),
    `last` closes that answer. It comes after the turn's `Done`, once everything is on disk. `seq`
    is its number: a watcher that was cut off asks for what comes after the last one that it has.
    """

    type: ClassVar[str] = "delivered"
    text: str
    kind: OutboundKind
    event_id: str | None
    last: bool
    maybe_duplicate: bool = False
    seq: int = 0

    def is_repeat(self, last_seq: int) -> bool:
        """Whether a watcher whose last delivery has this number was given it before: what went into
        a connection that broke comes again."""
        return self.maybe_duplicate and 0 < self.seq <= last_seq


@frozen
class TurnStored:
    """A turn is over, and all that it has said is on disk."""

    type: ClassVar[str] = "turn_end"


WatchEvent = Event | Delivered


@frozen
class WorkerInfo:
    """A process that runs turns for the owner of the data, and counts until it `is_ended`. `seen_s`
    is how many seconds ago it said that it lives, `began_at` Unix time, `state` what it says of
    itself, `schema` the newest migration that its program knows."""

    number: int
    name: str
    began_at: float
    seen_s: float
    state: Mapping[str, Any]
    schema: int = 0
    is_ended: bool = False


@frozen
class MessageStored:
    """A message of a conversation is on disk, as number `seq` of its session, counted from 1.

    It replaces what streamed of it before. Stored `at`, in Unix seconds.
    """

    type: ClassVar[str] = "message"
    seq: int
    at: float
    message: Message


@frozen
class SessionIdle:
    """No turn runs or waits in a session that one has begun to follow."""

    type: ClassVar[str] = "idle"


@frozen
class HistoryReset:
    """Messages were taken back: what follows is the conversation from its beginning."""

    type: ClassVar[str] = "reset"


@frozen
class SessionChanged:
    """A session is new, or its name or its status has changed."""

    type: ClassVar[str] = "session_changed"


OutcomeState = Literal["unknown", "waiting", "running", "done", "dropped"]


@frozen
class MessageOutcome:
    """What became of a message: nobody knows it, it waits for its turn, its turn runs, the turn is
    done, or it will not be answered (`reason`). `text` and `usage` are those of a turn that is
    done; of a chat command there is no text."""

    state: OutcomeState
    reason: str = ""
    text: str = ""
    session: str = ""
    usage: Usage = Usage()


@frozen
class ModelTool:
    """A tool of a program that calls a model; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@frozen
class ModelCall:
    """One call of a model by its name or a profile's, without Kore's agent. `options` are those of
    `agent.providers.model_settings.ModelSettings`."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ModelTool, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@frozen
class ApiRequest:
    """A request with an `Idempotency-Key` over the OpenAI-compatible API: `token` says whose it is,
    `key` and `digest` are digests of the header and of what is asked. `id` is the one that its
    answer gets if it is new. `principal` is the person that the token is; '' for the owner."""

    token: str
    key: str
    digest: str
    id: str
    principal: str = ""


@frozen
class ApiAnswer:
    """What a program was given for a request, or will be. `made_at`: when the request came, in
    Unix seconds. `answer` None of one that `is_given`: it was not to be stored. `conversation` is
    what a later request can go on from."""

    token: str
    id: str
    made_at: float
    key: str = ""
    is_given: bool = False
    answer: Mapping[str, Any] | None = None
    conversation: tuple[Message, ...] | None = None


@frozen
class EditorRequest:
    """What a turn asks the person's editor: to give the text of the file at `path`, or to show
    `text` there and save it. Answered by `answer_editor` with its `id`."""

    id: str
    action: Literal["read", "write"]
    path: str
    text: str = ""


@frozen
class SessionServer:
    """An MCP server that an editor names for one session: a `command` to start, or a `url` to
    reach, by the old transport if `is_sse`."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_sse: bool = False


SessionEvent = WatchEvent | MessageStored | TurnStored | SessionIdle | HistoryReset | SessionChanged


@frozen
class SessionNews:
    """An event of one session, for who follows several."""

    session: str
    event: SessionEvent


# Its own turn afterwards; one turn with all that waits; or into the turn that runs.
QueueMode = Literal["queue", "join", "steer"]

SessionState = Literal["idle", "running", "paused", "closed"]


@frozen
class SessionInfo:
    """A session as it is listed; `taint` is what it has taken in, separated by commas, `parent`
    the session that it was forked from. `folder` is where it worked last, '' where no terminal or
    editor named one."""

    id: str
    name: str
    status: SessionState
    lane: str | None
    principal: str
    messages: int
    created_at: float
    last_active_at: float
    taint: str = ""
    parent: str | None = None
    folder: str = ""


@frozen
class TaskInfo:
    """Work beside a conversation: a command in the background, or a sub-agent.

    `id` is the number of a command, or `agent-` and that of a sub-agent, whose own session is
    `session`. `state` is in words. Times are Unix seconds; when a command ended is not known.
    `last_line` is the last that it has printed, or the last step of a sub-agent.
    """

    id: str
    kind: Literal["command", "agent"]
    title: str
    state: str
    is_running: bool
    began_at: float
    ended_at: float | None = None
    last_line: str = ""
    agent: str = ""
    session: str | None = None


@frozen
class SearchHit:
    """A message that holds what was searched for, or a session whose name does (role "name", n 0).

    `marks` are stretches of `snippet` that do.
    """

    session: str
    name: str
    principal: str
    n: int
    role: str
    at: float
    snippet: str
    marks: tuple[tuple[int, int], ...]


@frozen
class Excerpt:
    """What a person ("user") or the model ("assistant") said."""

    role: str
    text: str


@frozen
class SessionPreview:
    """A session without all of its messages: how it began and, behind that, where it stands."""

    info: SessionInfo
    beginning: tuple[Excerpt, ...] = ()
    end: tuple[Excerpt, ...] = ()


@frozen
class ConsoleLease:
    """A console's place: its chat id, and the session bound to it (None: the first message makes
    one). `unfinished`: an earlier answer is still under way there, because the process was killed
    or no screen watched. `language` is what the person at the console chose to be spoken to in.
    `delivered` is the number of the last delivery that is no news there.
    """

    chat_id: str
    session: str | None
    unfinished: bool
    language: str | None = None
    delivered: int = 0


@frozen
class NewJob:
    """A job as `kore cron add` orders it: a reminder, or a task for the agent (`is_task`).

    `key` makes a repeated order one job. `own` starts a new conversation each time.
    """

    key: str
    when: str
    text: str
    is_task: bool = False
    urgent: bool = False
    own: bool = False
    zone: str | None = None
    catch_up: Literal["skip", "once", "all"] = "once"


JobChange = Literal["remove", "pause", "resume", "run"]
PluginChange = Literal["enable", "disable", "pin", "unpin", "remove"]

# How much of what was done stands below an answer.
Trace = Literal["off", "summary", "full"]


MenuAudience = Literal["everyone", "private", "owner", "nobody"]


@frozen
class MenuCommand:
    """A command as menus show it: to everyone, in private chats, to the owner, or to nobody. The
    summary is English."""

    name: str
    summary: str
    audience: MenuAudience = "everyone"


@frozen
class TypedCommand:
    """A message read as a command. "" names an unknown word with a slash. An `at_once` command is
    answered while a turn runs; one that `has_buttons` may be given by a press."""

    name: str
    argument: str
    at_once: bool
    has_buttons: bool = False
