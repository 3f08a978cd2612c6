"""Reading when: the words that a text begins with, in English and Chinese, and their rule.

A grammar of our own (docs/adr/0065-reading-times.md): a text goes on behind the time, and a time
that was understood wrongly is worse than one that was refused.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from agent.errors import KoreError
from agent.frozen import frozen
from agent.language import t
from gateway.schedule.phrase import Phrase, number_of, read_phrase
from gateway.schedule.rule import Rule
from gateway.schedule.zone import is_zone, zone_of

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NAMES = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "hour": "h", "hours": "h", "hr": "h", "hrs": "h",
    "day": "d", "days": "d", "week": "w", "weeks": "w",
    "秒钟": "s", "秒": "s", "分钟": "m", "分": "m", "小时": "h", "钟头": "h",
    "天": "d", "星期": "w", "周": "w", "礼拜": "w",
}  # fmt: skip
_WORDS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "half an": 0.5, "半": 0.5,
}  # fmt: skip
_LATIN = sorted((name for name in [*_NAMES, *_UNITS] if name.isascii()), key=len, reverse=True)
_UNIT = f"(?:{'|'.join(_LATIN)})(?![a-z])"
_LENGTH = rf"\d+\s*{_UNIT}(?:\s*\d+\s*{_UNIT})*"
_NUMBER = "half an|" + "|".join(name for name in _WORDS if name.isascii() and " " not in name)
_ZH_NUMBER = r"(?:\d+|[零〇一二两兩三四五六七八九十]{1,3})"
_ZH_LENGTH = (
    rf"(?:{_ZH_NUMBER}|半)\s*(?:个|個)?(?:半)?\s*"
    r"(?:秒钟|秒|分钟|小时|钟头|天|星期|周|礼拜|分)(?:半)?"
)
_ZONE = re.compile(r"\s+(?P<zone>UTC|[A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+)(?=$|[\s:,;])")
_FIELD = r"[\d*][\d*,/-]*"
_INTERVALS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"every\s+(?P<length>{_LENGTH})",
        r"(?:every\s+(?P<one>hour|minute)|(?P<hourly>hourly))(?![a-z])",
        rf"每(?:隔)?(?P<zh>{_ZH_LENGTH})(?![一二三四五六日天])",
        r"每(?:个|個)?(?P<zh1>小时|钟头|分钟)",
    )
)
_DELAYS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"in\s+(?P<length>{_LENGTH})",
        rf"in\s+(?P<number>{_NUMBER})\s+(?P<unit>{_UNIT})",
        rf"(?:过|再过)?(?P<zh>{_ZH_LENGTH})(?:之后|以后|后|後)",
    )
)
_INSTANT = re.compile(
    r"(?:at\s+)?(?P<date>\d{4}-\d\d-\d\d)(?:\s+|T)(?P<clock>\d\d?:\d\d(?::\d\d)?)"
    r"(?P<offset>Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)
_CRON = re.compile(
    rf"(?P<cron>{_FIELD}\s+{_FIELD}\s+[\d*L][\d*,/L-]*\s+[\dA-Za-z*][\dA-Za-z*,/-]*"
    r"\s+[\dA-Za-z*][\dA-Za-z*,/#-]*)(?=$|[\s:,;])"
)
# Full-width signs are the same signs; each stays one letter.
_NARROW = {n: n - 0xFEE0 for n in range(0xFF01, 0xFF5F)} | {0x3000: " "}
_SIMPLE = str.maketrans("點時鐘鍾後週禮兩過間個號裡", "点时钟钟后周礼两过间个号里")
_BEHIND = " \t\n:,;：，；。、"


@frozen
class Reading:
    """`rest` stands behind the time; `note` says how something was taken that has two meanings."""

    rule: Rule
    rest: str
    note: str = ""


def read(text: str, zone: str, now: float) -> Reading:
    """What a text begins with. Raises `KoreError`."""
    text = text.strip()
    plain = text.translate(_NARROW).translate(_SIMPLE)
    for reader in (_instant, _interval, _delay, _cron, _phrase):
        found = reader(plain, zone, now)
        if found is not None:
            return found.of(text)
    raise KoreError(
        t(
            "when: found {found!r}, expected one of 2026-11-22 09:00, tomorrow at 9, friday 5pm, "
            "in 2 hours, every 2h, daily 9, every monday 9:00, or a cron line such as "
            "0 9 * * 1-5; a time zone such as Europe/Berlin may follow",
            found=" ".join(text.split())[:60],
        )
    )


@frozen
class _Found:
    """A rule, and where the text goes on."""

    rule: Rule
    end: int
    note: str = ""

    def of(self, text: str) -> Reading:
        return Reading(self.rule, text[self.end :].lstrip(_BEHIND), self.note)


def _zoned(text: str, end: int, zone: str) -> tuple[str, int]:
    """The zone that is named behind a time: "and/or" is none."""
    found = _ZONE.match(text, end)
    if found and is_zone(found["zone"]):
        return found["zone"], found.end()
    return zone, end


def _ends(text: str, end: int) -> bool:
    return end == len(text) or text[end] in _BEHIND or not text[end].isascii()


def _first(forms: tuple[re.Pattern[str], ...], text: str) -> Iterator[re.Match[str]]:
    for form in forms:
        found = form.match(text)
        if found and (_ends(text, found.end()) or not found[0][-1].isascii()):
            yield found


def _interval(text: str, zone: str, now: float) -> _Found | None:
    for found in _first(_INTERVALS, text):
        parts = found.groupdict()
        length = parts.get("length") or parts.get("zh")
        if length is None:
            length = f"1 {parts.get('one') or parts.get('zh1') or 'hour'}"
        zone, end = _zoned(text, found.end(), zone)
        return _Found(Rule("every", str(_seconds(length)), zone), end)
    return None


def _delay(text: str, zone: str, now: float) -> _Found | None:
    for found in _first(_DELAYS, text):
        parts = found.groupdict()
        if number := parts.get("number"):
            unit = _UNITS[_NAMES.get(str(parts["unit"]).lower(), str(parts["unit"]).lower())]
            seconds = int(_WORDS[number.lower()] * unit)
        else:
            seconds = _seconds(parts.get("length") or parts.get("zh") or "")
        day = read_phrase(text, found.end(), times_only=True) if seconds % 86_400 == 0 else None
        if day is None or day.time is None:
            zone, end = _zoned(text, found.end(), zone)
            return _Found(Rule("at", str(int(now) + seconds), zone), end)
        # "in 2 days at 9": that day, by the calendar.
        zone, end = _zoned(text, day.end, zone)
        here = datetime.fromtimestamp(now, zone_of(zone))
        at = _at(here.date() + timedelta(days=seconds // 86_400), day, zone)
        return _Found(Rule("at", str(at), zone), end, day.note)
    return None


def _instant(text: str, zone: str, now: float) -> _Found | None:
    """An hour that the clocks leave out is the one after it, one that comes twice the first."""
    found = _INSTANT.match(text)
    if found is None or not _ends(text, found.end()):
        return None
    zone, end = _zoned(text, found.end(), zone)
    written = f"{found['date']}T{found['clock'].zfill(5)}{found['offset'] or ''}"
    try:
        at = datetime.fromisoformat(written)
    except ValueError as exc:
        told = t("when: {text} is no date and time that there is", text=written)
        raise KoreError(told) from exc
    at = at if at.tzinfo else at.replace(tzinfo=zone_of(zone))
    return _Found(Rule("at", str(int(at.timestamp())), zone), end)


def _cron(text: str, zone: str, now: float) -> _Found | None:
    found = _CRON.match(text)
    if found is None:
        return None
    zone, end = _zoned(text, found.end(), zone)
    return _Found(Rule.of_cron(" ".join(found["cron"].split()), zone, now), end)


def _phrase(text: str, zone: str, now: float) -> _Found | None:
    phrase = read_phrase(text, 0)
    if phrase is None:
        return None
    zone, end = _zoned(text, phrase.end, zone)
    if phrase.repeats is not None:
        hour, minute = phrase.clock
        rule = Rule.of_cron(f"{minute} {hour % 24} {phrase.repeats}", zone, now)
        return _Found(rule, end, phrase.note)
    here = datetime.fromtimestamp(now, zone_of(zone))
    day = _day(phrase, here.date())
    at = _at(day, phrase, zone)
    if at <= now and phrase.wraps_days:
        at = _at(day + timedelta(days=phrase.wraps_days), phrase, zone)
    elif at <= now and phrase.month is not None and phrase.year is None:
        at = _at(_date(day.year + 1, day.month, day.day), phrase, zone)
    return _Found(Rule("at", str(at), zone), end, phrase.note)


def _day(phrase: Phrase, today: date) -> date:
    if phrase.month is not None:
        return _date(phrase.year or today.year, phrase.month, phrase.day or 1)
    if phrase.day is not None:
        found = _date(today.year, today.month, phrase.day)
        if found >= today:
            return found
        following = today.replace(day=1) + timedelta(days=32)
        return _date(following.year, following.month, phrase.day)
    if phrase.weekday is None:
        return today + timedelta(days=phrase.days)
    if phrase.weeks is None:
        return today + timedelta(days=(phrase.weekday - today.weekday()) % 7)
    monday = today - timedelta(days=today.weekday())
    return monday + timedelta(weeks=phrase.weeks, days=phrase.weekday)


def _at(day: date, phrase: Phrase, zone: str) -> int:
    """Added to the time of day, not to the instant: tomorrow at nine is at nine."""
    hour, minute = phrase.clock
    day += timedelta(days=hour // 24)
    at = datetime(day.year, day.month, day.day, hour % 24, minute, tzinfo=zone_of(zone))
    return int(at.timestamp())


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        text = f"{year}-{month:02}-{day:02}"
        raise KoreError(t("when: {text} is no date and time that there is", text=text)) from None


def _seconds(length: str) -> int:
    total: float = 0
    for number, count, half, unit, more in re.findall(
        r"(?:(\d+)|([零〇一二两三四五六七八九十半]+?))\s*个?(半)?\s*"
        r"([a-z]+|秒钟|秒|分钟|分|小时|钟头|天|星期|周|礼拜)(半)?",
        length.lower(),
    ):
        many = float(number) if number else 0.5 if count == "半" else number_of(count)
        many += 0.5 if half or more else 0
        total += many * _UNITS[_NAMES.get(unit, unit)]
    if not 0 < total < 3_200_000_000:
        raise KoreError(t("when: {length} is no length of time", length=length.strip()))
    return int(total)
