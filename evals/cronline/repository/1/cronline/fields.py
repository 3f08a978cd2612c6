"""The five fields: their names, bounds and words."""

from dataclasses import dataclass, field

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
DAYS = "sun mon tue wed thu fri sat".split()


@dataclass(frozen=True)
class Field:
    name: str
    low: int
    high: int
    words: dict = field(default_factory=dict, hash=False)


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, {word: n for n, word in enumerate(MONTHS, 1)}),
    Field("day of week", 0, 7, {word: n for n, word in enumerate(DAYS)}),
)
