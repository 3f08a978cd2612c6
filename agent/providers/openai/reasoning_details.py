"""OpenRouter's reasoning details of any model: text, summaries and encrypted data.

They are sent back unchanged; otherwise models behind OpenRouter lose their thread or refuse their
own tool calls. https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
"""

import json
from collections.abc import Mapping
from typing import Any

_GROWING = ("text", "summary", "data")
_NAME = "reasoning_details"


class ReasoningDetails:
    """Collector of the pieces of a stream; pieces with the same index and type are joined."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[object, object], dict[str, Any]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        pieces = delta.get(_NAME)
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._grow(piece)

    @property
    def signature(self) -> str | None:
        """All blocks as the signature of an empty `Thinking`; None without any block."""
        return json.dumps({_NAME: list(self._blocks.values())}) if self._blocks else None

    def _grow(self, piece: Mapping[str, Any]) -> None:
        place = (piece.get("index"), piece.get("type"))
        block = self._blocks.setdefault(place, {})
        for name, value in piece.items():
            before = block.get(name)
            if name in _GROWING and isinstance(before, str) and isinstance(value, str):
                block[name] = before + value
            elif value is not None or name not in block:
                block[name] = value


def details_of(signature: str | None) -> list[Any]:
    """Return the details in a signature; empty for a signature of another vendor."""
    if not signature or not signature.startswith(f'{{"{_NAME}"'):
        return []
    details = json.loads(signature)[_NAME]
    return details if isinstance(details, list) else []
