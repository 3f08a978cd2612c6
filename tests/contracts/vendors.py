"""Vendors' restrictions beyond OpenAI's rules, for a fake that enforces them."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.model_script import ReplyScript, refusal

Body = Mapping[str, Any]
DETAILS = (
    {"type": "reasoning.text", "text": "let me ", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "text": "look", "signature": None, "index": 0},
    {"type": "reasoning.text", "signature": "sig", "index": 0},
    {"type": "reasoning.encrypted", "data": "xx", "id": "r1", "index": 1},
)
DETAILED = [
    {
        "type": "reasoning.text",
        "text": "let me look",
        "format": "anthropic-claude-v1",
        "index": 0,
        "signature": "sig",
    },
    {"type": "reasoning.encrypted", "data": "xx", "id": "r1", "index": 1},
]
SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}


def objection(vendor: str, body: Body) -> ReplyScript | None:
    """Return the vendor's refusal of this request, if any."""
    reason = _RULES.get(vendor, _strict)(body)
    return refusal(400, reason) if reason else None


def _replies(body: Body) -> list[Mapping[str, Any]]:
    return [message for message in body["messages"] if message["role"] == "assistant"]


def _strict(body: Body) -> str | None:
    """Refuse fields that only other vendors support."""
    for message in _replies(body):
        if "reasoning_content" in message:
            return "property 'reasoning_content' is unsupported"
        if any("extra_content" in call for call in message.get("tool_calls", ())):
            return "property 'extra_content' is unsupported"
    return None


def _openai(body: Body) -> str | None:
    if "max_tokens" in body:
        return "Unsupported parameter: 'max_tokens' is not supported with this model."
    return _strict(body)


def _mistral(body: Body) -> str | None:
    return "stream_options: Extra inputs are not permitted" if "stream_options" in body else None


def _deepseek(body: Body) -> str | None:
    # https://api-docs.deepseek.com/guides/thinking_mode
    if body.get("thinking") == {"type": "disabled"}:
        return None
    if all(message.get("reasoning_content") for message in _replies(body)):
        return None
    return "The `reasoning_content` in the thinking mode must be passed back to the API."


def _moonshot(body: Body) -> str | None:
    for n, message in enumerate(body["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return (
                "thinking is enabled but reasoning_content is missing in assistant tool call "
                f"message at index {n}"
            )
    return None


def _gemini(body: Body) -> str | None:
    # https://ai.google.dev/gemini-api/docs/thought-signatures
    known = {"skip_thought_signature_validator", SIGNED["google"]["thought_signature"]}
    for message in _replies(body):
        if calls := message.get("tool_calls"):
            google = (calls[0].get("extra_content") or {}).get("google", {})
            if not (signature := google.get("thought_signature")):
                return "Function call is missing a thought_signature in functionCall parts."
            if signature not in known:
                return "Invalid thought signature"
    return None


def _openrouter(body: Body) -> str | None:
    if any(
        reply.get("tool_calls") and "reasoning_details" not in reply for reply in _replies(body)
    ):
        return None
    sent = [reply["reasoning_details"] for reply in _replies(body) if "reasoning_details" in reply]
    return None if all(item == DETAILED for item in sent) else "Invalid signature in thinking block"


def _never(body: Body) -> str | None:
    return None


_RULES: Mapping[str, Callable[[Body], str | None]] = {
    "openai": _openai,
    "mistral": _mistral,
    "deepseek": _deepseek,
    "moonshot": _moonshot,
    "gemini": _gemini,
    "openrouter": _openrouter,
    "zhipu": _never,
    # Their formats have rules of their own, which the fake enforces.
    "anthropic": _never,
    "ollama": _never,
}
