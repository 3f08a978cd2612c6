"""Events of a turn, as one tagged union for all screens.

Times are in seconds, sizes in bytes, counts start at 1. `codec.event_to_json` prints an event as
one line of `--output-format stream-json`; its `type` is the class's tag.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from agent.approvals import Answer, ApprovalRequest, QuestionView, Recipient
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
    """A model call failed and is repeated; discard its output since `iteration_start`.

    `rank` is the rank of the next model: 0 for the requested model, 1 for its first fallback.
    """

    type: ClassVar[str] = "retry"
    reason: str
    attempt: int
    max_attempts: int
    wait_s: float
    rank: int = 0


@frozen
class Notice:
    """A notice for screens. Chats show `below` under the answer instead, unless it is empty."""

    type: ClassVar[str] = "notice"
    level: Literal["info", "warning"]
    text: str
    below: str = ""


# The vendor's filter, or the model's own refusal, ended the reply.
FILTERED = "content_filter"
# Kore ended the reply, because the model repeated itself.
REPEATING = "repetition"
# Reasons of replies that are incomplete because of their length.
CUT = frozenset({"length", REPEATING})


@frozen
class Reply:
    """Last item of a provider's stream: the complete reply of the model. Screens do not get it.

    `rank` is the rank of the model: 0 for the requested model, 1 for its first fallback. With
    `voids_text`, the streamed text contained thoughts, and only the text of the message is valid.
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
    """A conversation has begun; `name` is empty until it gets a name."""

    type: ClassVar[str] = "session_created"
    session_id: str
    name: str = ""


@frozen
class SessionClosed:
    """A conversation has ended; the next message begins a new one."""

    type: ClassVar[str] = "session_closed"
    session_id: str
    name: str = ""


@frozen
class SessionStart:
    """A turn begins in this session, with this model."""

    type: ClassVar[str] = "session_start"
    session_id: str
    provider: str
    model: str


@frozen
class AgentChanged:
    """The agent `before` has handed the conversation over to `agent`, which answers from now on."""

    type: ClassVar[str] = "agent_changed"
    before: str
    agent: str


@frozen
class IterationStart:
    """Model call number `n` of at most `max` begins; its text starts a new paragraph."""

    type: ClassVar[str] = "iteration_start"
    n: int
    max: int


@frozen
class Steered:
    """A message that arrived during the turn was added to the next model call."""

    type: ClassVar[str] = "steered"
    text: str


@frozen
class ToolStart:
    """A tool call starts.

    `label` describes the call in English; `{name}` is a placeholder for the argument of this name,
    `{tool}` for the tool. A `quiet` call is not shown while it runs.
    """

    type: ClassVar[str] = "tool_start"
    id: str
    name: str
    arguments: Mapping[str, Any]
    kind: ToolKind = "other"
    label: str = ""
    quiet: bool = False


@frozen
class ToolOutput:
    """Output of a running tool.

    `skipped_bytes` of output before `text` were dropped for a slow reader, but not in the result.
    """

    type: ClassVar[str] = "tool_output"
    id: str
    text: str
    stream: Literal["stdout", "stderr"]
    skipped_bytes: int = 0


@frozen
class ToolResulted:
    """A tool call has ended.

    `content` is the text for people; `diff` is set if a file was changed. `cut_bytes` were left out
    of the model's text; `file` contains the complete text. With `is_denied`, the call was not
    allowed, and `content` is the reason.
    """

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
    is_denied: bool = False


@frozen
class ApprovalAsked:
    """An approval is waiting for an answer. `view` is the presentation of the `request`.

    `number` is the approval's number for people. Without `expires_s` it does not expire. `asker` is
    the person whose turn needs it, if a different person is asked.
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
    """An approval was answered.

    `words` is the message of a denying person to the model; `prefix` the allowed beginning of the
    command, with any arguments; `network` the hosts that commands may reach from now on;
    `recipient` the MCP server that may get private data; and `folder` the folder that calls may use
    from now on. `server` is the MCP server that asked.
    """

    type: ClassVar[str] = "approval_answered"
    nonce: str
    by: str
    answer: Answer
    words: str = ""
    prefix: str | None = None
    network: tuple[str, ...] = ()
    server: str = ""
    recipient: Recipient | None = None
    folder: str = ""


@frozen
class StreamEnd:
    """End of one model call, not of the turn."""

    type: ClassVar[str] = "stream_end"
    finish_reason: str | None


@frozen
class State:
    type: ClassVar[str] = "state"
    state: Literal["planning", "executing", "observing", "reflecting", "done"]


@frozen
class Compacted:
    """Older messages were removed from the context window: `dropped` messages; `kept` remain.

    The summary covers `summarised` of the dropped messages. If both numbers are 0, old tool results
    were shortened instead.
    """

    type: ClassVar[str] = "compacted"
    estimated_tokens_before: int
    after: int
    kept: int
    dropped: int
    summarised: int = 0


@frozen
class Evicted:
    """Files were removed from the model's context, because they did not fit or were used least."""

    type: ClassVar[str] = "evicted"
    files: int
    reason: str


@frozen
class UsageReport:
    """Usage of the turn so far, and of its session if that is counted.

    A cost is None if the cost of any call is unknown.
    """

    type: ClassVar[str] = "usage"
    usage: Usage
    cost_usd: float | None = None
    session_usage: Usage | None = None
    session_cost_usd: float | None = None


@frozen
class FileChanged:
    """A file was changed by a person or another program (`user`), by another agent, or by a tool.

    Several `files` that changed together are one event, whose path is their common folder.
    """

    type: ClassVar[str] = "file_changed"
    path: str
    by: Literal["user", "agent", "tool"]
    files: int = 1


@frozen
class ContextInvalidated:
    """A file's content has changed since these agents saw it."""

    type: ClassVar[str] = "context_invalidated"
    path: str
    agents: tuple[str, ...]


@frozen
class GoalChanged:
    """The goal of the conversation was set, worked on, paused, met or removed ("none").

    `turns` is the number of turns spent on it, of at most `max_turns`. `reason` is the reason for a
    pause; `remark` is what is missing, the evidence that it is met, or the error that paused it.
    """

    type: ClassVar[str] = "goal"
    state: Literal["active", "paused", "met", "none"]
    goal: str
    turns: int
    max_turns: int
    reason: str = ""
    remark: str = ""


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
class AttentionNeeded:
    """Something is worth a notification of a person who looks elsewhere.

    It is a question, or the end of a turn that has worked for a long time.
    """

    type: ClassVar[str] = "attention"
    reason: Literal["question", "ended"]


@frozen
class FromAgent:
    """An event of a sub-agent's turn, as `codec.event_to_json` writes it.

    `number` is the number of the sub-agent's task. The sub-agent's text is not among the events; it
    is in the result.
    """

    type: ClassVar[str] = "from_agent"
    agent: str
    number: str
    title: str
    event: Mapping[str, Any]


# Forwarded events of a sub-agent's turn, without its text, which is in the result.
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
    | AttentionNeeded
    | StreamEnd
    | State
    | Compacted
    | Evicted
    | Retry
    | UsageReport
    | FileChanged
    | ContextInvalidated
    | GoalChanged
    | Signalled
    | Notice
    | Error
    | Done
    | FromAgent
)
