"""What a provider yields while its model speaks; `agent.events` offers it to everybody else."""

from typing import ClassVar, Literal

from agent.records import frozen
from agent.types import Message, Usage


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
    type: ClassVar[str] = "notice"
    level: Literal["info", "warning"]
    text: str


# The vendor's filter, or the model's own refusal, ended the reply.
FILTERED = "content_filter"


@frozen
class Reply:
    """The last thing a provider yields: the model's whole reply. Never shown to screens.

    `rank` tells which model has answered: 0 the one that was wanted, 1 its first fallback.
    """

    type: ClassVar[str] = "reply"
    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None
    rank: int = 0


ModelEvent = TextDelta | ThinkingDelta | ThinkingEnd | ToolCallDelta | Retry | Notice | Reply
