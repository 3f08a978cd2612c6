"""Estimates of tokens, without a tokenizer."""

from collections.abc import Iterable

from agent.providers.base import ToolSpec
from agent.types import Context, Image, ImageFile, Message, Text

_MESSAGE_OVERHEAD = 4

# Tokens of a picture of the largest size that vendors do not scale down.
# https://platform.claude.com/docs/en/build-with-claude/vision
_IMAGE_TOKENS = 1600

# In UTF-16, CJK and both halves of every emoji are above this high byte.
_BELOW_CJK = bytes(range(0x2E))


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text: one per four letters, one per CJK character, two per emoji."""
    if text.isascii():
        return len(text) // 4 + 1
    high_bytes = text.encode("utf-16-be", "surrogatepass")[::2]
    wide = len(high_bytes.translate(None, _BELOW_CJK))
    return (len(high_bytes) - wide) // 3 + wide + 1


def estimate(message: Message) -> int:
    """Estimate the tokens of a message in a request. The result is cached in the message.

    Thinking is excluded: vendors drop it, or count it only in the running turn.
    """
    if message.tokens is not None:
        return message.tokens
    tokens = _MESSAGE_OVERHEAD
    for part in message.content:
        if isinstance(part, Text | Context):
            tokens += estimate_text(part.text)
        elif isinstance(part, Image | ImageFile):
            tokens += _IMAGE_TOKENS
    for call in message.tool_calls:
        tokens += estimate_text(call.name + call.raw)
    # Cache in the only field that is not part of the message's value.
    object.__setattr__(message, "tokens", tokens)
    return tokens


def estimate_all(messages: Iterable[Message]) -> int:
    """Estimate the tokens of several messages."""
    # Runs over whole conversations for every request; most messages are counted already.
    return sum([message.tokens or estimate(message) for message in messages])


def estimate_tool(spec: ToolSpec) -> int:
    """Estimate the tokens of a tool's description. The result is cached in the spec."""
    if spec.tokens is not None:
        return spec.tokens
    tokens = estimate_text(f"{spec.name}{spec.description}{spec.parameters}")
    object.__setattr__(spec, "tokens", tokens)
    return tokens
