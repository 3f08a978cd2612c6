"""Permission modes: how much runs without a question."""

from typing import Literal, TypeGuard

Mode = Literal["plan", "ask", "accept-edits", "auto"]
# The tightest first.
MODES: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "auto")


def is_mode(text: object) -> TypeGuard[Mode]:
    return text in MODES


def tightest(*modes: Mode) -> Mode:
    return min(modes, key=MODES.index)
