"""Times in people's words, in English and Chinese."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agent.errors import KoreError
from gateway.schedule.when import Reading, read

BERLIN = ZoneInfo("Europe/Berlin")
# A Wednesday.
NOW = datetime(2026, 11, 18, 14, 0, tzinfo=BERLIN).timestamp()


def understood(text: str) -> Reading:
    return read(text, "Europe/Berlin", NOW)


def next_slot(text: str) -> str:
    slot = understood(text).rule.after(NOW, int(NOW))
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
    ],
)
def test_one_time(text: str, slot: str) -> None:
    assert understood(text).rule.kind == "at"
    assert next_slot(text) == slot
    assert understood(f"{text} 买 milk").rest == "买 milk"


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
    ],
)
def test_again_and_again(text: str, rule: str) -> None:
    assert str(understood(text).rule) == rule
    assert understood(f"{text}, 喝 tea").rest == "喝 tea"


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
    ],
)
def test_the_time_ends_where_the_text_begins(text: str, rest: str) -> None:
    assert understood(text).rest == rest


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("at 5 x", "5 is taken as 05:00; 17:00 is the afternoon"),
        ("friday x", "no time was named: 09:00 is taken"),
        ("next friday 9:00 x", "“next friday” is taken as that of the next week"),
        ("5pm x", ""),
        ("明天下午5点", ""),
    ],
)
def test_what_has_two_meanings_is_told(text: str, note: str) -> None:
    assert understood(text).note == note


@pytest.mark.parametrize(
    "text", ["today x", "three times a day", "9 x", "tomorrow25", "at 25:00", "25点", "明", "mayor"]
)
def test_what_is_no_time_is_refused_or_left_to_the_text(text: str) -> None:
    with pytest.raises(KoreError, match="when: found"):
        understood(text)


def test_a_day_that_there_is_not_is_refused() -> None:
    with pytest.raises(KoreError, match="no date and time that there is"):
        understood("february 30 9:00 x")


@pytest.mark.parametrize("text", ["every " * 2000, "周" * 4000, "十" * 4000 + "点", "1" * 4000])
def test_long_input_is_no_trap(text: str) -> None:
    with pytest.raises(KoreError):
        understood(text)
