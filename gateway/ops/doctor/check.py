"""What one look came to."""

from typing import Literal

from agent.records import frozen


@frozen
class Check:
    """What one look came to; `fix` says what to do when it is not ok."""

    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    fix: str | None = None
