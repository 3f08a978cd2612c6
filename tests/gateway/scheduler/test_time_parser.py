"""Times in natural language, in English and Chinese."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agent.errors import KoreError
from agent.i18n import use_locale
from gateway.scheduler.time_parser import ParsedTime, parse_time

BERLIN = ZoneInfo("Europe/Berlin")
# A Wednesday.
NOW = datetime(2026, 11, 18, 14, 0, tzinfo=BERLIN).timestamp()


def parse(text: str) -> ParsedTime:
    return parse_time(text, "Europe/Berlin", NOW)


def next_slot(text: str) -> str:
    slot = parse(text).rule.after(NOW, int(NOW))
    return "" if slot is None else datetime.fromtimestamp(slot, BERLIN).strftime("%a %m-%d %H:%M")


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("tomorrow at 9", "Thu 11-19 09:00"),
        ("9am", "Thu 11-19 09:00"),
        ("9:30 pm", "Wed 11-18 21:30"),
        ("12am", "Thu 11-19 00:00"),
        ("friday 17:00", "Fri 11-20 17:00"),
        ("fri 5pm", "Fri 11-20 17:00"),
        ("17:00 on friday", "Fri 11-20 17:00"),
        ("wednesday 13:00", "Wed 11-25 13:00"),
        ("wednesday 15:00", "Wed 11-18 15:00"),
        ("next friday 9:00", "Fri 11-27 09:00"),
        ("tonight at 8", "Wed 11-18 20:00"),
        ("tomorrow morning", "Thu 11-19 09:00"),
        ("the day after tomorrow 10:00", "Fri 11-20 10:00"),
        ("half past nine", "Thu 11-19 09:30"),
        ("at noon", "Thu 11-19 12:00"),
        ("nov 25 10:00", "Wed 11-25 10:00"),
        ("25 nov 10:00", "Wed 11-25 10:00"),
        ("november 3rd at 6pm", "Wed 11-03 18:00"),
        ("25.11. 9:00", "Wed 11-25 09:00"),
        ("the 3rd at 9", "Thu 12-03 09:00"),
        ("in 2 hours", "Wed 11-18 16:00"),
        ("in an hour", "Wed 11-18 15:00"),
        ("in half an hour", "Wed 11-18 14:30"),
        ("in two days at 9", "Fri 11-20 09:00"),
        ("明天9点", "Thu 11-19 09:00"),
        ("明天上午九点半", "Thu 11-19 09:30"),
        ("后天下午3点一刻", "Fri 11-20 15:15"),
        ("今晚8点", "Wed 11-18 20:00"),
        ("晚上12点", "Thu 11-19 00:00"),
        ("两小时后", "Wed 11-18 16:00"),
        ("一个半小时后", "Wed 11-18 15:30"),
        ("半小时后", "Wed 11-18 14:30"),
        ("三十分钟后", "Wed 11-18 14:30"),
        ("兩小時後", "Wed 11-18 16:00"),
        ("周五下午五点", "Fri 11-20 17:00"),
        ("下周一9点", "Mon 11-23 09:00"),
        ("下個禮拜一上午九點", "Mon 11-23 09:00"),
        ("11月25日10点", "Wed 11-25 10:00"),
        ("25号上午10点", "Wed 11-25 10:00"),
        ("明天９：３０", "Thu 11-19 09:30"),
        ("nine thirty", "Thu 11-19 09:30"),
        ("at nine-thirty", "Thu 11-19 09:30"),
        ("tomorrow at nine fifteen pm", "Thu 11-19 21:15"),
        ("seven pm", "Wed 11-18 19:00"),
        ("quarter past nine", "Thu 11-19 09:15"),
        ("a quarter to ten", "Thu 11-19 09:45"),
        ("twenty to nine", "Thu 11-19 08:40"),
        ("five past twelve", "Thu 11-19 12:05"),
        ("half past nine pm", "Wed 11-18 21:30"),
        ("九点半", "Thu 11-19 09:30"),
        ("差一刻九点", "Thu 11-19 08:45"),
        ("25/12 9:00", "Fri 12-25 09:00"),
        ("12/25 at 9", "Fri 12-25 09:00"),
        ("9:00 on 12/25", "Fri 12-25 09:00"),
        ("2026/12/05 9:00", "Sat 12-05 09:00"),
        ("25/12/2026 at 9", "Fri 12-25 09:00"),
    ],
)
def test_single_time(text: str, slot: str) -> None:
    assert parse(text).rule.kind == "at"
    assert next_slot(text) == slot
    assert parse(f"{text} 买 milk").rest == "买 milk"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("daily 9", "cron 0 9 * * *"),
        ("every day at 9:15", "cron 15 9 * * *"),
        ("every morning", "cron 0 9 * * *"),
        ("every monday 9:00", "cron 0 9 * * 1"),
        ("every monday and friday at 5pm", "cron 0 17 * * 1,5"),
        ("mondays at 9", "cron 0 9 * * 1"),
        ("every sunday 9pm", "cron 0 21 * * 0"),
        ("weekdays 8:30", "cron 30 8 * * 1-5"),
        ("every weekend 10:00", "cron 0 10 * * 0,6"),
        ("monthly on the 1st at 9", "cron 0 9 1 * *"),
        ("every 2h", "every 7200"),
        ("每天早上9点", "cron 0 9 * * *"),
        ("每周一9:00", "cron 0 9 * * 1"),
        ("每周一三五18点", "cron 0 18 * * 1,3,5"),
        ("每周一、三、五 18:00", "cron 0 18 * * 1,3,5"),
        ("每个星期天晚上八点", "cron 0 20 * * 0"),
        ("每个工作日早上八点半", "cron 30 8 * * 1-5"),
        ("每月1号9点", "cron 0 9 1 * *"),
        ("每小时", "every 3600"),
        ("每隔2小时", "every 7200"),
        ("every two hours", "every 7200"),
        ("every 2 days", "every 172800"),
        ("every other day at 9", "days 2 2026-11-19 09:00"),
        ("every other day at 3pm", "days 2 2026-11-18 15:00"),
        ("every second day in the morning", "days 2 2026-11-19 09:00"),
        ("every 3rd day at nine thirty", "days 3 2026-11-19 09:30"),
        ("every 2 days at 9", "days 2 2026-11-19 09:00"),
        ("every two days at 9", "days 2 2026-11-19 09:00"),
        ("every second monday", "days 14 2026-11-23 09:00"),
        ("every other wednesday at 15:00", "days 14 2026-11-18 15:00"),
        ("every third friday 9:00", "days 21 2026-11-20 09:00"),
        ("every 2 weeks on monday 9:00", "days 14 2026-11-23 09:00"),
        ("every other week on tuesday at 10", "days 14 2026-11-24 10:00"),
        ("每隔一天九点", "days 2 2026-11-19 09:00"),
        ("隔天早上九点半", "days 2 2026-11-19 09:30"),
        ("每两天九点", "days 2 2026-11-19 09:00"),
        ("每隔两天9点", "days 3 2026-11-19 09:00"),
        ("每隔一周的周一九点", "days 14 2026-11-23 09:00"),
        ("每两周周一9点", "days 14 2026-11-23 09:00"),
        ("隔週星期五下午五點", "days 14 2026-11-20 17:00"),
        ("每周一到周五9点", "cron 0 9 * * 1-5"),
        ("monday to friday 9:00", "cron 0 9 * * 1-5"),
        ("mon-fri 9:00", "cron 0 9 * * 1-5"),
    ],
)
def test_repeating_times(text: str, rule: str) -> None:
    assert str(parse(text).rule) == rule
    assert parse(f"{text}, 喝 tea").rest == "喝 tea"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("明天9点提醒我开会", "提醒我开会"),
        ("每周一9:00周会", "周会"),
        ("9am sun cream", "sun cream"),
        ("tomorrow 9 eggs", "eggs"),
        ("9:00 today's news", "today's news"),
        ("17:00 maybe", "maybe"),
        ("friday 17:00 Asia/Shanghai call", "call"),
        ("tomorrow at 9 3 pills", "3 pills"),
        ("9:00 1/2 cup of tea", "1/2 cup of tea"),
        ("every 2 days 3 pills", "3 pills"),
        ("明天9点3个鸡蛋", "3个鸡蛋"),
        ("每两天3个鸡蛋", "3个鸡蛋"),
    ],
)
def test_time_ends_where_the_text_begins(text: str, rest: str) -> None:
    assert parse(text).rest == rest


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("at 5 x", "5 is read as 05:00; for the afternoon, write 17:00"),
        ("friday x", "no time given: using 09:00"),
        ("next friday 9:00 x", "“next friday” is read as the one next week"),
        ("5pm x", ""),
        ("明天下午5点", ""),
        ("every second monday 9:00", "“every second monday” is read as every two weeks"),
        ("every other day", "no time given: using 09:00"),
        ("每隔两天9点", "“每隔两天” is read as every 3 days"),
    ],
)
def test_ambiguous_time_is_explained(text: str, note: str) -> None:
    assert parse(text).note == note


@pytest.mark.parametrize(
    "text", ["today x", "three times a day", "9 x", "tomorrow25", "at 25:00", "25点", "明", "mayor"]
)
def test_words_that_are_not_a_time_are_rejected_or_part_of_the_text(text: str) -> None:
    with pytest.raises(KoreError, match="when: found"):
        parse(text)


@pytest.mark.parametrize(
    ("language", "locale", "slot", "note"),
    [
        (
            "en",
            "en_GB.UTF-8",
            "Wed 05-12",
            "12/05 is read as 12 May; for 5 December, write 2026-12-05",
        ),
        ("en", "C.UTF-8", "Wed 05-12", "12/05 is read as 12 May; for 5 December, write 2026-12-05"),
        (
            "en",
            "en_US.UTF-8",
            "Sat 12-05",
            "12/05 is read as 5 December; for 12 May, write 2027-05-12",
        ),
        ("zh-Hans", "C.UTF-8", "Sat 12-05", "12/05 视为 12 月 5 日；5 月 12 日请写 2027-05-12"),
    ],
)
def test_slashed_date_is_read_in_the_local_order_and_explained(
    monkeypatch: pytest.MonkeyPatch, language: str, locale: str, slot: str, note: str
) -> None:
    for name in ("LC_ALL", "LC_TIME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", locale)
    with use_locale(language):
        time = parse("12/05 at 9:00 tea")
        assert (next_slot("12/05 at 9:00 tea"), time.rest) == (f"{slot} 09:00", "tea")
        assert time.note == note


@pytest.mark.parametrize(
    "text",
    [
        "every day at 9 and 17 tea",
        "9:00 and 17:00 tea",
        "every day except sunday 9:00 tea",
        "tuesday to friday 9:00 tea",
        "every tue-thu 9:00 tea",
        "tomorrow 9-10 tea",
        "at nine ten people come",
        "at 9 every other day tea",
        "every 2h at 9 tea",
        "every 2h between 9 and 17 tea",
        "9:00 17:00 tea",
        "每天9点和17点喝茶",
        "九点差五分喝茶",
        "每小时9点喝茶",
    ],
)
def test_text_never_begins_with_the_rest_of_a_time(text: str) -> None:
    with pytest.raises(
        KoreError,
        match="looks like part of the time",
    ) as caught:
        parse(text)
    assert "every other day at 9" in str(caught.value)


def test_anything_after_a_colon_is_text() -> None:
    assert parse("tomorrow 9:00: and 17:00 tea").rest == "and 17:00 tea"
    assert parse("明天9点：17点的会").rest == "17点的会"


def test_every_other_day_keeps_its_time_across_a_clock_change() -> None:
    rule = parse("every other day at 9").rule
    spring = datetime(2027, 3, 27, 12, tzinfo=BERLIN).timestamp()
    at, result = spring, []
    for _ in range(3):
        at = rule.after(at, 0) or 0
        result.append(datetime.fromtimestamp(at, BERLIN).strftime("%m-%d %H:%M"))
    assert result == ["03-29 09:00", "03-31 09:00", "04-02 09:00"]
    first = rule.after(NOW, 0)
    assert first is not None
    assert rule.slots(first, first + 5 * 86_400, 0, 10) == [first + n * 172_800 for n in range(3)]


def test_nonexistent_day_is_rejected() -> None:
    with pytest.raises(KoreError, match="is not a valid date and time"):
        parse("february 30 9:00 x")


@pytest.mark.parametrize("text", ["every " * 2000, "周" * 4000, "十" * 4000 + "点", "1" * 4000])
def test_long_input_is_parsed_quickly(text: str) -> None:
    with pytest.raises(KoreError):
        parse(text)
