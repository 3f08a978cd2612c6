"""One measured figure, and tables of figures."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

_HEAD = ("figure", "median", "p95", "bare", "ratio", "goal", "")


@dataclass(frozen=True, slots=True)
class Figure:
    """Measured figure: `value`, in `unit`, is the median if there were several samples.

    `bare` is the same work without Kore, measured in the same run. A `goal` is an upper limit, or a
    lower limit with `at_least`. With `imports`, most of the time is spent on loading libraries, so
    the goal depends on the pace of this machine. `note` contains further facts for the reader.
    """

    name: str
    unit: str
    value: float
    p95: float | None = None
    bare: float | None = None
    goal: float | None = None
    goal_p95: float | None = None
    at_least: bool = False
    imports: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.bare if self.bare else None

    @property
    def reached(self) -> bool | None:
        """True if the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        if self.at_least:
            return self.value >= self.goal
        late = self.goal_p95 is not None and (self.p95 or 0) > self.goal_p95
        return self.value <= self.goal and not late

    def at_pace(self, pace: float) -> "Figure":
        """Return the figure with its goal for a machine with import times `pace` times as long."""
        if not self.imports or self.goal is None or pace <= 1:
            return self
        note = f"the goal of {_number(self.goal)} {self.unit}, times {pace:.2f} for this machine"
        return replace(self, goal=self.goal * pace, note=note)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "reached": self.reached}


def sampled(name: str, unit: str, samples: Sequence[float], **more: Any) -> Figure:
    """Return a figure from samples: their median and 95th percentile."""
    return Figure(name, unit, statistics.median(samples), percentile(samples, 0.95), **more)


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least this share of the samples does not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def table(figures: Sequence[Figure]) -> str:
    """Return a table for people."""
    rows = [_HEAD, *map(_row, figures)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD))]
    lines = []
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([first, *rest, row[-1]]).rstrip())
    notes = [f"{figure.name}: {figure.note}" for figure in figures if figure.note]
    return "\n".join([*lines, "", *notes]).rstrip()


def _row(figure: Figure) -> tuple[str, ...]:
    goal = ""
    if figure.goal is not None:
        sign = "≥" if figure.at_least else "≤"
        goal = f"{sign} {_number(figure.goal)}"
        if figure.goal_p95 is not None:
            goal += f" / {_number(figure.goal_p95)}"
    return (
        figure.name,
        f"{_number(figure.value)} {figure.unit}".rstrip(),
        "" if figure.p95 is None else _number(figure.p95),
        "" if figure.bare is None else _number(figure.bare),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        goal,
        {None: "", True: "ok", False: "MISSED"}[figure.reached],
    )


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.1 or value == 0 else f"{value:.2g}"
