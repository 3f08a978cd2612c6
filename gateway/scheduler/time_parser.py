"""Parser for times at the start of a text, in English and Chinese.

It has its own grammar (ADR 0065), because text follows the time, and a misunderstood time is worse
than a rejected one.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.core.timezones import is_zone, zone_of
from gateway.scheduler.job_text import day_in_words
from gateway.scheduler.recurrence import Recurrence
from gateway.scheduler.time_phrase import (
    DAY,
    HOUR,
    ZH_DAY,
    TimePhrase,
    number_of,
    read_phrase,
    weekday,
)

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
        rf"every\s+(?P<number>{_NUMBER})\s+(?P<unit>{_UNIT})",
        r"(?:every\s+(?P<one>hour|minute)|(?P<hourly>hourly))(?![a-z])",
        rf"每(?:隔)?(?P<zh>{_ZH_LENGTH})(?![一二三四五六日天])",
        r"每(?:个|個)?(?P<zh1>小时|钟头|分钟)",
    )
)
_ORDINALS = {"other": 2, "second": 2, "third": 3, "fourth": 4}
# "every second monday", "every 2 weeks on monday", "每隔一天": counted by the calendar.
_COUNTED = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"every\s+(?P<nth>{'|'.join(_ORDINALS)}|\d{{1,3}}(?:st|nd|rd|th))\s+"
        rf"(?P<unit>day|week|(?P<named>{DAY}))(?![a-z])",
        rf"every\s+(?P<n>\d{{1,3}}|{_NUMBER})\s*(?P<unit>d|w|days?|weeks?)(?![a-z0-9])",
        r"fortnightly(?P<fortnight>)(?![a-z])",
        rf"每?隔(?P<skip>{_ZH_NUMBER})?个?(?P<zhunit>天|日|周|星期|礼拜)(?![一二三四五六日天])",
        rf"每(?P<zhn>{_ZH_NUMBER})个?(?P<zhunit>天|周|星期|礼拜)(?![一二三四五六日天])",
    )
)
_ON_DAY = re.compile(
    rf"\s*(?:,\s*)?(?:on\s+)?(?P<day>{DAY})s?(?![a-z])|\s*的?(?P<zh>{ZH_DAY})", re.IGNORECASE
)
_BARE = re.compile(rf"[\s,]*(?:\d{{1,2}}|{HOUR})", re.IGNORECASE)
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
# Full-width characters are equivalent; each remains a single character.
_NARROW = {n: n - 0xFEE0 for n in range(0xFF01, 0xFF5F)} | {0x3000: " "}
_SIMPLE = str.maketrans("點時鐘鍾後週禮兩過間個號裡", "点时钟钟后周礼两过间个号里")
# Signs that a time continues and was only partly understood. After a colon anything is text.
_CLOCK = rf"\d{{1,2}}(?![\d%])|(?:{HOUR})(?![a-z])|noon|midnight"
_MORE = re.compile(
    rf"[\s,，、;；。]*(?:"
    rf"(?:and|at|on|to|till|until|from|between|or|&)\s+(?:at\s+|on\s+)?"
    rf"(?:{_CLOCK}|{DAY}s?(?![a-z'’])|weekdays?|weekends?|every\s)"
    rf"|(?:except|but\s+not|through)\s|every\s+(?:{DAY}|\d|other|second|day|week|month)"
    rf"|[-–—]\s?(?:\d|{DAY}(?![a-z]))|\d{{1,2}}(?::\d|\s*[-–]\s*\d|\s?[ap]m(?![a-z]))"
    rf"|[和到至或]?(?:{ZH_DAY}|{_ZH_NUMBER}[点时](?![间候]))|[和到至或]\d|除了|差{_ZH_NUMBER}分)",
    re.IGNORECASE,
)
_WORD_HOUR = re.compile(rf"(?:{HOUR})$", re.IGNORECASE)
_WORD_NUMBER = re.compile(
    rf"\s(?:{HOUR}|twenty|thirty|forty|fifty)(?:-[a-z]+)?(?![a-z])", re.IGNORECASE
)
_BEHIND = " \t\n:,;：，；。、"


@frozen
class ParsedTime:
    """Parsed time. `rest` is the text after it; `note` explains the choice between two readings."""

    rule: Recurrence
    rest: str
    note: str = ""


def parse_time(text: str, zone: str, now: float) -> ParsedTime:
    """Parse the time at the start of a text. Raises `KoreError`."""
    text = text.strip()
    plain = text.translate(_NARROW).translate(_SIMPLE)
    for reader in (_instant, _parse_counted, _interval, _delay, _cron, _phrase):
        match = reader(plain, zone, now)
        if match is not None:
            _refuse_more(plain, match.end, text)
            return match.of(text)
    raise KoreError(
        t(
            "when: found {found!r}, expected one of 2026-11-22 09:00, tomorrow at 9, friday 5pm, "
            "in 2 hours, every 2h, daily 9, every monday 9:00, or a cron line such as "
            "0 9 * * 1-5; a time zone such as Europe/Berlin may follow",
            found=" ".join(text.split())[:60],
        )
    )


def _refuse_more(plain: str, end: int, text: str) -> None:
    """Raise `KoreError` if the text after the time looks like more of the time."""
    more = _MORE.match(plain, end)
    if more is None and _WORD_HOUR.search(plain, max(0, end - 7), end):
        more = _WORD_NUMBER.match(plain, end)
    if more is None:
        return
    raise KoreError(
        t(
            "when: {rest!r} after {time!r} looks like part of the time but cannot be "
            "parsed; write a time such as tomorrow at 9, every other day at 9, every "
            "monday and friday 9:00, or put a colon before the text",
            rest=text[end:].strip(_BEHIND)[:40],
            time=text[:end].strip(),
        )
    )


@frozen
class _Match:
    """Rule and the position after it."""

    rule: Recurrence
    end: int
    note: str = ""

    def of(self, text: str) -> ParsedTime:
        return ParsedTime(self.rule, text[self.end :].lstrip(_BEHIND), self.note)


def _zone_behind(text: str, end: int, zone: str) -> tuple[str, int]:
    """Return the zone named after a time, and the position after it; "and/or" is not a zone."""
    match = _ZONE.match(text, end)
    if match and is_zone(match["zone"]):
        return match["zone"], match.end()
    return zone, end


def _ends(text: str, end: int) -> bool:
    return end == len(text) or text[end] in _BEHIND or not text[end].isascii()


def _first(forms: tuple[re.Pattern[str], ...], text: str) -> Iterator[re.Match[str]]:
    for form in forms:
        match = form.match(text)
        if match and (_ends(text, match.end()) or not match[0][-1].isascii()):
            yield match


def _parse_counted(text: str, zone: str, now: float) -> _Match | None:
    match = next(_first(_COUNTED, text), None)
    if match is None:
        return None
    parts = match.groupdict()
    days, is_loose = _days_of(parts)
    end, weekday = match.end(), _weekday_of(parts.get("named"))
    on = _ON_DAY.match(text, end) if days % 7 == 0 and weekday is None else None
    if on:
        end, weekday = on.end(), _weekday_of(on["day"] or on["zh"])
    clock = read_phrase(text, end, times_only=True)
    if is_loose and weekday is None and (clock is None or _BARE.fullmatch(text, end, clock.end)):
        return None
    notes = [clock.note if clock else t("no time given: using 09:00")]
    if parts.get("nth") == "second" and parts.get("named"):
        notes.append(t("“every second {day}” is read as every two weeks", day=parts["named"]))
    elif parts.get("skip") and days > 2 and days % 7:
        notes.append(t("“{text}” is read as every {n} days", text=match[0], n=days))
    hour, minute = clock.clock if clock else (9, 0)
    zone, end = _zone_behind(text, clock.end if clock else end, zone)
    here = datetime.fromtimestamp(now, zone_of(zone))
    at = time(hour % 24, minute)
    first = here.date()
    if weekday is not None:
        first += timedelta(days=(weekday - first.weekday()) % 7)
    if datetime.combine(first, at, here.tzinfo).timestamp() <= now:
        first += timedelta(days=1 if weekday is None else 7)
    return _Match(Recurrence.of_days(days, first, at, zone), end, "; ".join(filter(None, notes)))


def _days_of(parts: dict[str, str | None]) -> tuple[int, bool]:
    """Return the number of days, and whether it is a duration unless a time of day follows."""
    unit = parts.get("unit") or parts.get("zhunit") or "week"
    length = 1 if unit in ("天", "日") or unit.lower() in ("d", "day", "days") else 7
    if nth := parts.get("nth"):
        return (_ORDINALS.get(nth.lower()) or int(nth[:-2]) or 1) * length, False
    if "fortnight" in parts:
        return 14, False
    if count := parts.get("n") or parts.get("zhn"):
        few = _WORDS.get(count.lower()) if count.isascii() and count.isalpha() else None
        return int(few or number_of(count) or 1) * length, True
    return ((number_of(parts.get("skip") or "一")) + 1) * length, False


def _weekday_of(name: str | None) -> int | None:
    if name is None:
        return None
    return weekday(name) if name.isascii() else "一二三四五六日".index(name[-1].replace("天", "日"))


def _interval(text: str, zone: str, now: float) -> _Match | None:
    for match in _first(_INTERVALS, text):
        parts = match.groupdict()
        length = parts.get("length") or parts.get("zh")
        if number := parts.get("number"):
            length = _plain_length(number, str(parts["unit"]))
        if length is None:
            length = f"1 {parts.get('one') or parts.get('zh1') or 'hour'}"
        zone, end = _zone_behind(text, match.end(), zone)
        return _Match(Recurrence("every", str(_seconds(length)), zone), end)
    return None


def _delay(text: str, zone: str, now: float) -> _Match | None:
    for match in _first(_DELAYS, text):
        parts = match.groupdict()
        if number := parts.get("number"):
            seconds = _seconds(_plain_length(number, str(parts["unit"])))
        else:
            seconds = _seconds(parts.get("length") or parts.get("zh") or "")
        day = read_phrase(text, match.end(), times_only=True) if seconds % 86_400 == 0 else None
        if day is None or day.time is None:
            zone, end = _zone_behind(text, match.end(), zone)
            return _Match(Recurrence("at", str(int(now) + seconds), zone), end)
        # "in 2 days at 9" means the calendar day.
        zone, end = _zone_behind(text, day.end, zone)
        here = datetime.fromtimestamp(now, zone_of(zone))
        at = _at(here.date() + timedelta(days=seconds // 86_400), day, zone)
        return _Match(Recurrence("at", str(at), zone), end, day.note)
    return None


def _instant(text: str, zone: str, now: float) -> _Match | None:
    """Parse an instant.

    An hour inside the gap of a clock change is the hour after it; a repeated hour is the first.
    """
    match = _INSTANT.match(text)
    if match is None or not _ends(text, match.end()):
        return None
    zone, end = _zone_behind(text, match.end(), zone)
    iso_text = f"{match['date']}T{match['clock'].zfill(5)}{match['offset'] or ''}"
    try:
        at = datetime.fromisoformat(iso_text)
    except ValueError as exc:
        message = t("when: {text} is not a valid date and time", text=iso_text)
        raise KoreError(message) from exc
    at = at if at.tzinfo else at.replace(tzinfo=zone_of(zone))
    return _Match(Recurrence("at", str(int(at.timestamp())), zone), end)


def _cron(text: str, zone: str, now: float) -> _Match | None:
    match = _CRON.match(text)
    if match is None:
        return None
    zone, end = _zone_behind(text, match.end(), zone)
    return _Match(Recurrence.of_cron(" ".join(match["cron"].split()), zone, now), end)


def _phrase(text: str, zone: str, now: float) -> _Match | None:
    phrase = read_phrase(text, 0)
    if phrase is None:
        return None
    zone, end = _zone_behind(text, phrase.end, zone)
    if phrase.repeats is not None:
        hour, minute = phrase.clock
        rule = Recurrence.of_cron(f"{minute} {hour % 24} {phrase.repeats}", zone, now)
        return _Match(rule, end, phrase.note)
    here = datetime.fromtimestamp(now, zone_of(zone))
    day = _day(phrase, here.date())
    at = _at(day, phrase, zone)
    if at <= now and phrase.wraps_days:
        at = _at(day + timedelta(days=phrase.wraps_days), phrase, zone)
    elif at <= now and phrase.month is not None and phrase.year is None:
        day = _date(day.year + 1, day.month, day.day)
        at = _at(day, phrase, zone)
    notes = (_note_of_slash(phrase, day, here.date()) if phrase.slash_date else "", phrase.note)
    return _Match(Recurrence("at", str(at), zone), end, "; ".join(filter(None, notes)))


def _note_of_slash(phrase: TimePhrase, day: date, today: date) -> str:
    """Explain how an ambiguous date was read, and how to write the other reading."""
    other = date(day.year, day.day, day.month)
    if phrase.year is None:
        other = other.replace(year=today.year)
        other = other if other >= today else other.replace(year=today.year + 1)
    return t(
        "{text} is read as {day}; for {other}, write {written}",
        text=phrase.slash_date,
        day=day_in_words(day),
        other=day_in_words(other),
        written=other,
    )


def _day(phrase: TimePhrase, today: date) -> date:
    if phrase.month is not None:
        return _date(phrase.year or today.year, phrase.month, phrase.day or 1)
    if phrase.day is not None:
        this_month = _date(today.year, today.month, phrase.day)
        if this_month >= today:
            return this_month
        following = today.replace(day=1) + timedelta(days=32)
        return _date(following.year, following.month, phrase.day)
    if phrase.weekday is None:
        return today + timedelta(days=phrase.days)
    if phrase.weeks is None:
        return today + timedelta(days=(phrase.weekday - today.weekday()) % 7)
    monday = today - timedelta(days=today.weekday())
    return monday + timedelta(weeks=phrase.weeks, days=phrase.weekday)


def _at(day: date, phrase: TimePhrase, zone: str) -> int:
    """Return the instant of a time of day.

    The offset is added to the time of day, so tomorrow at nine is at nine even across a clock
    change.
    """
    hour, minute = phrase.clock
    day += timedelta(days=hour // 24)
    at = datetime(day.year, day.month, day.day, hour % 24, minute, tzinfo=zone_of(zone))
    return int(at.timestamp())


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        text = f"{year}-{month:02}-{day:02}"
        raise KoreError(t("when: {text} is not a valid date and time", text=text)) from None


def _plain_length(number: str, unit: str) -> str:
    """Return "two hours" as "7200 s"."""
    return f"{int(_WORDS[number.lower()] * _UNITS[_NAMES.get(unit.lower(), unit.lower())])} s"


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
        raise KoreError(t("when: {length} is not a valid duration", length=length.strip()))
    return int(total)
