"""Days and times of day in words: "tomorrow at 9", "every monday and friday 5pm", "明天早上9点".

A phrase consists of days, repetitions, parts of a day and a time in any order, each at most once.
It ends at the first other word. Input is in simplified Chinese and half-width characters.
"""

import re
from dataclasses import dataclass

from agent.i18n import t
from gateway.core.timezones import month_comes_first

_END = r"(?![a-z0-9'’])"
_DAYS = ("mon(?:day)?", "tue(?:s|sday)?", "wed(?:nesday)?", "thu(?:r|rs|rsday)?", "fri(?:day)?",
         "sat(?:urday)?", "sun(?:day)?")  # fmt: skip
_FULL_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?",
           "aug(?:ust)?", "sep(?:t|tember)?", "oct(?:ober)?", "nov(?:ember)?",
           "dec(?:ember)?")  # fmt: skip
DAY = f"(?:{'|'.join(_DAYS)})"
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_HOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
          "twelve")  # fmt: skip
HOUR = "|".join(_HOURS)
_MINUTES = {"five": 5, "ten": 10, "fifteen": 15, "quarter": 15, "twenty": 20, "twenty-five": 25,
            "thirty": 30, "half": 30, "forty-five": 45}  # fmt: skip
_HALF = r"(?:\s*(?P<half{}>[ap])\.?m\.?)?"
_ZH_DAYS = "一二三四五六日"
ZH_DAY = "(?:周|星期|礼拜)[一二三四五六日天]"
_ZH_MORE_DAYS = "(?:[、,和及]?(?:周|星期|礼拜)?[一二三四五六日天](?![点月日号]))*"
_ZH = "(?:\\d{1,2}|[零〇一二两三四五六七八九十]{1,3})"
# Minutes without a unit; "9点3个鸡蛋" has none.
_ZH_TWO = "(?:[0-5]\\d|[零〇一二三四五六七八九十]{2,3})(?![\\d个人位只张本次件斤点时])"
_ZH_DIGITS = {digit: n for n, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_AND = r"\s*(?:,|and|&)\s*"

# First hour of each part of a day, and the hour after which it means the afternoon.
_PARTS = {
    "morning": 9, "noon": 12, "afternoon": 15, "evening": 19, "night": 21, "midnight": 24,
    "early": 6, "dawn": 3,
}  # fmt: skip
_LATE = ("noon", "afternoon", "evening", "night", "midnight")
_ZH_PARTS = {
    "凌晨": "dawn", "清晨": "early", "早上": "morning", "早晨": "morning", "早": "morning",
    "上午": "morning", "中午": "noon", "下午": "afternoon", "傍晚": "evening", "晚上": "evening",
    "晚": "evening", "夜里": "night", "半夜": "midnight", "午夜": "midnight",
}  # fmt: skip
_LINK = re.compile(r"(?:\s|,(?=\s)|的)*(?:(?P<word>at|on|in the|in|by|starting)\s+)?", re.I)
_ELEMENTS = {
    "repeat": (
        rf"(?:(?:every|from)\s+)?mon(?:day)?\s*(?:[-–]|to|till|until|through)\s*fri(?:day)?"
        rf"(?P<weekdays>){_END}",
        rf"(?:every|each)\s+(?P<days>(?:{DAY})(?:{_AND}{DAY})*){_END}",
        rf"(?:on\s+)?(?P<plural>(?:{'|'.join(_FULL_DAYS)})s(?:{_AND}(?:{'|'.join(_FULL_DAYS)})s)*)"
        rf"{_END}",
        rf"(?:every\s*day|each\s+day|daily)(?P<daily>){_END}",
        rf"(?:every\s+(?P<dailypart>morning|afternoon|evening|night)){_END}",
        rf"(?:every\s+weekday|(?:on\s+)?weekdays|every\s+workday|workdays)(?P<weekdays>){_END}",
        rf"(?:every\s+weekend|(?:on\s+)?weekends)(?P<weekends>){_END}",
        r"(?:every\s+month|monthly)(?:\s+on)?(?:\s+the)?\s+(?P<monthly>[0-3]?\d)(?:st|nd|rd|th)?"
        rf"{_END}",
        rf"weekly\s+on\s+(?P<weekly>{DAY}){_END}",
        r"每个?月(?P<zhmonthly>" + _ZH + r")[日号]",
        r"每个?(?:工作日|(?:周|星期|礼拜)[一1][到至](?:周|星期|礼拜)?[五5])(?P<zhweekdays>)",
        r"每个?(?P<zhdays>" + ZH_DAY + _ZH_MORE_DAYS + ")",
        r"每个?周末(?P<zhweekends>)",
        r"(?:每日|每天|天天)(?P<zhdaily>)",
        r"每(?P<zhdailypart>早|晚)上?",
    ),
    "day": (
        rf"(?P<year>\d{{4}})-(?P<isomonth>\d\d)-(?P<isoday>\d\d){_END}",
        rf"the\s+day\s+after\s+tomorrow(?P<after>){_END}",
        rf"(?P<near>today|tomorrow|tmrw|tonight){_END}",
        rf"this\s+(?P<thispart>morning|afternoon|evening){_END}",
        rf"(?:(?P<which>this|next|coming)\s+)(?P<named>{DAY}){_END}",
        rf"(?P<weekday>{DAY}){_END}",
        rf"(?P<month>{_MONTH})\s+(?P<monthday>[0-3]?\d)(?:st|nd|rd|th)?(?:,?\s+(?P<y1>20\d\d))?"
        rf"{_END}(?!:)",
        rf"(?P<daymonth>[0-3]?\d)(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month2>{_MONTH})"
        rf"(?:,?\s+(?P<y2>20\d\d))?{_END}",
        r"(?P<dotday>[0-3]?\d)\.(?P<dotmonth>[01]?\d)\.(?P<y3>20\d\d)?(?!\d)",
        r"(?P<y5>20\d\d)/(?P<slashmonth>[01]?\d)/(?P<slashday>[0-3]?\d)(?![\d/])",
        r"(?P<slash1>[0-3]?\d)/(?P<slash2>[0-3]?\d)(?:/(?P<y6>20\d\d))?(?![\d/])",
        rf"the\s+(?P<ordinal>[0-3]?\d)(?:st|nd|rd|th){_END}",
        r"(?P<zhnear>今天|今日|明天|明日|后天|大后天|今晚|明晚|明早|今早)",
        r"(?P<zhweek>下下|下|这|本)?个?(?P<zhday>" + ZH_DAY + ")",
        r"(?:(?P<y4>20\d\d)年)?(?P<zhmonth>" + _ZH + r")月(?P<zhmonthday>" + _ZH + r")[日号]",
        r"(?P<zhordinal>" + _ZH + r")号",
    ),
    "time": (
        r"(?P<hour>[01]?\d|2[0-4])[:.](?P<minute>[0-5]\d)(?::[0-5]\d)?"
        rf"(?:\s*(?P<half>[ap])\.?m\.?)?{_END}",
        rf"(?P<hour12>1[0-2]|0?[1-9])\s*(?P<half2>[ap])\.?m\.?{_END}",
        rf"(?P<clock>\d{{1,2}}|{HOUR})\s*o['’]?\s?clock{_END}",
        rf"(?:a\s+)?(?P<past>half|quarter|five|ten|twenty(?:-five)?)\s+past\s+"
        rf"(?P<pasthour>\d{{1,2}}|{HOUR}){_HALF.format(3)}{_END}",
        rf"(?:a\s+)?(?P<to>quarter|five|ten|twenty(?:-five)?)\s+to\s+"
        rf"(?P<tohour>\d{{1,2}}|{HOUR}){_HALF.format(4)}{_END}",
        rf"(?P<wordhour>{HOUR})[\s-](?P<wordminute>fifteen|thirty|forty-five)"
        rf"{_HALF.format(5)}{_END}",
        rf"(?P<wordhour2>{HOUR})\s*(?P<half6>[ap])\.?m\.?{_END}",
        rf"(?P<point>noon|midday|midnight){_END}",
        r"差(?:(?P<zhtoquarter>一刻)|(?P<zhto>" + _ZH + r")分)(?P<zhtohour>" + _ZH + r")点",
        r"(?P<zhhour>" + _ZH + r")[点时](?:(?P<zhhalf>半)|(?P<zhquarter>[一三])刻|"
        r"(?P<zhminute>" + _ZH + r")分|(?P<zhminute2>" + _ZH_TWO + r")|整)?(?!间|候)",
    ),
    "part": (
        rf"(?P<part>morning|afternoon|evening|night){_END}",
        r"(?P<zhpart>凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上|夜里|半夜|午夜|早|晚)",
    ),
}  # fmt: skip
_COMPILED = {
    kind: tuple(re.compile(form, re.IGNORECASE) for form in forms)
    for kind, forms in _ELEMENTS.items()
}
# A plain number is an hour if a day or "at" precedes it.
_BARE = re.compile(
    rf"(?P<bare>[01]?\d|2[0-4]|{HOUR})(?=$|[\s,;:])"
    r"(?!\s*(?:%|(?:times|people|minutes?|mins?|hours?|days?|weeks?|months?|years?)\b))",
    re.IGNORECASE,
)


@dataclass(slots=True)
class TimePhrase:
    """Elements of a phrase.

    `time` is (hour, minute), where hour 24 is the midnight that ends the day; `repeats` is the end
    of a cron line. Otherwise a day: `days` from today, the next `weekday` (Monday is 0) or that
    weekday in `weeks`, or a date. A time that has passed moves by `wraps_days`. `slash_date` is an
    ambiguous date as written.
    """

    end: int = 0
    time: tuple[int, int] | None = None
    part: str | None = None
    repeats: str | None = None
    days: int = 0
    weekday: int | None = None
    weeks: int | None = None
    day: int | None = None
    month: int | None = None
    year: int | None = None
    wraps_days: int = 0
    note: str = ""
    slash_date: str = ""

    @property
    def clock(self) -> tuple[int, int]:
        return self.time or (_PARTS[self.part or "morning"], 0)


def read_phrase(text: str, start: int, *, times_only: bool = False) -> TimePhrase | None:
    """Read the phrase at `start`; return None if there is none or it specifies no time."""
    phrase, kinds = TimePhrase(end=start), set[str]()
    literal = False
    while True:
        link = _LINK.match(text, phrase.end)
        assert link is not None, "it may be empty"
        part = _next(text, link, kinds, times_only=times_only)
        if part is None:
            break
        kind, match = part
        if match.start() == phrase.end > start and text[phrase.end - 1 : phrase.end + 1].isascii():
            break  # a word does not end in the middle of another
        kinds.add(kind)
        literal |= _take(phrase, kind, match)
        phrase.end = match.end()
    if not kinds or (kinds == {"part"} and not times_only):
        return None
    return _complete(phrase, kinds, literal)


def _next(
    text: str, link: re.Match[str], kinds: set[str], *, times_only: bool
) -> tuple[str, re.Match[str]] | None:
    for kind, forms in _COMPILED.items():
        if kind in kinds or (times_only and kind not in ("time", "part")):
            continue
        if (kind == "day" and "repeat" in kinds) or (kind == "repeat" and "day" in kinds):
            continue
        for form in forms:
            match = form.match(text, link.end()) or form.match(text, link.start("word"))
            # "9am sun cream": after a time, an abbreviated day must be a whole word.
            if match and not (kinds and not link["word"] and _is_slight(match)):
                return kind, match
    if "time" in kinds or not (kinds or link["word"] == "at" or times_only):
        return None
    bare = _BARE.match(text, link.end())
    return ("time", bare) if bare else None


def _is_slight(match: re.Match[str]) -> bool:
    """Return whether a day could also be ordinary text: "sun", "1/2"."""
    parts = match.groupdict()
    name, number = parts.get("weekday"), parts.get("slash1")
    if name:
        return name.lower() not in _FULL_DAYS
    return number is not None and not parts["y6"] and len(match[0]) < len("1/12")


def _take(phrase: TimePhrase, kind: str, match: re.Match[str]) -> bool:
    """Add an element to the phrase; return whether it is an hour without a half of the day."""
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    if kind == "repeat":
        _take_repeat(phrase, parts)
    elif kind == "day":
        _take_day(phrase, parts)
    elif kind == "part":
        phrase.part = parts["part"].lower() if "part" in parts else _ZH_PARTS[parts["zhpart"]]
    else:
        return _take_time(phrase, parts)
    return False


def _take_repeat(phrase: TimePhrase, parts: dict[str, str]) -> None:
    names = parts.get("days") or parts.get("plural") or parts.get("weekly")
    if names:
        weekdays = [weekday(name) for name in re.split(_AND, names, flags=re.IGNORECASE)]
        phrase.repeats = f"* * {','.join(str((day + 1) % 7) for day in weekdays)}"
    elif "zhdays" in parts:
        letters = re.findall(r"[一二三四五六日天]", re.sub("星期|礼拜|周", "", parts["zhdays"]))
        days = [_ZH_DAYS.index(day.replace("天", "日")) for day in letters]
        phrase.repeats = f"* * {','.join(str((day + 1) % 7) for day in days)}"
    elif "weekdays" in parts or "zhweekdays" in parts:
        phrase.repeats = "* * 1-5"
    elif "weekends" in parts or "zhweekends" in parts:
        phrase.repeats = "* * 0,6"
    elif day := parts.get("monthly") or parts.get("zhmonthly"):
        phrase.repeats = f"{number_of(day)} * *"
    else:
        phrase.repeats = "* * *"
    if part := parts.get("dailypart"):
        phrase.part = part.lower()
    elif part := parts.get("zhdailypart"):
        phrase.part = _ZH_PARTS[part]


def _take_day(phrase: TimePhrase, parts: dict[str, str]) -> None:
    if near := parts.get("near"):
        phrase.days = 1 if near.lower() in ("tomorrow", "tmrw") else 0
        phrase.part = "night" if near.lower() == "tonight" else phrase.part
    elif part := parts.get("thispart"):
        phrase.part = part.lower()
    elif "after" in parts:
        phrase.days = 2
    elif near := parts.get("zhnear"):
        phrase.days = {"明": 1, "后": 2, "大": 3}.get(near[0], 0)
        phrase.part = {"早": "morning", "晚": "evening"}.get(near[-1], phrase.part)
    elif name := parts.get("named") or parts.get("weekday"):
        phrase.weekday = weekday(name)
        phrase.wraps_days = 7
        if parts.get("which", "").lower() == "next":
            phrase.weeks, phrase.wraps_days = 1, 0
            phrase.note = t("“next {day}” is read as the one next week", day=name)
    elif name := parts.get("zhday"):
        phrase.weekday = _ZH_DAYS.index(name[-1].replace("天", "日"))
        week = parts.get("zhweek")
        phrase.weeks = None if week is None else len(week) if week[0] == "下" else 0
        phrase.wraps_days = 7 if week is None else 0
    else:
        _take_date(phrase, parts)


def _take_date(phrase: TimePhrase, parts: dict[str, str]) -> None:
    if "slash1" in parts:
        _take_slashed(phrase, parts["slash1"], parts["slash2"])
        phrase.year = int(parts["y6"]) if "y6" in parts else None
        return
    month = parts.get("month") or parts.get("month2")
    months = ("isomonth", "dotmonth", "slashmonth", "zhmonth")
    numbered = next((parts[name] for name in months if name in parts), None)
    if month:
        phrase.month = next(
            n for n, form in enumerate(_MONTHS, 1) if re.fullmatch(form, month, re.IGNORECASE)
        )
    elif numbered:
        phrase.month = number_of(numbered)
    names = (
        "slashday",
        "isoday",
        "monthday",
        "daymonth",
        "dotday",
        "ordinal",
        "zhmonthday",
        "zhordinal",
    )
    phrase.day = number_of(next(parts[name] for name in names if name in parts))
    year = next(
        (parts[name] for name in ("year", "y1", "y2", "y3", "y4", "y5") if name in parts), None
    )
    phrase.year = int(year) if year else None


def _take_slashed(phrase: TimePhrase, left: str, right: str) -> None:
    """Set the only possible reading of a slashed date, or the one that is usual here."""
    first, second = int(left), int(right)
    is_month_first = first <= 12 and (second > 12 or month_comes_first())
    phrase.month, phrase.day = (first, second) if is_month_first else (second, first)
    if first <= 12 and second <= 12 and first != second:
        phrase.slash_date = f"{left}/{right}"


def _take_time(phrase: TimePhrase, parts: dict[str, str]) -> bool:
    if point := parts.get("point"):
        phrase.time = (24, 0) if point.lower() == "midnight" else (12, 0)
        return False
    if word := parts.get("zhhour"):
        minute = number_of(parts.get("zhminute") or parts.get("zhminute2") or "0")
        minute = 30 if "zhhalf" in parts else minute
        minute = 15 * number_of(parts["zhquarter"]) if "zhquarter" in parts else minute
        phrase.time = (number_of(word), minute)
        return minute == 0
    if word := parts.get("zhtohour"):
        early = 15 if "zhtoquarter" in parts else number_of(parts["zhto"])
        phrase.time = _minutes_before(number_of(word), early)
        return False
    half = next((parts[name] for name in parts if name.startswith("half")), None)
    word = next(
        parts[name]
        for name in (
            "hour",
            "hour12",
            "clock",
            "pasthour",
            "tohour",
            "wordhour",
            "wordhour2",
            "bare",
        )
        if name in parts
    ).lower()
    hour = _HOURS.index(word) + 1 if word in _HOURS else int(word)
    if half and 0 < hour <= 12:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    minutes_text = (parts.get("past") or parts.get("wordminute") or "").lower()
    minute = _MINUTES[minutes_text] if minutes_text else int(parts.get("minute", 0))
    phrase.time = (hour, minute)
    if "to" in parts:
        phrase.time = _minutes_before(hour, _MINUTES[parts["to"].lower()])
    return not half and not minute and "minute" not in parts and "to" not in parts


def _minutes_before(hour: int, minutes: int) -> tuple[int, int]:
    """Return the time that many minutes before an hour; before midnight means the evening."""
    total_minutes = hour * 60 - minutes + (1440 if hour * 60 < minutes else 0)
    return total_minutes // 60, total_minutes % 60


def _complete(phrase: TimePhrase, kinds: set[str], literal: bool) -> TimePhrase | None:
    """Apply the part of the day to the time; return None if they are contradictory."""
    has_day = bool(kinds & {"day", "repeat"})
    if phrase.time is None:
        is_today = "day" in kinds and not phrase.days and phrase.weekday is phrase.day is None
        if is_today and phrase.part is None:
            return None
        if phrase.part is None:
            phrase.note = phrase.note or t("no time given: using 09:00")
    else:
        hour, minute = phrase.time
        if phrase.part in _LATE and hour < 12 and not (phrase.part == "noon" and hour > 9):
            hour += 12
        elif phrase.part in ("evening", "night", "midnight") and hour == 12:
            hour = 24
        elif literal and phrase.part is None and 0 < hour < 7:
            phrase.note = phrase.note or t(
                "{hour} is read as {hour:02}:00; for the afternoon, write {afternoon}:00",
                hour=hour,
                afternoon=hour + 12,
            )
        if hour > 24 or minute > 59 or (hour == 24 and minute):
            return None
        phrase.time = (hour, minute)
    if not has_day:
        phrase.wraps_days = 1
    return phrase


def weekday(name: str) -> int:
    stem = name.strip().lower().removesuffix("s") if len(name) > 5 else name.strip().lower()
    return next(n for n, full in enumerate(_FULL_DAYS) if full.startswith(stem[:3]))


def number_of(text: str) -> int:
    """Return a number up to 99 written in digits or in Chinese."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return int("".join(str(_ZH_DIGITS[digit]) for digit in text))
    return (_ZH_DIGITS[tens] if tens else 1) * 10 + (_ZH_DIGITS[ones] if ones else 0)
