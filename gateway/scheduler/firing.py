"""Start of due jobs, recorded in the transaction that starts them.

A reminder goes to the outbox, a prompt to the inbox. Each is keyed by its slot: it is repeated
after a crash before the commit, but not after the commit.
"""

import logging
import re
from dataclasses import replace

from agent.errors import KoreError
from agent.i18n import plural, t, use_locale
from agent.records import frozen
from gateway.core.link_defusing import quiet
from gateway.core.markdown import escape_markdown
from gateway.core.messages import InboundMessage
from gateway.core.timezones import quiet_until
from gateway.scheduler.heartbeat import has_work
from gateway.scheduler.job_context import FiredJobs, JobContext
from gateway.scheduler.job_text import local_time, title
from gateway.scheduler.recurrence import Recurrence
from gateway.store.port import Transaction
from gateway.store.repositories import jobs
from gateway.store.repositories.conversations import session_admin, sessions
from gateway.store.repositories.delivery import chats, inbox, outbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.jobs import Job

log = logging.getLogger(__name__)

# Delays up to this long count as on time, such as after a start, on a laptop that wakes up, or on a
# busy machine.
ON_TIME_S = 300.0

# Limit on missed slots that are made up when a job catches up on all of them.
MAX_CATCH_UP = 10

_BATCH = 50

# Undelivered runs before a job is paused. Only the latest slots are read; some may have been
# missed.
_MAX_UNDELIVERED = 2
_MAX_SLOTS = 10


@frozen
class _Due:
    """Slots of a job to act on, and the number of missed ones."""

    slots: tuple[int, ...]
    missed_slots: tuple[int, ...]
    is_late: bool


def fire_due(tx: Transaction, context: JobContext, now: float) -> FiredJobs:
    fired = FiredJobs()
    due_jobs = jobs.due(tx, context.open_channels, now, _BATCH)
    for job in due_jobs:
        with use_locale(context.languages.of_route(job.route)):
            try:
                _fire(tx, context, job, now, fired)
            except KoreError as exc:
                _fail(tx, job, exc)
    fired.has_more = len(due_jobs) == _BATCH
    return fired


def fire_now(tx: Transaction, context: JobContext, job: Job, now: float) -> FiredJobs:
    """Run a job now, regardless of its schedule, quiet hours and an unreachable chat."""
    fired = FiredJobs()
    chats.touch(tx, job.route)
    _begin(tx, context, job, (int(now), ""), now, fired)
    return fired


def shift_clock_back(tx: Transaction, now: float) -> None:
    """Recompute waiting times after the clock was set back.

    A job is moved only if its next slot is now earlier than the stored one.
    """
    for job in jobs.listed(tx, None, None):
        if job.state != "on" or job.slot_at is None or job.slot_at <= now:
            continue
        try:
            slot = Recurrence.from_stored(job.rule, job.zone).after(now, job.created_at)
        except KoreError as exc:
            _fail(tx, job, exc)
            continue
        if slot is not None and slot < job.slot_at:
            jobs.advance(tx, job.id, slot)


def _fail(tx: Transaction, job: Job, why: KoreError) -> None:
    """Fail a job whose rule can no longer be computed, such as an unknown time zone."""
    log.error("job %d is disabled: %s", job.id, why)
    jobs.set_state(tx, job.id, "failed", str(why))


def _fire(tx: Transaction, context: JobContext, job: Job, now: float, fired: FiredJobs) -> None:
    if not context.access.is_allowed(job.message):
        log.warning("job %d is paused: %s no longer has access", job.id, job.principal)
        jobs.set_state(tx, job.id, "paused", t("its creator no longer has access"))
        return
    assert job.slot_at is not None, "what is due has a slot"
    rule = Recurrence.from_stored(job.rule, job.zone)
    zone, hours = jobs.clock_of(tx, job.route)
    zone = zone or context.schedule.zone or job.zone
    until = None
    if not job.is_urgent:
        until = quiet_until(hours or context.schedule.quiet_hours, zone, now)
    if until is not None and job.kind != "heartbeat":
        jobs.hold(tx, job.id, until)
        return
    slots_due = _choose_slots(job, rule, now)
    for slot in slots_due.missed_slots:
        jobs.begin(tx, job, slot, "missed", now)
    if until is None and not _is_idle(context, job):
        for slot in slots_due.slots:
            lateness = _lateness(slots_due, slot, job.zone)
            _begin(tx, context, job, (slot, lateness), now, fired)
        if slots_due.missed_slots and not slots_due.slots:
            _notify_missed(tx, context, job, slots_due, now, fired)
    jobs.advance(tx, job.id, rule.after(max(now, job.slot_at), job.created_at))


