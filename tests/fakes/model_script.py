"""Scripted replies of a fake model: content, wire format and stream faults.

Every class has a JSON form with the same names, so that another process can queue replies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

BreakKind = Literal["reset", "eof", "hang", "garbage", "error", "refuse"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` as text is sent unchanged, valid JSON or not.

    `extra` is the `extra_content` that Gemini attaches to a call.
    """

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """A break in a stream before event number `after` (0: right after the headers).

    reset: TCP reset. eof: a clean end without finish_reason and [DONE]. hang: silence until the
    client leaves. garbage: one line that is not JSON, then as usual. error: an error object in the
    stream, then the end. refuse: a reset before the headers.
    """

    kind: BreakKind
    after: int = 0


@dataclass(frozen=True, slots=True)
class Dialect:
    """Deviations of vendors from OpenAI's wire format; the default is OpenAI's own."""

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
    """A reply; `pieces` is the number of text deltas and of argument fragments per call.

    A `status` other than 200 returns `error` (OpenAI's error object) and `retry_after`, which is
    seconds or an HTTP date. `details` are OpenRouter's pieces of reasoning, one per chunk.
    `latency_s` passes before the first byte, `chunk_delay_s` between events. Before event number
    `waits_at` the reply waits for the server's `let_go`. `usage` replaces the computed usage,
    `dialect` the server's dialect.
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
    """Return an HTTP error in OpenAI's format."""
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
    """Read the JSON form. Raise TypeError for an unknown field."""
    fields = dict(data)
    fields["tool_calls"] = tuple(Call(**call) for call in fields.get("tool_calls", ()))
    if fields.get("breaks"):
        fields["breaks"] = Break(**fields["breaks"])
    if fields.get("dialect"):
        fields["dialect"] = Dialect(**fields["dialect"])
    return ReplyScript(**fields)


def reply_with_call(name: str, **arguments: Any) -> ReplyScript:
    """Return a reply that consists of one tool call."""
    return ReplyScript(tool_calls=(Call(name, arguments),))
