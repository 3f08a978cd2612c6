"""When a job comes due: an instant, an interval, or a cron line in a time zone."""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal

from agent.errors import KoreError
from agent.frozen import frozen
from agent.language import later, t
from gateway.schedule.zone import is_zone, zone_of

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NAMES = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "hour": "h", "hours": "h", "hr": "h", "hrs": "h",
    "day": "d", "days": "d", "week": "w", "weeks": "w",
}  # fmt: skip
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_UNIT = f"(?:{'|'.join(sorted([*_NAMES, *_UNITS], key=len, reverse=True))})(?![a-z])"
_LENGTH = rf"\d+\s*{_UNIT}(?:\s*\d+\s*{_UNIT})*"
_TIME = r"(?P<hour>[01]?\d|2[0-3])[:.](?P<minute>[0-5]\d)(?::[0-5]\d)?"
_ZONE = r"(?:\s+(?P<zone>UTC|[A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+))?"
_FIELD = r"[\d*][\d*,/-]*"
_FORMS = tuple(
    re.compile(f"(?:at\\s+)?{form}{_ZONE}(?=$|[\\s:,;])", re.IGNORECASE if folded else 0)
    for folded, form in (
        (True, rf"(?P<every>every)\s+(?P<length>{_LENGTH})"),
        (True, r"(?P<every>every)\s+(?P<one>hour|minute)(?![a-z])"),
        (True, rf"(?P<in>in)\s+(?P<length>{_LENGTH})"),
        (True, rf"(?:every\s+day|daily)(?:\s+at)?\s+(?P<daily>){_TIME}"),
        (True, rf"(?:every\s+weekday|weekdays)(?:\s+at)?\s+(?P<weekdays>){_TIME}"),
        (True, rf"every\s+(?P<weekday>{'|'.join(_DAYS)})(?:\s+at)?\s+{_TIME}"),
        (True, r"(?P<date>\d{4}-\d\d-\d\d)(?:\s+|T)(?P<clock>\d\d?:\d\d(?::\d\d)?)"
               r"(?P<offset>Z|[+-]\d\d:?\d\d)?"),
        (True, rf"(?P<day>today|tomorrow)(?:\s+at)?\s+{_TIME}"),
        (True, rf"(?P<next>){_TIME}"),
        (False, rf"(?P<cron>{_FIELD}\s+{_FIELD}\s+[\d*L][\d*,/L-]*\s+[\dA-Za-z*][\dA-Za-z*,/-]*"
                rf"\s+[\dA-Za-z*][\dA-Za-z*,/#-]*)"),
    )
)  # fmt: skip
# What cronsim says of a line, in words.
_WRONG = {
    "Bad minute": later("minutes are 0 to 59"),
    "Bad hour": later("hours are 0 to 23"),
    "Bad day-of-month": later("there is no such day of the month"),
    "Bad month": later("months are 1 to 12, or JAN to DEC"),
    "Bad day-of-week": later("days of the week are 0 (Sunday) to 7, or MON to SUN"),
}
# More than anybody lists: a guard against a rule that never ends.
_LOOK_AHEAD = 100


