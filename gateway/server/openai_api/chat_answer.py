"""The JSON of a chat completion, whole and in chunks."""

from collections.abc import Mapping
from typing import Any

from agent.types import Usage


class ChatAnswer:
    """One completion of `model`; `created_at` in Unix seconds."""

    def __init__(self, model: str, answer_id: str, created_at: float) -> None:
        self._head = {
            "id": answer_id,
            "created": int(created_at),
            "model": model,
        }

    def whole(self, message: Mapping[str, Any], finish: str, usage: Usage) -> dict[str, Any]:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "refusal": None, **message},
            "logprobs": None,
            "finish_reason": finish,
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage_json(usage),
        }

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    def usage_chunk(self, usage: Usage) -> dict[str, Any]:
        """The last one, where the client asked for it."""
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": []}
        return {**chunk, "usage": usage_json(usage)}


def usage_json(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
