"""Permission modes: how much runs without a question."""

from typing import Literal, TypeGuard

PermissionMode = Literal["plan", "ask", "accept-edits", "auto"]
# The tightest first.
MODES: tuple[PermissionMode, ...] = ("plan", "ask", "accept-edits", "auto")


def is_mode(text: object) -> TypeGuard[PermissionMode]:
    return text in MODES


def tightest(*modes: PermissionMode) -> PermissionMode:
    return min(modes, key=MODES.index)
