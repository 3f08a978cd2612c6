"""Text about jobs for the chat, the terminal and the model."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from agent.i18n import mark_for_translation, t
from gateway.core.timezones import is_zone, zone_of
from gateway.store.port import Transaction
from gateway.store.repositories import jobs
from gateway.store.repositories.jobs import Job, Slot

_MAX_TITLE_CHARS = 50
_USUAL = re.compile(
    r"(?P<minute>\d\d?) (?P<hour>\d\d?) (?:(?P<monthday>\d\d?) \* \*"
    r"|\* \* (?P<days>\*|1-5|[0-7](?:,[0-7])*))"
)
_DAYS = (
    mark_for_translation("Sunday"),
    mark_for_translation("Monday"),
    mark_for_translation("Tuesday"),
    mark_for_translation("Wednesday"),
    mark_for_translation("Thursday"),
    mark_for_translation("Friday"),
    mark_for_translation("Saturday"),
)

_MONTHS = (
    mark_for_translation("January"),
    mark_for_translation("February"),
    mark_for_translation("March"),
    mark_for_translation("April"),
    mark_for_translation("May"),
    mark_for_translation("June"),
    mark_for_translation("July"),
    mark_for_translation("August"),
    mark_for_translation("September"),
    mark_for_translation("October"),
    mark_for_translation("November"),
    mark_for_translation("December"),
)


def title(job: Job) -> str:
    """Return the job's text in one line."""
    line = " ".join(job.message.content.split())
    return line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1]}…"


def local_time(at: float, zone: str) -> str:
    """Format a time in `zone`, or in UTC if the zone is unknown, so that lists show every job."""
    here = zone_of(zone) if is_zone(zone) else UTC
    return datetime.fromtimestamp(at, here).strftime("%Y-%m-%d %H:%M %Z")


def describe_recurrence(job: Job) -> str:
    kind, _, spec = job.rule.partition(" ")
    if kind == "at":
        return t("once")
    if kind == "cron":
        return f"{_cron_in_words(spec)} ({job.zone})"
    if kind == "days":
        return f"{_days_in_words(spec)} ({job.zone})"
    seconds = int(spec)
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds % length == 0:
            return t("every {n} {unit}", n=seconds // length, unit=unit)
    return t("every {n} {unit}", n=seconds, unit="s")


def day_in_words(day: date) -> str:
    return t("{day} {month}", day=day.day, month=t(_MONTHS[day.month - 1]))


def _days_in_words(spec: str) -> str:
    days, first, time = spec.split()
    if int(days) % 7:
        return t("every {n} days at {time}", n=days, time=time)
    day = t(_DAYS[date.fromisoformat(first).isoweekday() % 7])
    return t("every {n} weeks on {day} at {time}", n=int(days) // 7, day=day, time=time)


def _cron_in_words(spec: str) -> str:
    """Return common cron lines in words, any other line unchanged."""
    match = _USUAL.fullmatch(spec)
    if match is None:
        return spec
    time = f"{int(match['hour']):02}:{int(match['minute']):02}"
    if day := match["monthday"]:
        return t("monthly on day {day} at {time}", day=day, time=time)
    if match["days"] == "*":
        return t("daily at {time}", time=time)
    if match["days"] == "1-5":
        return t("weekdays at {time}", time=time)
    days = t(", ").join(t(_DAYS[int(day) % 7]) for day in match["days"].split(","))
    return t("every {days} at {time}", days=days, time=time)


def line(tx: Transaction, job: Job, escape: Callable[[str], str] = str) -> str:
    """Return a list entry: number, text, rule, next slot and the latest result.

    `escape` makes it safe for markdown.
    """
    details = [describe_recurrence(job)]
    if job.state == "on" and job.slot_at is not None:
        details.append(t("next {when}", when=local_time(job.slot_at, job.zone)))
        if job.is_postponed and job.due_at is not None:
            details.append(t("held until {when}", when=local_time(job.due_at, job.zone)))
    elif job.state != "done":
        details.append(f"{_state(job)}: {job.reason}" if job.reason else _state(job))
    if last := last_time(tx, job):
        details.append(t("last {when}", when=last))
    sign = {"reminder": "⏰", "prompt": "▶", "heartbeat": "♥"}[job.kind]
    text = escape(f"{title(job)}: {', '.join(details)}")
    return f"- {job.id} {sign} {text}"


def last_time(tx: Transaction, job: Job) -> str | None:
    """Return the last due time and the result, or None before the first slot."""
    last = jobs.slots(tx, job, 1)
    return f"{local_time(last[0].at, job.zone)}: {how(last[0])}" if last else None


def how(slot: Slot) -> str:
    """Describe the result of a slot; running and delivery are separate."""
    if slot.state == "missed":
        return t("missed ({why})", why=slot.note) if slot.note else t("missed")
    if slot.state == "waits":
        return t("waiting")
    if slot.state == "runs":
        return t("running")
    ran = t("failed ({why})", why=slot.note) if slot.state == "failed" else t("ran")
    if slot.lost:
        return t("{ran}, not delivered ({why})", ran=ran, why=slot.lost)
    if slot.delivered:
        return t("{ran}, delivered", ran=ran)
    if slot.parts:
        return t("{ran}, not delivered yet", ran=ran)
    return t("{ran}, no message", ran=ran)


def facts(tx: Transaction, job: Job) -> dict[str, Any]:
    """Return a job as JSON data, with times in Unix seconds."""
    return {
        "id": job.id,
        "kind": job.kind,
        "text": job.message.content,
        "title": title(job),
        "rule": job.rule,
        "rule_in_words": describe_recurrence(job),
        "zone": job.zone,
        "catch_up": job.catch_up,
        "urgent": job.is_urgent,
        "own_session": job.has_own_session,
        "state": job.state,
        "reason": job.reason,
        "failures": job.failures,
        "next_at": job.slot_at if job.state == "on" else None,
        "held_until": job.due_at if job.state == "on" and job.is_postponed else None,
        "principal": job.principal,
        "lane": job.route.lane,
        "mode": job.message.options.mode,
        "created_at": job.created_at,
        "slots": [
            {
                "at": slot.at,
                "state": slot.state,
                "note": slot.note,
                "delivered": slot.delivered,
                "not_delivered": slot.lost,
            }
            for slot in jobs.slots(tx, job, 10)
        ],
        "last": last_time(tx, job),
        "line": line(tx, job),
    }


def _state(job: Job) -> str:
    return {"paused": t("paused"), "failed": t("disabled")}.get(job.state, job.state)