@frozen
class Rule:
    """`spec` is the instant in Unix seconds, the seconds in between, or the cron line; `zone` an
    IANA name."""

    kind: Literal["at", "every", "cron"]
    spec: str
    zone: str

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}"

    @classmethod
    def stored(cls, text: str, zone: str) -> "Rule":
        kind, _, spec = text.partition(" ")
        found: Literal["at", "every", "cron"] = "cron"
        found = "at" if kind == "at" else "every" if kind == "every" else found
        return cls(found, spec, zone)

    def after(self, instant: float, anchor: int) -> int | None:
        """The first slot later than `instant`, in whole seconds; None when there is none.

        Intervals are counted from `anchor`.
        """
        if self.kind == "at":
            at = int(self.spec)
            return at if at > instant else None
        if self.kind == "every":
            length = int(self.spec)
            return anchor + (math.floor((instant - anchor) / length) + 1) * length
        return next((slot for slot in self._cron(instant) if slot > instant), None)

    def slots(self, first: int, until: float, anchor: int, most: int) -> list[int]:
        """The slots from `first`, which is one, to `until`: the newest `most` of them."""
        if self.kind == "every":
            # Down for a month, with a slot each minute: nobody counts them one by one.
            length = int(self.spec)
            last = first + max(0, int(until - first) // length) * length
            return list(range(max(first, last - (most - 1) * length), last + 1, length))
        found = [first]
        while (slot := self.after(found[-1], anchor)) is not None and slot <= until:
            found.append(slot)
            if len(found) > 10_000:
                # Not one by one either: go on close to the end.
                slot = self.after(until - 86_400, anchor) or slot
                found = [slot]
        return found[-most:]

    def shortest_s(self, now: float) -> float:
        """The least time between two of the next slots; infinite for a single one."""
        found: list[int] = []
        at: float = now
        while len(found) < _LOOK_AHEAD and (slot := self.after(at, int(now))) is not None:
            found.append(slot)
            at = slot
        gaps = (later - earlier for earlier, later in pairwise(found))
        return min(gaps, default=math.inf)

    def _cron(self, instant: float) -> Iterator[int]:
        """As Debian's cron: a time of day that the clocks leave out comes right after the gap, one
        that comes twice the first time only; what comes each hour comes each hour that there is."""
        from cronsim import CronSim

        now = datetime.fromtimestamp(instant, zone_of(self.zone))
        try:
            for slot in CronSim(self.spec, now):
                yield int(slot.timestamp())
        except OverflowError:
            return


def read(text: str, zone: str, now: float) -> tuple[Rule, str]:
    """The rule that a text begins with, and what stands behind it. Raises `KoreError`."""
    text = text.strip()
    for form in _FORMS:
        if found := form.match(text):
            parts, end = found.groupdict(), found.end()
            if (named := parts["zone"]) and not is_zone(named):
                # "09:00 and/or later": that is the text already.
                parts["zone"], end = None, found.start("zone")
            return _rule(parts, zone, now), text[end:].lstrip(" \t\n:,;")
    raise KoreError(
        t(
            "when: found {found!r}, expected one of 2026-11-22 09:00, tomorrow 18:30, in 20m, "
            "every 2h, daily 09:00, every monday 09:00, or a cron line such as 0 9 * * 1-5; "
            "a time zone such as Europe/Berlin may follow",
            found=" ".join(text.split())[:60],
        )
    )


def _rule(found: dict[str, str | None], zone: str, now: float) -> Rule:
    zone = found.get("zone") or zone
    tz = zone_of(zone)
    here = datetime.fromtimestamp(now, tz)
    if found.get("every"):
        length = found.get("length") or f"1 {found.get('one')}"
        return Rule("every", str(_seconds(length)), zone)
    if found.get("in"):
        return Rule("at", str(int(now) + _seconds(found["length"] or "")), zone)
    if line := found.get("cron"):
        return _checked(" ".join(line.split()), zone, now)
    if found.get("date"):
        return Rule("at", str(_instant(found, zone)), zone)
    time = f"{int(found['minute'] or 0)} {int(found['hour'] or 0)}"
    if found.get("daily") is not None:
        return Rule("cron", f"{time} * * *", zone)
    if found.get("weekdays") is not None:
        return Rule("cron", f"{time} * * 1-5", zone)
    if weekday := found.get("weekday"):
        return Rule("cron", f"{time} * * {_DAYS.index(weekday.lower())}", zone)
    at = here.replace(
        hour=int(found["hour"] or 0), minute=int(found["minute"] or 0), second=0, microsecond=0
    )
    later = (found.get("day") or "").lower() == "tomorrow" or (
        found.get("next") is not None and at.timestamp() <= now
    )
    # Added to the time of day, not to the instant: tomorrow at nine is at nine.
    return Rule("at", str(int((at + timedelta(days=1) if later else at).timestamp())), zone)


def _instant(found: dict[str, str | None], zone: str) -> int:
    """An hour that the clocks leave out is the one after it, one that comes twice the first."""
    text = f"{found['date']}T{(found['clock'] or '').zfill(5)}{found.get('offset') or ''}"
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        told = t("when: {text} is no date and time that there is", text=text)
        raise KoreError(told) from exc
    return int((at if at.tzinfo else at.replace(tzinfo=zone_of(zone))).timestamp())


def _seconds(length: str) -> int:
    total = 0
    for number, unit in re.findall(r"(\d+)\s*([a-z]+)", length.lower()):
        total += int(number) * _UNITS[_NAMES.get(unit, unit)]
    if not 0 < total < 3_200_000_000:
        raise KoreError(t("when: {length} is no length of time", length=length.strip()))
    return total


def _checked(line: str, zone: str, now: float) -> Rule:
    from cronsim import CronSim, CronSimError

    try:
        next(CronSim(line, datetime.fromtimestamp(now, UTC)))
    except (CronSimError, StopIteration, OverflowError) as exc:
        why = t(_WRONG[str(exc)]) if str(exc) in _WRONG else str(exc) or t("no such day")
        raise KoreError(t("when: the cron line {line!r}: {why}", line=line, why=why)) from exc
    return Rule("cron", line, zone)
