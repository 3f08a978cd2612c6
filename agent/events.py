"""What happens during a turn, as one tagged union that every screen watches.

Times are in seconds, sizes in bytes, counts start at 1. `codec.event_to_json` prints an event as
one line of `--output-format stream-json`; its `type` is the class's tag.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from agent.approvals import Answer, ApprovalRequest, QuestionView
from agent.records import frozen
from agent.types import Message, Result, ToolKind, Usage


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
    """A call starts. `label` says in English what it does; `{name}` in it stands for the argument
    of that name, `{tool}` for the tool. A `quiet` call is not announced while it runs."""

    type: ClassVar[str] = "tool_start"
    id: str
    name: str
    arguments: Mapping[str, Any]
    kind: ToolKind = "other"
    label: str = ""
    quiet: bool = False


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
    kind: ToolKind = "other"


@frozen
class ApprovalAsked:
    """An approval is waiting for an answer. `view` is how a person is shown the `request`.

    `number` is the approval's number for people. Without `expires_s` it waits until it is answered.
    `asker` is the person whose turn asks, unless that person is the one who is asked.
    """

    type: ClassVar[str] = "approval_asked"
    nonce: str
    request: ApprovalRequest
    number: int = 0
    expires_s: float | None = None
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
    answer: Answer
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
