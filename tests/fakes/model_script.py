"""What a stand-in model answers, how it words it, and where it breaks.

Every class has a JSON form with the same names, so that another process can queue replies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

BreakKind = Literal["reset", "eof", "hang", "garbage", "error", "refuse"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` as text goes out as it is, valid JSON or not.

    `extra` is what Gemini attaches to a call as `extra_content`.
    """

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """Where a stream breaks: before its event number `after` (0: right after the headers).

    reset: TCP reset. eof: a clean end without finish_reason and [DONE]. hang: silence until the
    client leaves. garbage: one line that is not JSON, then on as usual. error: an error object in
    the stream, then the end. refuse: a reset before the headers.
    """

    kind: BreakKind
    after: int = 0


@dataclass(frozen=True, slots=True)
class Dialect:
    """How vendors deviate from OpenAI's wire format; the default is OpenAI's own."""

    done: bool = True
    usage: Literal["own_chunk", "last_chunk", "none"] = "own_chunk"
    repeat_call_head: bool = False
    no_call_index: bool = False
    empty_call_id: bool = False
    arguments_as_object: bool = False
    crlf: bool = False
    comments: bool = False
    tight_data: bool = False
    split_characters: bool = False
    plain_json: bool = False


@dataclass(frozen=True, slots=True)
class ReplyScript:
    """One reply. `pieces` is the number of text deltas and of fragments of each call's arguments.

    `status` other than 200 answers with `error` (OpenAI's error object) and `retry_after`, which
    is seconds or an HTTP date. `details` are OpenRouter's pieces of reasoning, one a chunk.
    `latency_s` passes before the first byte, `chunk_delay_s` between events. Before its event
    number `waits_at` the reply waits until the server is told to `let_go`. `usage` replaces the
    counted one, `dialect` the server's.
    """

    text: str = ""
    reasoning: str = ""
    details: tuple[Mapping[str, Any], ...] = ()
    tool_calls: tuple[Call, ...] = ()
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    pieces: int = 3
    latency_s: float = 0.0
    chunk_delay_s: float = 0.0
    waits_at: int | None = None
    status: int = 200
    error: Mapping[str, Any] | None = None
    retry_after: str | None = None
    breaks: Break | None = None
    dialect: Dialect | None = None


def refusal(
    status: int, message: str, *, code: str | None = None, retry_after: str | None = None
) -> ReplyScript:
    """An HTTP error in OpenAI's words."""
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    error = {"message": message, "type": kind, "param": None, "code": code}
    return ReplyScript(status=status, error=error, retry_after=retry_after)


def rate_limited(retry_after: str | None = None) -> ReplyScript:
    return refusal(
        429, "Rate limit reached for requests", code="rate_limit_exceeded", retry_after=retry_after
    )


def context_too_long(limit_tokens: int = 8192, found_tokens: int = 9000) -> ReplyScript:
    return refusal(
        400,
        f"This model's maximum context length is {limit_tokens} tokens. However, your messages "
        f"resulted in {found_tokens} tokens. Please reduce the length of the messages.",
        code="context_length_exceeded",
    )


def script_from_json(data: Mapping[str, Any]) -> ReplyScript:
    """Read the JSON form; a field that does not exist is a TypeError."""
    fields = dict(data)
    fields["tool_calls"] = tuple(Call(**call) for call in fields.get("tool_calls", ()))
    if fields.get("breaks"):
        fields["breaks"] = Break(**fields["breaks"])
    if fields.get("dialect"):
        fields["dialect"] = Dialect(**fields["dialect"])
    return ReplyScript(**fields)


def reply_with_call(name: str, **arguments: Any) -> ReplyScript:
    """A reply that is one call of a tool."""
    return ReplyScript(tool_calls=(Call(name, arguments),))
