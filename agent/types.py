"""Common types: messages, tool calls, results, usage.

All of these are immutable values. JSON forms live in `codec.py`.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, Literal

from agent.records import frozen

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=Any, covariant=True)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT", covariant=True)

MessageRole = Literal["system", "user", "assistant", "tool"]
# How hard a model thinks before it answers.
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Effect = Literal["read", "idempotent", "unsafe"]
# "plan" maintains the task list, "ask" asks the person, "other" is unknown.
ToolKind = Literal[
    "read",
    "search",
    "edit",
    "delete",
    "move",
    "execute",
    "fetch",
    "delegate",
    "plan",
    "ask",
    "think",
    "other",
]
# Purposes that other parts of Kore depend on: reading skills, storing memories, scheduling jobs and
# sending files to the person.
ToolPurpose = Literal["skills", "memory", "timetable", "delivery"]
# Limits of a policy rule that can apply to a tool.
PolicyScope = Literal["paths", "commands", "hosts"]
Signal = Literal["COMPLETE", "BLOCKED", "DECIDE"]
Stopping = Literal["max_iterations", "loop", "limit", "filtered", "cancelled", "error", "hook"]
JsonSchema = Mapping[str, Any]
# Source of a result's content: strangers (web, mail, downloaded files), or private data (workspace,
# memory). See docs/security.md.
Taint = Literal["untrusted", "private"]


@frozen
class Text:
    """Text of a message."""

    text: str


@frozen
class Context:
    """Variable context (time, sender, channel) for the model but not for people.

    It is stored with its user message, so that a conversation only ever grows at its end and the
    vendor's prompt cache keeps hitting.
    """

    text: str


@frozen
class Thinking:
    """Reasoning block; some vendors require `signature` back unchanged."""

    text: str
    signature: str | None = None


@frozen
class RedactedThinking:
    """Hidden reasoning block of the vendor; `data` is sent back unchanged."""

    data: str


@frozen
class Image:
    """Picture for the model; `media_type` is a type such as image/png."""

    media_type: str
    data: bytes = field(repr=False)


@frozen
class ImageFile:
    """Picture in a file, which is loaded for each request that has room for it.

    `path` is relative to the workspace, unless it is absolute. `digest` (SHA-256, hex) binds the
    content of the file; other content is not shown.
    """

    path: str
    media_type: str
    digest: str


@frozen
class ToolCallMarker:
    """Position of the call with this `id` among a reply's thoughts.

    It exists only if thoughts follow the call, because their vendor requires the original order.
    """

    id: str


Part = Text | Context | Thinking | RedactedThinking | Image | ImageFile | ToolCallMarker


@frozen
class ToolCall:
    """Call that the model requests.

    `raw` is the argument text as received or repaired; `arguments` is None if `raw` is not a JSON
    object, so that the model receives an error instead of a guess.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    raw: str


@frozen
class Message:
    """Entry of a conversation.

    `tool_call_id` and `is_error` are for the role `tool`; `taint` is for that role and for messages
    from an imported file.
    """

    role: MessageRole
    content: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    taint: frozenset[Taint] = frozenset()
    # A provider's encodings of this message, by dialect. A long history is thus encoded once, not
    # for every request.
    wire: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False, init=False)
    # Estimate of its size, once counted (see `providers/token_estimate.py`).
    tokens: int | None = field(default=None, compare=False, repr=False, init=False)

    @property
    def text(self) -> str:
        """Text for people: the text parts, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


def user(text: str, context: str | None = None) -> Message:
    """Return a user message, with its changing context if there is any."""
    parts: tuple[Part, ...] = (Text(text),)
    return Message("user", (*parts, Context(context)) if context else parts)


def assistant(text: str, tool_calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message("assistant", (Text(text),) if text else (), tool_calls)


@frozen
class Artifact:
    """Output of a tool besides text.

    For a changed file, it contains a diff to show; a `file` for the person has a caption as its
    content.
    """

    kind: Literal["diff", "file"]
    content: str
    path: str


@frozen
class ToolResult:
    """Result of a tool call; a failure is a value, never an exception.

    `ends_with` ends the turn once its results are stored: the person receives this text, and their
    next message is the answer. `cut_bytes` were left out of `for_model`; `file` contains the
    complete text. `images` are shown after the text to models with vision. `handoff` names the
    agent that answers from now on. `is_denied`: the call was not allowed.
    """

    for_model: str
    is_error: bool = False
    for_user: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    taint: frozenset[Taint] = frozenset()
    ends_with: str | None = None
    cut_bytes: int = 0
    file: str | None = None
    images: tuple[Image | ImageFile, ...] = ()
    handoff: str | None = None
    is_denied: bool = False


@frozen
class Usage:
    """Tokens as counted by the vendor; `cached` is the part of `input` read from its cache."""

    input: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input, self.output + other.output, self.cached + other.cached
        )


@frozen
class Result(Generic[OutputT]):
    """Result of a turn.

    `output` is the answer as `output_type`, if a program requested it; no event contains it. `text`
    is the model's whole text for the person in this turn. `stopped` names the reason if the model
    did not end the turn: a limit, a loop, an interruption or an error. `cost_usd` is None if the
    cost of any call of this turn is unknown.
    """

    success: bool
    text: str
    session_id: str
    messages: tuple[Message, ...]
    usage: Usage = Usage()
    signal: Signal | None = None
    signal_reason: str | None = None
    stopped: Stopping | None = None
    error_code: str | None = None
    cost_usd: float | None = None
    output: OutputT = field(default=None, metadata={"in_events": False})  # type: ignore[assignment]
    # Answering agent; after handoffs, the last one.
    agent: str = "main"

    @property
    def images(self) -> "tuple[Image | ImageFile, ...]":
        """Pictures that tools and the model returned in this turn, in order."""
        return tuple(
            part
            for message in self.messages
            if message.role != "user"
            for part in message.content
            if isinstance(part, Image | ImageFile)
        )
