"""Readers for the chunks of a stream, in the spelling of any vendor.

Observed variants: `reasoning_content` or `reasoning`, content as a list of parts, usage on the
choice or under `x_groq`, the older `function_call`, a whole `message` in place of a `delta`.
"""

from collections.abc import Mapping
from typing import Any

from agent.providers.wire_text import count_of, text_of
from agent.types import Usage


def first_choice(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the only requested choice; None in chunks with usage alone."""
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else None


def delta_of(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the delta of the chunk, or the whole message of a reply that is not streamed."""
    delta = choice.get("delta") or choice.get("message")
    return delta if isinstance(delta, dict) else {}


def text_of_delta(delta: Mapping[str, Any]) -> str:
    """Return the text for a person."""
    content = delta.get("content") or delta.get("refusal")
    return _join_parts(content, "text") if isinstance(content, list) else text_of(content)


def thinking_of_delta(delta: Mapping[str, Any]) -> str:
    """Return the reasoning."""
    content = delta.get("content")
    inside = _join_parts(content, "thinking") if isinstance(content, list) else ""
    return text_of(delta.get("reasoning_content")) or text_of(delta.get("reasoning")) or inside


def usage_of(payload: Mapping[str, Any]) -> Usage | None:
    """Return the tokens counted so far, if the chunk contains them."""
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        for place in (first_choice(payload), payload.get("x_groq")):
            if place and isinstance(usage := place.get("usage"), dict):
                break
    return _tokens(usage) if isinstance(usage, dict) else None


def _join_parts(parts: list[Any], kind: str) -> str:
    """Join the parts of one kind; a thinking part may itself be a list of text parts."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, dict) and part.get("type", "text") == kind:
            value = part.get(kind)
            texts.append(_join_parts(value, "text") if isinstance(value, list) else text_of(value))
    return "".join(texts)


def calls_of(delta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the pieces of tool calls."""
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        return [call for call in calls if isinstance(call, dict)]
    old = delta.get("function_call")
    return [{"index": 0, "function": old}] if isinstance(old, dict) else []


def _tokens(data: Mapping[str, Any]) -> Usage:
    details = data.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    cached = cached or data.get("prompt_cache_hit_tokens") or data.get("cached_tokens")
    return Usage(
        count_of(data.get("prompt_tokens")),
        count_of(data.get("completion_tokens")),
        count_of(cached),
    )
