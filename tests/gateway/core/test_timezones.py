"""Effective time zone of a person, and quiet hours."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gateway.core.timezones import is_zone, own_zone, quiet_until, zone_in_file

BERLIN = ZoneInfo("Europe/Berlin")


def at(day: int, hour: int, minute: int = 0, month: int = 11) -> float:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN).timestamp()


def quiet(now: float, hours: str | None = "22:00-07:00") -> str | None:
    until = quiet_until(hours, "Europe/Berlin", now)
    return until and datetime.fromtimestamp(until, BERLIN).strftime("%d %H:%M")


def test_quiet_hours_may_span_midnight() -> None:
    assert quiet(at(21, 21, 59)) is None
    assert quiet(at(21, 22)) == "22 07:00"
    assert quiet(at(22, 6, 59)) == "22 07:00"
    assert quiet(at(22, 7)) is None
    assert quiet(at(22, 12, 30), "12:00-13:00") == "22 13:00"
    assert quiet(at(21, 23), "off") is None
    assert quiet(at(21, 23), None) is None


def test_quiet_hours_follow_clock_changes() -> None:
    assert quiet(at(24, 23, month=10)) == "25 07:00"
    assert quiet(at(28, 23, month=3)) == "29 07:00"


def test_user_md_may_name_the_time_zone(tmp_path: Path) -> None:
    file = tmp_path / "USER.md"
    assert zone_in_file(file) is None
    file.write_text("# Me\n\n- **Timezone:** `Asia/Shanghai`\n")
    assert zone_in_file(file) == "Asia/Shanghai"
    file.write_text("- Place and time zone: Berlin, Europe/Berlin\n")
    assert zone_in_file(file) == "Europe/Berlin"
    file.write_text("时区：Asia/Taipei\n")
    assert zone_in_file(file) == "Asia/Taipei"
    file.write_text("Timezone: the usual\n")
    assert zone_in_file(file) is None


def test_machine_has_a_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_zone(own_zone())
    monkeypatch.setenv("TZ", ":America/New_York")
    assert own_zone() == "America/New_York"
    monkeypatch.setenv("TZ", "Nowhere/Land")
    assert is_zone(own_zone())
