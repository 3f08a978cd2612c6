"""What happens during a turn, as one tagged union that every screen watches.

Times are in seconds, sizes in bytes, counts start at 1. `codec.event_to_json` prints an event as
one line of `--output-format stream-json`; its `type` is the class's tag.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from agent.records import frozen
from agent.types import Message, Result, Usage


@frozen
class TextDelta:
    type: ClassVar[str] = "text_delta"
    text: str


@frozen
class ThinkingDelta:
    type: ClassVar[str] = "thinking_delta"
    text: str
    chars: int


@frozen
class ThinkingEnd:
    type: ClassVar[str] = "thinking_end"
    thinking: str


@frozen
class ToolCallDelta:
    type: ClassVar[str] = "tool_call_delta"
    id: str
    name: str
    partial_json: str


@frozen
class Retry:
    """The last model stream failed; what it had said since `iteration_start` is void.

    `rank` tells which model is asked next: 0 the one that was wanted, 1 its first fallback.
    """

    type: ClassVar[str] = "retry"
    reason: str
    attempt: int
    max_attempts: int
    wait_s: float
    rank: int = 0


@frozen
class Notice:
    """`below` is what chats, which show no notices, say below the answer; '' for nothing."""

    type: ClassVar[str] = "notice"
    level: Literal["info", "warning"]
    text: str
    below: str = ""


# The vendor's filter, or the model's own refusal, ended the reply.
FILTERED = "content_filter"


@frozen
class Reply:
    """The last thing a provider yields: the model's whole reply. Never shown to screens.

    `rank` tells which model has answered: 0 the one that was wanted, 1 its first fallback.
    `voids_text`: the text that was streamed had thoughts in it; only the message's text counts.
    """

    type: ClassVar[str] = "reply"
    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None
    rank: int = 0
    voids_text: bool = False


ModelEvent = TextDelta | ThinkingDelta | ThinkingEnd | ToolCallDelta | Retry | Notice | Reply


@frozen
class SessionCreated:
    """A conversation has begun; `name` is empty as long as it has none of its own."""

    type: ClassVar[str] = "session_created"
    session_id: str
    name: str = ""


@frozen
class SessionClosed:
    """This conversation has ended: the next message begins another one."""

    type: ClassVar[str] = "session_closed"
    session_id: str
    name: str = ""


@frozen
class SessionStart:
    """A turn begins in this session."""

    type: ClassVar[str] = "session_start"
    session_id: str
    provider: str
    model: str


@frozen
class AgentChanged:
    """One agent has handed the conversation over to another, which answers from here on."""

    type: ClassVar[str] = "agent_changed"
    before: str
    agent: str


@frozen
class IterationStart:
    """A new model call begins; text that follows belongs to a new paragraph."""

    type: ClassVar[str] = "iteration_start"
    n: int
    max: int


@frozen
class Steered:
    """A person spoke while the turn ran, and the next model call knows it."""

    type: ClassVar[str] = "steered"
    text: str


@frozen
class ToolStart:
    type: ClassVar[str] = "tool_start"
    id: str
    name: str
    arguments: Mapping[str, Any]


@frozen
class ToolOutput:
    """What a tool prints meanwhile. `skipped_bytes` in front of it were left out, because the
    reader is behind; the result has it all."""

    type: ClassVar[str] = "tool_output"
    id: str
    text: str
    stream: Literal["stdout", "stderr"]
    skipped_bytes: int = 0


@frozen
class ToolResulted:
    """`content` is what a person is shown; `diff` is set when a file was changed. Of what the model
    reads `cut_bytes` were left out, and `file` holds the whole."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str
    content: str
    is_error: bool
    elapsed_s: float
    diff: str | None = None
    cut_bytes: int = 0
    file: str | None = None


@frozen
class ServerQuestion:
    """What the MCP server `server` asks a person in the middle of a call. `choices` are what may be
    answered, unless words of one's own are to be written (`takes_text`). `otherwise` says what an
    empty answer stands for, without which there is none. `is_secret`: it asks for what looks like a
    password. `url` is the page that a person is to open, if it is that."""

    server: str
    text: str
    choices: tuple[str, ...] = ()
    takes_text: bool = False
    otherwise: str = ""
    is_secret: bool = False
    url: str = ""


@frozen
class QuestionLine:
    """A line of a question, without any character that a screen would not show.

    `kind` says what it is: code that would run or text that would leave, a detail of the call, a
    line of a diff, the reason to ask, a note of Kore's own, or words of an MCP server.
    """

    kind: Literal["code", "detail", "diff", "reason", "note", "quote"]
    text: str


@frozen
class QuestionOption:
    """An answer that a question takes: its `label` says what it grants, `key` is a letter for it.

    `words` are what an MCP server is answered with it.
    """

    key: str
    label: str
    answer: Literal["once", "session", "always", "deny"]
    scope: Literal["call", "prefix", "network"] = "call"
    words: str = ""


