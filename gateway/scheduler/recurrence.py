"""Recurrence of jobs: a point in time, an interval, a cron line, or every few days."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Literal

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from gateway.core.timezones import zone_of

# Errors of cronsim in words.
_WRONG = {
    "Bad minute": mark_for_translation("minutes must be 0 to 59"),
    "Bad hour": mark_for_translation("hours must be 0 to 23"),
    "Bad day-of-month": mark_for_translation("days of the month must be 1 to 31"),
    "Bad month": mark_for_translation("months must be 1 to 12, or JAN to DEC"),
    "Bad day-of-week": mark_for_translation(
        "days of the week must be 0 (Sunday) to 7, or MON to SUN"
    ),
}
# Guard against rules that never end; lists are shorter.
_LOOK_AHEAD = 100


@frozen
class Recurrence:
    """Rule that yields the slots of a job.

    `spec` is the point in time in Unix seconds, the interval in seconds, the cron line, or a number
    of days with the first day and the time of day. `zone` is an IANA name.
    """

    kind: Literal["at", "every", "cron", "days"]
    spec: str
    zone: str

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}"

    @classmethod
    def from_stored(cls, text: str, zone: str) -> "Recurrence":
        kind, _, spec = text.partition(" ")
        kinds: dict[str, Literal["at", "every", "days"]]
        kinds = {"at": "at", "every": "every", "days": "days"}
        return cls(kinds.get(kind, "cron"), spec, zone)

    @classmethod
    def of_days(cls, days: int, first: date, at: time, zone: str) -> "Recurrence":
        return cls("days", f"{days} {first} {at:%H:%M}", zone)

    @classmethod
    def of_cron(cls, line: str, zone: str, now: float) -> "Recurrence":
        """Return the rule of a cron line. Raises `KoreError` for an invalid line."""
        from cronsim import CronSim, CronSimError

        try:
            next(CronSim(line, datetime.fromtimestamp(now, UTC)))
        except (CronSimError, StopIteration, OverflowError) as exc:
            why = t(_WRONG[str(exc)]) if str(exc) in _WRONG else str(exc) or t("no such day")
            message = t("when: the cron line {line!r}: {why}", line=line, why=why)
            raise KoreError(message) from exc
        return cls("cron", line, zone)

    def after(self, instant: float, anchor: int) -> int | None:
        """Return the first slot after `instant` in whole seconds, or None.

        Intervals are counted from `anchor`.
        """
        if self.kind == "at":
            at = int(self.spec)
            return at if at > instant else None
        if self.kind == "every":
            length = int(self.spec)
            return anchor + (math.floor((instant - anchor) / length) + 1) * length
        slots = self._cron(instant) if self.kind == "cron" else self._days(instant)
        return next((slot for slot in slots if slot > instant), None)

    def slots(self, first: int, until: float, anchor: int, limit: int) -> list[int]:
        """Return the newest `limit` slots from `first`, which is a slot, to `until`."""
        if self.kind == "every":
            # Counting is too slow after a month of downtime with a slot every minute.
            length = int(self.spec)
            last = first + max(0, int(until - first) // length) * length
            return list(range(max(first, last - (limit - 1) * length), last + 1, length))
        slots = [first]
        while (slot := self.after(slots[-1], anchor)) is not None and slot <= until:
            slots.append(slot)
            if len(slots) > 10_000:
                # Skip close to the end instead of counting.
                slot = self.after(until - 86_400, anchor) or slot
                slots = [slot]
        return slots[-limit:]

    def shortest_s(self, now: float) -> float:
        """Return the shortest time between two upcoming slots; infinite for a single slot."""
        slots: list[int] = []
        at: float = now
        while len(slots) < _LOOK_AHEAD and (slot := self.after(at, int(now))) is not None:
            slots.append(slot)
            at = slot
        gaps = (later - earlier for earlier, later in pairwise(slots))
        return min(gaps, default=math.inf)

    def _cron(self, instant: float) -> Iterator[int]:
        """Yield slots as Debian's cron does around changes of the clock.

        A time of day inside the gap is moved right after it, and a repeated time of day counts only
        the first time; there is an hourly slot in every hour that exists.
        """
        from cronsim import CronSim

        now = datetime.fromtimestamp(instant, zone_of(self.zone))
        try:
            for slot in CronSim(self.spec, now):
                yield int(slot.timestamp())
        except OverflowError:
            return

    def _days(self, instant: float) -> Iterator[int]:
        """Yield slots at the time of day in the rule's zone; days may differ in length."""
        length, first, clock = self.spec.split()
        day, here = date.fromisoformat(first), zone_of(self.zone)
        step = timedelta(days=int(length))
        elapsed = datetime.fromtimestamp(instant, here).date() - day
        try:
            day += max(0, elapsed // step) * step
            while True:
                yield int(datetime.combine(day, time.fromisoformat(clock), here).timestamp())
                day += step
        except OverflowError:
            return
