"""What is new in a folder and in files that somebody points at."""

from dataclasses import dataclass

from agent.types import Taint


@dataclass(frozen=True, slots=True)
class News:
    """A text for the model, what it brings, and how many files did not fit."""

    text: str
    taint: frozenset[Taint] = frozenset({"private"})
    evicted: int = 0