@frozen
class QuestionView:
    """A question as every screen shows it, whole: the title, each of the lines, the answers."""

    title: str = ""
    lines: tuple[QuestionLine, ...] = ()
    options: tuple[QuestionOption, ...] = ()


@frozen
class ApprovalAsked:
    """`view` is what a person is shown, all other fields are the facts behind it.

    `number` tells it apart, `command` is the shell line and `folder` where it would run, `sends`
    what would leave. Without `expires_s` it waits until it is answered. `answers` are those that it
    takes; `prefix` is what may be allowed of the command with any arguments; a lasting answer about
    a `network` is about these hosts. `unbound` names a program for whose sake no answer about
    exactly this command lasts, `confinement` what confines it, `home_settings` files of earlier
    commands that may steer it. `asker` is whose turn it is, unless it is that of the person who
    is asked. With `server_question` nothing is to be allowed: a server wants to know something, and
    the words of the answer are for it.
    """

    type: ClassVar[str] = "approval_asked"
    nonce: str
    tool: str
    arguments: Mapping[str, Any]
    reason: str
    diff: str | None
    expires_s: float | None
    number: int = 0
    folder: str | None = None
    sends: str | None = None
    answers: tuple[Literal["once", "session", "always", "deny"], ...] = (
        "once",
        "session",
        "always",
        "deny",
    )
    prefix: str | None = None
    network: tuple[str, ...] = ()
    server_question: ServerQuestion | None = None
    command: str | None = None
    unbound: str | None = None
    confinement: str | None = None
    home_settings: tuple[str, ...] = ()
    asker: str | None = None
    view: QuestionView = QuestionView()


@frozen
class ApprovalAnswered:
    """`words` is what the person who denied it wrote to the model; `prefix` what they allowed of
    the command with any arguments, or `network` the hosts that commands may reach from now on, if
    it is that. `server` is the MCP server whose question it was."""

    type: ClassVar[str] = "approval_answered"
    nonce: str
    by: str
    answer: Literal["once", "session", "always", "deny"]
    words: str = ""
    prefix: str | None = None
    network: tuple[str, ...] = ()
    server: str = ""


@frozen
class StreamEnd:
    """The end of one model stream, not of the task."""

    type: ClassVar[str] = "stream_end"
    finish_reason: str | None


@frozen
class State:
    type: ClassVar[str] = "state"
    state: Literal["planning", "executing", "observing", "reflecting", "done"]


@frozen
class Compacted:
    """Older messages left the window: `dropped` of them, `kept` remain. `summarised` of them are
    told in a summary; with neither, old results of tools were shortened."""

    type: ClassVar[str] = "compacted"
    estimated_tokens_before: int
    after: int
    kept: int
    dropped: int
    summarised: int = 0


@frozen
class Evicted:
    """So many files are not before the model: they did not fit, or were used longest ago."""

    type: ClassVar[str] = "evicted"
    files: int
    reason: str


@frozen
class UsageReport:
    """What the turn has come to by now, and its session where it is counted.

    A cost is None when the cost of one of the calls is unknown.
    """

    type: ClassVar[str] = "usage"
    usage: Usage
    cost_usd: float | None = None
    session_usage: Usage | None = None
    session_cost_usd: float | None = None


@frozen
class FileChanged:
    """By a person or a program outside (`user`), by another agent, or by a tool of this turn.
    Several `files` that changed together are one event, whose path is the folder they are in."""

    type: ClassVar[str] = "file_changed"
    path: str
    by: Literal["user", "agent", "tool"]
    files: int = 1


@frozen
class ContextInvalidated:
    """What these agents have seen of a file is no longer what it holds."""

    type: ClassVar[str] = "context_invalidated"
    path: str
    agents: tuple[str, ...]


@frozen
class Signalled:
    type: ClassVar[str] = "signal"
    signal: str
    reason: str | None


@frozen
class Error:
    type: ClassVar[str] = "error"
    code: str
    message: str
    hint: str | None


@frozen
class Done:
    type: ClassVar[str] = "done"
    result: Result


@frozen
class FromAgent:
    """An event of a sub-agent's turn, as `codec.event_to_json` writes it; `number` is its errand.

    Its words are not among them: they come with the result.
    """

    type: ClassVar[str] = "from_agent"
    agent: str
    number: str
    title: str
    event: Mapping[str, Any]


# What is passed on of a sub-agent's turn: its words come with its result.
SubagentStep = (
    SessionStart
    | ToolStart
    | ToolResulted
    | FileChanged
    | ContextInvalidated
    | Retry
    | Notice
    | Error
    | Done
)

Event = (
    SessionCreated
    | SessionClosed
    | SessionStart
    | AgentChanged
    | IterationStart
    | Steered
    | TextDelta
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallDelta
    | ToolStart
    | ToolOutput
    | ToolResulted
    | ApprovalAsked
    | ApprovalAnswered
    | StreamEnd
    | State
    | Compacted
    | Evicted
    | Retry
    | UsageReport
    | FileChanged
    | ContextInvalidated
    | Signalled
    | Notice
    | Error
    | Done
    | FromAgent
)
