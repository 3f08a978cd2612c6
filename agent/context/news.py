"""What is new in a folder and in files that somebody points at."""

from agent.records import frozen
from agent.types import Taint


@frozen
class ContextUpdate:
    """A text for the model, what it brings, and how many files did not fit."""

    text: str
    taint: frozenset[Taint] = frozenset({"private"})
    evicted: int = 0