def _choose_slots(job: Job, rule: Recurrence, now: float) -> _Due:
    """Return the slots to run by the job's catch-up rule: none that are late, one, or all."""
    assert job.slot_at is not None, "what is due has a slot"
    slots = rule.slots(job.slot_at, now, job.created_at, MAX_CATCH_UP)
    is_late = now - slots[-1] > ON_TIME_S
    if job.catch_up == "all":
        return _Due(tuple(slots), (), is_late)
    # A slot that quiet hours postponed is not late, even if the rule skips late slots.
    if job.catch_up == "skip" and is_late and not job.is_postponed:
        return _Due((), tuple(slots), is_late)
    return _Due((slots[-1],), tuple(slots[:-1]), is_late)


def _begin(
    tx: Transaction,
    context: JobContext,
    job: Job,
    slot_with_lateness: tuple[int, str],
    now: float,
    fired: FiredJobs,
) -> None:
    """Run a slot, with a sentence about its lateness."""
    slot, late = slot_with_lateness
    if job.kind != "reminder" and jobs.is_under_way(tx, job):
        if jobs.begin(tx, job, slot, "missed", now):
            jobs.ended(tx, job.id, slot, "missed", t("the previous run was still in progress"))
        return
    if _pause_if_unreachable(tx, context, job, now, fired):
        return
    if not jobs.begin(tx, job, slot, "ran" if job.kind == "reminder" else "begun", now):
        return
    if job.kind == "reminder":
        if _is_unheard(tx, context, job, now):
            return
        text = quiet(f"⏰ {job.message.content}", job.taint) + (f"\n\n{late}" if late else "")
        parts = context.renderer.render(job.route, text)
        reply = OutgoingReply(job.event(slot), job.route, parts, "notice", taint=job.taint)
        outbox.put(tx, None, [reply], now)
        fired.mail_lanes.add(job.route.lane)
        return
    _ask(tx, job, slot, late, now)
    fired.lanes.add(job.lane)


def _ask(tx: Transaction, job: Job, slot: int, late: str, now: float) -> None:
    """Queue the message that the job's turn answers, in the chat's session or a separate one."""
    chat, session = job.route.lane, None
    sessions.unbind(tx, job.lane)
    if not job.has_own_session:
        session = sessions.bound_session(tx, chat)
        if session is None:
            session = sessions.create_session(tx, job.principal, now, lane=chat)
        elif session_admin.status_of(tx, session) != "open":
            session = None
    message = job.message
    content = f"{message.content}\n\n{late}" if late else message.content
    options = replace(message.options, session=session or message.options.session)
    question = message.derive(
        "job", job.event(slot), content, now, options=options, job=job.id, lane=job.lane
    )
    inbox.accept(tx, InboxBatch(question.channel, question.account, now), [InboxEntry(question)])


def _pause_if_unreachable(
    tx: Transaction, context: JobContext, job: Job, now: float, fired: FiredJobs
) -> bool:
    """Pause a job whose latest runs did not reach its chat, and notify the owner."""
    runs = [slot for slot in jobs.slots(tx, job, _MAX_SLOTS) if slot.state != "missed"]
    last = runs[:_MAX_UNDELIVERED]
    is_lost = len(last) == _MAX_UNDELIVERED and all(slot.lost for slot in last)
    if not is_lost or not chats.is_unreachable(tx, job.route):
        return False
    log.warning("job %d is paused: %d runs did not reach %s", job.id, len(last), job.route.lane)
    jobs.set_state(tx, job.id, "paused", t("its message could not be delivered"))
    owner_id = context.access.owner_id
    owner = chats.private_route(tx, owner_id) if owner_id is not None else None
    if owner is None or owner == job.route:
        return True
    with use_locale(context.languages.of_route(owner)):
        text = t(
            "⚠️ Job {job}, {title}, is paused: its last two runs did not reach the chat {chat}. "
            "`/cron resume {job}` starts it again.",
            job=job.id,
            title=escape_markdown(title(job)),
            chat=job.route.chat_id,
        )
        parts = context.renderer.render(owner, quiet(text, job.taint))
    name = f"cron:{job.id}:paused:{now!r}"
    outbox.put(tx, None, [OutgoingReply(name, owner, parts, "notice", taint=job.taint)], now)
    fired.mail_lanes.add(owner.lane)
    return True


