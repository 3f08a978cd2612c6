"""What happens during a turn, as one tagged union that every screen watches.

Times are in seconds, sizes in bytes, counts start at 1. `codec.event_to_json` prints an event as
one line of `--output-format stream-json`; its `type` is the class's tag.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from agent.types import Message, Result, Usage


@dataclass(frozen=True, slots=True)
class SessionStart:
    type: ClassVar[str] = "session_start"
    session_id: str
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class IterationStart:
    """A new model call begins; text that follows belongs to a new paragraph."""

    type: ClassVar[str] = "iteration_start"
    n: int
    max: int


@dataclass(frozen=True, slots=True)
class Steered:
    """A person spoke while the turn ran, and the next model call knows it."""

    type: ClassVar[str] = "steered"
    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    type: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    type: ClassVar[str] = "thinking_delta"
    text: str
    chars: int


@dataclass(frozen=True, slots=True)
class ThinkingEnd:
    type: ClassVar[str] = "thinking_end"
    thinking: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    type: ClassVar[str] = "tool_call_delta"
    id: str
    name: str
    partial_json: str


@dataclass(frozen=True, slots=True)
class ToolStart:
    type: ClassVar[str] = "tool_start"
    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    type: ClassVar[str] = "tool_output"
    id: str
    text: str
    stream: Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class ToolResulted:
    """`content` is what a person is shown; `diff` is set when a file was changed."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str
    content: str
    is_error: bool
    elapsed_s: float
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """`number` tells it apart, `folder` is where a command would run, `sends` what would leave."""

    type: ClassVar[str] = "approval_asked"
    nonce: str
    tool: str
    arguments: Mapping[str, Any]
    reason: str
    diff: str | None
    expires_s: float
    number: int = 0
    folder: str | None = None
    sends: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    type: ClassVar[str] = "approval_answered"
    nonce: str
    by: str
    answer: Literal["once", "session", "always", "deny"]


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of one model stream, not of the task."""

    type: ClassVar[str] = "stream_end"
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class State:
    type: ClassVar[str] = "state"
    state: Literal["planning", "executing", "observing", "reflecting", "done"]


@dataclass(frozen=True, slots=True)
class Compacted:
    """Older messages left the window: `dropped` of them, `kept` remain. `summarised` of them are
    told in a summary; with neither, old results of tools were shortened."""

    type: ClassVar[str] = "compacted"
    estimated_tokens_before: int
    after: int
    kept: int
    dropped: int
    summarised: int = 0


@dataclass(frozen=True, slots=True)
class Evicted:
    """So many files that somebody pointed at were not shown to the model."""

    type: ClassVar[str] = "evicted"
    files: int
    reason: str


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What the turn has come to by now, and its session where somebody keeps count.

    A cost is None when nobody knows what one of the calls cost.
    """

    type: ClassVar[str] = "usage"
    usage: Usage
    cost_usd: float | None = None
    session_usage: Usage | None = None
    session_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class FileChanged:
    type: ClassVar[str] = "file_changed"
    path: str
    by: Literal["user", "agent", "tool"]


@dataclass(frozen=True, slots=True)
class Signalled:
    type: ClassVar[str] = "signal"
    signal: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Notice:
    type: ClassVar[str] = "notice"
    level: Literal["info", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class Error:
    type: ClassVar[str] = "error"
    code: str
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class Done:
    type: ClassVar[str] = "done"
    result: Result


@dataclass(frozen=True, slots=True)
class FromAgent:
    """An event of a sub-agent's turn, as `codec.event_to_json` writes it; `number` is its errand.

    Its words are not among them: they come with the result.
    """

    type: ClassVar[str] = "from_agent"
    agent: str
    number: str
    title: str
    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """The last thing a provider yields: the model's whole reply. Never shown to screens.

    `rank` tells which model has answered: 0 the one that was wanted, 1 its first fallback.
    """

    type: ClassVar[str] = "reply"
    message: Message
    usage: Usage | None
    finish_reason: str | None
    rank: int = 0


ModelEvent = TextDelta | ThinkingDelta | ThinkingEnd | ToolCallDelta | Retry | Notice | Reply

Event = (
    SessionStart
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
    | Signalled
    | Notice
    | Error
    | Done
    | FromAgent
)
