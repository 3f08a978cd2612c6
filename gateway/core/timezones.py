"""Time zones by their IANA names, and hours of the day in them."""

import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from agent.errors import KoreError
from agent.i18n import current_locale, t

QUIET = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*[-–]\s*([01]?\d|2[0-3]):([0-5]\d)")
_NAMED = re.compile(
    r"(?im)^[^\n:：]{0,40}(?:time\s?zone|时区|時區)[*_ ]*[:：][^\n]{0,80}?"
    r"\b(UTC|[A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+)"
)
_READ_CHARS = 20_000


def zone_of(name: str) -> ZoneInfo:
    """Return the zone; raises `KoreError` for an unknown name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as exc:
        raise KoreError(
            t("unknown time zone {name!r}; expected one such as Europe/Berlin", name=name[:60])
        ) from exc


def is_zone(name: str) -> bool:
    try:
        zone_of(name)
    except KoreError:
        return False
    return True


def own_zone() -> str:
    """Return the name of the machine's zone."""
    if is_zone(name := os.environ.get("TZ", "").lstrip(":")) and name:
        return name
    try:
        _, separator, name = os.readlink("/etc/localtime").partition("zoneinfo/")
    except OSError:
        separator, name = "", ""
    return name if separator and is_zone(name) else "UTC"


def zone_in_file(file: Path) -> str | None:
    """Return the zone that a USER.md names in a line such as `Timezone: Europe/Berlin`."""
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            match = _NAMED.search(text.read(_READ_CHARS))
    except OSError:
        return None
    return match[1] if match and is_zone(match[1]) else None


def quiet_until(hours: str | None, zone: str, now: float) -> float | None:
    """Return the end of the current quiet hours ("22:00-07:00"), or None."""
    match = QUIET.fullmatch(hours or "")
    if match is None:
        return None
    here = datetime.fromtimestamp(now, zone_of(zone))
    begin, end = _at(here, match[1], match[2]), _at(here, match[3], match[4])
    if begin <= end:
        inside = begin <= here < end
    else:
        inside = here >= begin or here < end
        if here >= begin:
            end = _at(here + timedelta(days=1), match[3], match[4])
    return end.timestamp() if inside else None


def _at(day: datetime, hour: str, minute: str) -> datetime:
    return day.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0, fold=0)


def month_comes_first() -> bool:
    """Return whether 12/05 is usually a day in December: in Chinese, and by an American locale."""
    variables = ("LC_ALL", "LC_TIME", "LANG")
    locale = next((os.environ[name] for name in variables if os.environ.get(name)), "")
    return current_locale().startswith("zh") or locale.startswith(("en_US", "zh", "ja", "ko"))
