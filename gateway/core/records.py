"""Records about conversations that packages of the gateway exchange."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal

from agent.events import Event
from agent.records import frozen
from agent.types import Message, Usage
from gateway.core.messages import OutboundKind
from gateway.core.session_folder import SessionFolder


@frozen
class Delivered:
    """A part of an answer, or a notice, was delivered to this lane; `text` is markdown.

    `event_id` is the inbound message that it answers (the newest, if several were joined); `last`
    marks the last part of the answer. It follows the turn's `Done`, once everything is stored.
    `seq` is its number; a disconnected watcher continues after the number of its last delivery.

    `outcome`: "refused" if the command was refused, or the new state of the goal that this lane
    works for: "active", "met", "removed", or the reason why it is paused. With "active", more
    answers follow, up to one with another state.
    """

    type: ClassVar[str] = "delivered"
    text: str
    kind: OutboundKind
    event_id: str | None
    last: bool
    maybe_duplicate: bool = False
    seq: int = 0
    outcome: str | None = None

    @property
    def ends_goal(self) -> bool:
        """True if work on the goal of the lane has ended."""
        return self.outcome not in (None, "refused", "active")

    def is_repeat(self, last_seq: int) -> bool:
        """Return whether a watcher whose last delivery has this number already received this one.

        Events written to a broken connection are sent again.
        """
        return self.maybe_duplicate and 0 < self.seq <= last_seq


@frozen
class TurnStored:
    """A turn has ended, and all its messages are stored."""

    type: ClassVar[str] = "turn_end"


WatchEvent = Event | Delivered


@frozen
class WorkerInfo:
    """A process that runs turns for the owner of the data, counted until it `is_ended`.

    `seen_s` is the number of seconds since its last heartbeat, `began_at` Unix time, `state` its
    own status, `schema` the newest migration that its program knows.
    """

    number: int
    name: str
    began_at: float
    seen_s: float
    state: Mapping[str, Any]
    schema: int = 0
    is_ended: bool = False


@frozen
class MessageStored:
    """A message was stored, as number `seq` of its session, counted from 1.

    It replaces its streamed deltas. `at` is the time in Unix seconds.
    """

    type: ClassVar[str] = "message"
    seq: int
    at: float
    message: Message


@frozen
class SessionIdle:
    """No turn is running or waiting in the session that a watcher has begun to follow."""

    type: ClassVar[str] = "idle"


@frozen
class HistoryReset:
    """Messages were removed; the conversation follows from its beginning."""

    type: ClassVar[str] = "reset"


@frozen
class SessionChanged:
    """A session is new, or its name or its status has changed."""

    type: ClassVar[str] = "session_changed"


OutcomeState = Literal["unknown", "waiting", "running", "done", "dropped"]


@frozen
class MessageOutcome:
    """State of a message: unknown, waiting, running, done, or never answered (`reason`).

    `text` and `usage` belong to a completed turn; a chat command has no text.
    """

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
    """One call of a model by its name or a profile's, without Kore's agent.

    `options` are those in `agent.providers.model_settings.ModelSettings`.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ModelTool, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@frozen
class ApiRequest:
    """A request with an `Idempotency-Key` over the OpenAI-compatible API.

    `token` names its owner, `key` and `digest` are digests of the header and of the request. `id`
    is the id of its answer if it is new. `principal` is the person of the token; '' for the owner.
    """

    token: str
    key: str
    digest: str
    id: str
    principal: str = ""


@frozen
class ApiAnswer:
    """Present or future answer to a request of a program.

    `made_at` is the time of the request, in Unix seconds. If `answer` is None and `is_complete` is
    true, the answer must not be stored. A later request can continue `conversation`.
    """

    token: str
    id: str
    made_at: float
    key: str = ""
    is_complete: bool = False
    answer: Mapping[str, Any] | None = None
    conversation: tuple[Message, ...] | None = None


@frozen
class EditorRequest:
    """A request of a turn to the person's editor.

    The editor returns the text of the file at `path`, or shows `text` there and saves it. Answered
    by `answer_editor` with its `id`.
    """

    id: str
    action: Literal["read", "write"]
    path: str
    text: str = ""


@frozen
class SessionServer:
    """An MCP server that an editor names for one session.

    Either a `command` to start, or a `url` to reach, by the old transport if `is_sse`.
    """

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
    """An event of one session, for watchers of several."""

    session: str
    event: SessionEvent


SessionState = Literal["idle", "running", "paused", "closed"]


@frozen
class SessionInfo:
    """A session in a list.

    `taint` contains its taints, separated by commas; `parent` is the session that it was forked
    from. `folder` is None unless a terminal, an editor or the web page has chosen one.
    """

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
    folder: SessionFolder | None = None


@frozen
class TaskInfo:
    """Background work of a conversation: a command or a sub-agent.

    `id` is the number of a command, or `agent-` and the number of a sub-agent, whose own session is
    `session`. `state` is a text for people. Times are Unix seconds; the end time of a command is
    unknown. `last_line` is the last printed line, or the last step of a sub-agent.
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
    """A search hit: a message, or a session by its name (role "name", n 0).

    `marks` are the matching parts of `snippet`.
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
    """A text of a person ("user") or the model ("assistant")."""

    role: str
    text: str


@frozen
class SessionPreview:
    """A session without all of its messages: its beginning, then its current end."""

    info: SessionInfo
    beginning: tuple[Excerpt, ...] = ()
    end: tuple[Excerpt, ...] = ()


@frozen
class ConsoleLease:
    """Place of a console: its chat id and its session (None: the first message creates one).

    `unfinished`: an earlier answer is still in progress there, because the process was killed or no
    screen watched. `language` is the language chosen by the person at the console. `delivered` is
    the number of the last delivery that was already shown there. `passed_over` is a session with
    unfinished work that a new console does not take over.
    """

    chat_id: str
    session: str | None
    unfinished: bool
    language: str | None = None
    delivered: int = 0
    passed_over: str | None = None


@frozen
class NewJob:
    """A job to create, as by `kore cron add`: a reminder, or a task for the agent (`is_task`).

    `key` identifies repetitions of the same request, which create one job. `own` starts a new
    conversation each time.
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

# Level of detail of the tool trace below an answer.
Trace = Literal["off", "summary", "full"]


MenuAudience = Literal["everyone", "private", "owner", "nobody"]


@frozen
class MenuCommand:
    """A command in menus: for everyone, private chats, the owner, or hidden.

    The summary is English.
    """

    name: str
    summary: str
    audience: MenuAudience = "everyone"


@frozen
class CommandAnswer:
    """The answer to a command, as markdown; `outcome` is as in `Delivered`."""

    text: str
    outcome: str | None = None


@frozen
class TypedCommand:
    """A message parsed as a command.

    "" names an unknown word with a slash. An `at_once` command is answered while a turn runs; a
    command that `has_buttons` may be given by a press.
    """

    name: str
    argument: str
    at_once: bool
    has_buttons: bool = False
