"""Scripted faults between a client and a fake server, per method."""

import random
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

FaultKind = Literal["status", "reset", "lost_response", "truncated", "delay", "hang", "answerless"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault; the constructors below name the useful ones."""

    kind: FaultKind
    code: int = 0
    retry_after: int | None = None
    delay_s: float = 0.0
    description: str | None = None


def status(code: int, retry_after: int | None = None, description: str | None = None) -> Fault:
    """Return this HTTP status, without any effect; `description` replaces the usual text."""
    return Fault("status", code=code, retry_after=retry_after, description=description)


def delay(seconds: float) -> Fault:
    """Wait, then respond as usual."""
    return Fault("delay", delay_s=seconds)


reset = Fault("reset")  # the connection is reset before any effect
lost_response = Fault("lost_response")  # the effect happens, then the connection is reset
truncated = Fault("truncated")  # the effect happens, half of the JSON body arrives, then the end
hang = Fault("hang")  # no effect and no answer until the client gives up
answerless = Fault("answerless")  # the effect happens, but no answer until the client gives up


class FaultPlan:
    """Faults per method: queued ones first, in order, then random ones."""

    def __init__(self) -> None:
        self._queued: dict[str, deque[Fault]] = defaultdict(deque)
        self._by_chance: list[tuple[str, Fault, float, random.Random]] = []

    def add(self, method: str, fault: Fault, times: int = 1) -> None:
        """Queue a fault; `method` is case-insensitive, "*" matches every method."""
        self._queued[method.lower()].extend([fault] * times)

    def add_by_chance(self, method: str, fault: Fault, probability: float, seed: int) -> None:
        self._by_chance.append((method.lower(), fault, probability, random.Random(seed)))

    def clear(self) -> None:
        self._queued.clear()
        self._by_chance.clear()

    def take(self, method: str) -> Fault | None:
        """Return the fault for this call, if any; a queued fault is consumed."""
        for name in (method.lower(), "*"):
            if self._queued[name]:
                return self._queued[name].popleft()
        for name, fault, probability, chance in self._by_chance:
            if name in (method.lower(), "*") and chance.random() < probability:
                return fault
        return None


def fault_from_json(data: Mapping[str, Any]) -> Fault:
    """Build a fault from the fields of `Fault`: `{"kind": "status", "code": 429, ...}`."""
    return Fault(**data)
