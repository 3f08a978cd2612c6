"""Slots of recurrence rules."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agent.errors import KoreError
from gateway.scheduler.recurrence import Recurrence
from gateway.scheduler.time_parser import parse_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 20, 0, tzinfo=BERLIN).timestamp()


def local(instant: int | None, zone: str = "Europe/Berlin") -> str:
    assert instant is not None
    return datetime.fromtimestamp(instant, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %Z")


@pytest.mark.parametrize(
    ("text", "rest", "slot"),
    [
        ("in 20m tea", "tea", "2026-11-21 20:20 CET"),
        ("in 1 hour 30 minutes: x", "x", "2026-11-21 21:30 CET"),
        ("every 2h stretch", "stretch", "2026-11-21 22:00 CET"),
        ("every hour go", "go", "2026-11-21 21:00 CET"),
        ("daily 09:00 stand-up", "stand-up", "2026-11-22 09:00 CET"),
        ("weekdays at 9:30 x", "x", "2026-11-23 09:30 CET"),
        ("2026-11-22 09:00 call mum", "call mum", "2026-11-22 09:00 CET"),
        ("2026-11-22T09:00Z call", "call", "2026-11-22 10:00 CET"),
        ("tomorrow 9:00 x", "x", "2026-11-22 09:00 CET"),
        ("19:00 x", "x", "2026-11-22 19:00 CET"),
        ("at 21:30: x", "x", "2026-11-21 21:30 CET"),
        ("09:00 and/or later", "and/or later", "2026-11-22 09:00 CET"),
        ("0 9 * * 1-5 stand up", "stand up", "2026-11-23 09:00 CET"),
        ("0 9 * * MON#1 first", "first", "2026-12-07 09:00 CET"),
        ("every monday 09:00 Europe/London x", "x", "2026-11-23 10:00 CET"),
    ],
)
def test_time_at_the_start_of_a_text_is_parsed(text: str, rest: str, slot: str) -> None:
    reading = parse_time(text, "Europe/Berlin", NOW)
    assert reading.rest == rest
    assert local(reading.rule.after(NOW, int(NOW))) == slot


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "whenever you like",
            "expected one of 2026-11-22 09:00",
        ),
        ("0 9 31 2 * never", "the cron line '0 9 31 2 *': days of the month must be 1 to 31"),
        ("2026-02-30 09:00 x", "is not a valid date and time"),
        ("every 0m x", "is not a valid duration"),
        ("in 20 times", "found 'in 20 times'"),
    ],
)
def test_invalid_time_is_explained_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(KoreError, match=r"^when: ") as refused:
        parse_time(text, "Europe/Berlin", NOW)
    assert words in str(refused.value)


def slots_from_midnight(line: str, day: str, count: int) -> list[str]:
    """Return the next slots of a cron line, starting at midnight."""
    rule = Recurrence("cron", line, "Europe/Berlin")
    at = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=BERLIN).timestamp() - 1
    results = []
    for _ in range(count):
        slot = rule.after(at, 0)
        assert slot is not None
        results.append(local(slot))
        at = slot
    return results


def test_skipped_hour_runs_right_after_the_gap() -> None:
    assert slots_from_midnight("30 2 * * *", "2026-03-29", 2) == [
        "2026-03-29 03:00 CEST",
        "2026-03-30 02:30 CEST",
    ]
    assert slots_from_midnight("0 * * * *", "2026-03-29", 4) == [
        "2026-03-29 00:00 CET",
        "2026-03-29 01:00 CET",
        "2026-03-29 03:00 CEST",
        "2026-03-29 04:00 CEST",
    ]


def test_daily_time_in_a_repeated_hour_runs_once() -> None:
    assert slots_from_midnight("30 2 * * *", "2026-10-25", 2) == [
        "2026-10-25 02:30 CEST",
        "2026-10-26 02:30 CET",
    ]
    rule = Recurrence("cron", "30 2 * * *", "Europe/Berlin")
    again = datetime(2026, 10, 25, 2, 15, fold=1, tzinfo=BERLIN)
    assert local(rule.after(again.timestamp(), 0)) == "2026-10-26 02:30 CET"


def test_hourly_rule_runs_in_both_repeated_hours() -> None:
    assert slots_from_midnight("30 * * * *", "2026-10-25", 5)[2:] == [
        "2026-10-25 02:30 CEST",
        "2026-10-25 02:30 CET",
        "2026-10-25 03:30 CET",
    ]


def test_instant_in_the_gap_moves_an_hour_and_repeated_instant_is_the_first() -> None:
    gap = parse_time("2026-03-29 02:30 x", "Europe/Berlin", 0).rule
    assert local(gap.after(0, 0)) == "2026-03-29 03:30 CEST"
    twice = parse_time("2026-10-25 02:30 x", "Europe/Berlin", 0).rule
    assert local(twice.after(0, 0)) == "2026-10-25 02:30 CEST"


def test_tomorrow_at_nine_is_at_nine_across_a_clock_change() -> None:
    eve = datetime(2026, 10, 24, 20, 0, tzinfo=BERLIN).timestamp()
    rule = parse_time("tomorrow 9:00 x", "Europe/Berlin", eve).rule
    assert local(rule.after(eve, 0)) == "2026-10-25 09:00 CET"


def test_interval_stays_aligned_with_its_anchor() -> None:
    rule = Recurrence("every", "600", "UTC")
    assert rule.after(1_000, anchor=1_000) == 1_600
    assert rule.after(1_599.5, anchor=1_000) == 1_600
    assert rule.after(5_000, anchor=1_000) == 5_200
    assert rule.slots(1_600, 5_000, 1_000, limit=3) == [3_400, 4_000, 4_600]


def test_newest_missed_slots_are_returned() -> None:
    rule = Recurrence("cron", "0 * * * *", "UTC")
    assert rule.slots(3_600, 5 * 3_600 + 10, 0, limit=2) == [4 * 3_600, 5 * 3_600]
    assert Recurrence("at", "3600", "UTC").slots(3_600, 9_999, 0, limit=10) == [3_600]
    minutely = Recurrence("cron", "* * * * *", "UTC")
    assert len(minutely.slots(0, 400 * 86_400, 0, limit=10)) == 10


def test_shortest_interval_of_a_rule() -> None:
    assert Recurrence("cron", "0,5 9 * * *", "UTC").shortest_s(NOW) == 300
    assert Recurrence("every", "90", "UTC").shortest_s(NOW) == 90
    assert Recurrence("at", str(int(NOW) + 5), "UTC").shortest_s(NOW) == float("inf")
