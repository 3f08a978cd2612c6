"""What a screen or a verb may ask about jobs: a part of `gateway.control.service.Service`."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class JobsApi(Protocol):
    """What comes due by itself."""

    async def jobs(self) -> Sequence[Mapping[str, Any]]:
        """All jobs with their latest slots, as `gateway.scheduler.job_text.facts` tells them."""
        ...

    async def schedule(self, action: str, wanted: Mapping[str, Any]) -> str:
        """`add` or `ask` (key, when, text, and what the flags say), or `remove`, `pause`, `resume`
        or `run` a `number`; returns a sentence. Raises `KoreError`."""
        ...