def _is_unheard(tx: Transaction, context: JobContext, job: Job, now: float) -> bool:
    """Return whether a reminder has failed too often and is no longer sent."""
    last = jobs.slots(tx, job, 2)[1:]
    failures = jobs.count_failure(tx, job.id, failed=bool(last and last[0].lost))
    if failures < context.schedule.max_failures:
        return False
    log.warning("job %d is disabled: %d reminders were not delivered", job.id, failures)
    jobs.set_state(tx, job.id, "failed", t("its message could not be delivered"))
    return True


def _notify_missed(
    tx: Transaction, context: JobContext, job: Job, slots_due: _Due, now: float, fired: FiredJobs
) -> None:
    n = len(slots_due.missed_slots)
    text = plural(
        n,
        "⏰ Missed while I was not running: job {job}, {title}, due {when}.",
        "⏰ Missed while I was not running: job {job}, {title}, {n} times, last due {when}.",
        job=job.id,
        title=escape_markdown(title(job)),
        when=local_time(slots_due.missed_slots[-1], job.zone),
    )
    parts = context.renderer.render(job.route, text)
    name = f"{job.event(slots_due.missed_slots[-1])}:missed"
    reply = OutgoingReply(name, job.route, parts, "notice", taint=job.taint)
    outbox.put(tx, None, [reply], now)
    fired.mail_lanes.add(job.route.lane)


def _is_idle(context: JobContext, job: Job) -> bool:
    """Return whether the job is a heartbeat with nothing to do, which needs no model."""
    return job.kind == "heartbeat" and not has_work(context.workspace)


def _lateness(slots_due: _Due, slot: int, zone: str) -> str:
    """Return the sentence about a slot that did not run on time."""
    if not slots_due.is_late and slot == slots_due.slots[-1] and not slots_due.missed_slots:
        return ""
    if slot != slots_due.slots[-1] or not slots_due.missed_slots:
        return t("(was due {when})", when=local_time(slot, zone))
    return plural(
        len(slots_due.missed_slots),
        "(was due {when}; {n} before it was missed)",
        "(was due {when}; {n} before it were missed)",
        when=local_time(slot, zone),
    )


# Reply of a model that has nothing to report, with any formatting.
_SILENT = re.compile(r"[*_`\"]*\bHEARTBEAT(?:\\?_| )OK\b[*_`\"]*[.!]?")

# A reply that contains the word and at most this much else still means "nothing".
_SILENT_CHARS = 120

_NOTE_CHARS = 200


def is_silent(text: str) -> bool:
    """Return whether a job's answer says that there is nothing to report."""
    if not text.strip(" \n\t*_`.!"):
        return True
    return _SILENT.search(text) is not None and len(without_silent_word(text)) <= _SILENT_CHARS


def without_silent_word(text: str) -> str:
    return _SILENT.sub("", text).strip() if "HEARTBEAT" in text else text


def record_result(
    tx: Transaction, context: JobContext, message: InboundMessage, failed: str, now: float
) -> None:
    assert message.job is not None, "the message of a job"
    slot = int(message.event_id.rpartition(":")[2])
    note = " ".join(failed.split())[:_NOTE_CHARS]
    jobs.ended(tx, message.job, slot, "failed" if failed else "ran", note)
    failures = jobs.count_failure(tx, message.job, failed=bool(failed))
    job = jobs.find(tx, message.job)
    limit = context.schedule.max_failures
    if job is None or job.state != "on" or failures < limit:
        return
    log.warning("job %d is disabled: it failed %d times in a row", job.id, failures)
    jobs.set_state(
        tx, job.id, "failed", plural(failures, "it failed", "it failed {n} times in a row")
    )
    text = plural(
        failures,
        "⚠️ Job {job}, {title}, failed and was disabled. `/cron resume {job}` enables it again.",
        "⚠️ Job {job}, {title}, failed {n} times in a row and was disabled. `/cron "
        "resume {job}` enables it again.",
        job=job.id,
        title=escape_markdown(title(job)),
    )
    parts = context.renderer.render(message.route, text)
    name = f"{message.event_id}:off"
    reply = OutgoingReply(name, message.route, parts, "notice", taint=job.taint)
    outbox.put(tx, None, [reply], now)
