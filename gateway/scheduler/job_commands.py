"""Requests about jobs from people, the terminal and the model, each inside one transaction."""

import re
import time
from dataclasses import replace
from typing import Any

from agent.errors import KoreError, ToolError
from agent.i18n import ENGLISH, mark_for_translation, t, use_locale
from agent.security.taint.taint import PRIVATE
from agent.types import ToolResult
from gateway.core.markdown import escape_markdown
from gateway.core.messages import InboundMessage
from gateway.core.records import JobChange, NewJob
from gateway.core.timezones import QUIET, zone_of
from gateway.scheduler import job_editor, job_text
from gateway.scheduler.firing import fire_now
from gateway.scheduler.job_context import JobNotifier
from gateway.scheduler.job_editor import JobAuthor, JobRequest
from gateway.store.port import Transaction
from gateway.store.repositories import jobs
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.conversations.session_marks import taint_of_text
from gateway.store.repositories.execution import turns
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.jobs import CATCH_UPS, Job

# Phones turn two hyphens into one dash.
_FLAG = re.compile(r"(?:--|[—–])(urgent|own|zone|catch-up)(?:[= ]([\w/+-]+))?\s*")
_OPTION = re.compile(r"(?:--|[—–])[a-z][\w-]*")
_MAX_BUTTON_JOBS = 8
_CHANGES = ("remove", "pause", "resume")
_HOW = mark_for_translation(
    "`/cron add WHEN TEXT` sets a reminder, `/cron ask WHEN TASK` schedules a task for "
    "me; `/cron remove|pause|resume|run N`, `/cron zone NAME`, `/cron quiet 22:00-07:00`."
)


def handle_chat(
    tx: Transaction,
    notifier: JobNotifier,
    message: InboundMessage,
    argument: str,
    session: str | None,
) -> str:
    """Return the answer to `/cron`."""
    action, _, rest = argument.strip().partition(" ")
    action = action.casefold()
    try:
        if action in ("", "list"):
            return _list(tx, notifier, message)
        if action in ("zone", "quiet"):
            return _set_clock(tx, notifier, message, action, rest.strip())
        if action in ("add", "ask") and rest.strip():
            mode_set = sessions.chosen_mode(tx, session) if session else None
            mode = notifier.context.permissions.mode(message, mode_set)
            author = JobAuthor(message, mode, f"m:{message.channel}:{message.account}:"
                          f"{message.event_id}", time.time())  # fmt: skip
            request = replace(parse_request(rest), is_task=action == "ask")
            answer = job_editor.create_job(tx, notifier.context, author, request)
            tx.after_commit(notifier.notify_changed)
            return escape_markdown(answer)
        if action in (*_CHANGES, "run"):
            number = int(rest) if rest.strip().isdecimal() else None
            job = job_editor.find(tx, notifier.context, message, number)
            return escape_markdown(_change(tx, notifier, job, action))
    except KoreError as exc:
        return t("⚠️ {what}.", what=escape_markdown(f"{str(exc)[:1].upper()}{str(exc)[1:]}"))
    return t(_HOW)


def add_from_cli(tx: Transaction, notifier: JobNotifier, job: NewJob) -> str:
    """Add a job for `kore cron add`, by the owner at the machine. Raises `KoreError`."""
    message = _terminal(tx, notifier)
    mode = notifier.context.permissions.mode(message, None)
    author = JobAuthor(message, mode, f"c:{job.key}", time.time())
    request = JobRequest(
        action="add",
        when=job.when,
        text=job.text,
        is_task=job.is_task,
        urgent=job.urgent,
        own_session=job.own,
        catch_up=job.catch_up,
        zone=job.zone,
    )
    answer = job_editor.create_job(tx, notifier.context, author, request)
    tx.after_commit(notifier.notify_changed)
    return answer


def change_from_cli(tx: Transaction, notifier: JobNotifier, number: int, change: JobChange) -> str:
    """Apply the other actions of `kore cron`. Raises `KoreError` for an unknown job."""
    job = jobs.find(tx, number)
    if job is None:
        raise KoreError(t("there is no job {job} here", job=number))
    return _change(tx, notifier, job, change)


def handle_tool(
    tx: Transaction, notifier: JobNotifier, claim: TurnClaim, request: JobRequest
) -> ToolResult:
    """Apply a tool call of the model on behalf of the speaker. Raises `KoreError`."""
    with use_locale(ENGLISH):
        return _handle_tool(tx, notifier, claim, request)


def _handle_tool(
    tx: Transaction, notifier: JobNotifier, claim: TurnClaim, request: JobRequest
) -> ToolResult:
    message = claim.messages[-1]
    if message.job is not None:
        raise ToolError("A scheduled job cannot create or change jobs: ask the person to do it.")
    if request.action == "list":
        visible_jobs = job_editor.visible(tx, notifier.context, message)
        taint = PRIVATE.union(*(taint_of_text(",".join(job.message.options.taint))
                                for job in visible_jobs))  # fmt: skip
        listing = "\n".join(job_text.line(tx, job) for job in visible_jobs)
        return ToolResult(listing or "There are no jobs.", taint=taint)
    if request.action != "add":
        job = job_editor.find(tx, notifier.context, message, request.number)
        return ToolResult(_change(tx, notifier, job, request.action))
    step = turns.step_of_call(tx, claim.turn, request.call)
    mode = notifier.context.permissions.mode(message, claim.mode)
    author = JobAuthor(message, mode, f"t:{claim.turn}:{step}", time.time(), by_model=True)
    answer = job_editor.create_job(tx, notifier.context, author, request)
    tx.after_commit(notifier.notify_changed)
    return ToolResult(answer)


def all_facts(tx: Transaction) -> list[dict[str, Any]]:
    return [job_text.facts(tx, job) for job in jobs.listed(tx, None, None)]


def parse_request(text: str) -> JobRequest:
    """Parse options, then a time, then the text. Raises `KoreError`."""
    request = JobRequest("add")
    while match := _FLAG.match(text):
        name, value = match[1], match[2] or ""
        if name in ("urgent", "own"):
            # The rest is the time.
            text = text[match.end(1) :].lstrip()
            request = replace(
                request,
                urgent=request.urgent or name == "urgent",
                own_session=request.own_session or name == "own",
            )
            continue
        text = text[match.end() :]
        if name == "zone":
            request = replace(request, zone=zone_of(value).key)
        elif value in CATCH_UPS:
            request = replace(
                request, catch_up=next(choice for choice in CATCH_UPS if choice == value)
            )
        else:
            message = t("--catch-up: found {found!r}, expected skip, once or all", found=value)
            raise KoreError(message)
    if unknown := _OPTION.match(text):
        message = t(
            "unknown option {found!r}; expected --urgent, --own, --zone or --catch-up",
            found=unknown[0][:40],
        )
        raise KoreError(message)
    return replace(request, when=text)


def choices(
    tx: Transaction, notifier: JobNotifier, message: InboundMessage
) -> list[tuple[str, str]]:
    """Return labels and arguments of the actions on the first listed jobs."""
    buttons = []
    for job in job_editor.visible(tx, notifier.context, message)[:_MAX_BUTTON_JOBS]:
        if job.state == "on":
            buttons.append((t("Pause {n}", n=job.id), f"pause {job.id}"))
        else:
            buttons.append((t("Resume {n}", n=job.id), f"resume {job.id}"))
        buttons.append((t("Remove {n}", n=job.id), f"remove {job.id}"))
    return buttons


def _list(tx: Transaction, notifier: JobNotifier, message: InboundMessage) -> str:
    visible_jobs = job_editor.visible(tx, notifier.context, message)
    lines = [job_text.line(tx, job, escape_markdown) for job in visible_jobs]
    zone = job_editor.zone_for(tx, notifier.context, message)
    _, hours = jobs.clock_of(tx, message.route)
    hours = hours or notifier.context.schedule.quiet_hours
    clock = t("Time zone {zone}.", zone=zone)
    if hours and QUIET.fullmatch(hours):
        clock += " " + t("Quiet hours {hours}.", hours=hours)
    return "\n".join([*(lines or [t("There are no jobs here.")]), "", clock, t(_HOW)])


def _set_clock(
    tx: Transaction, notifier: JobNotifier, message: InboundMessage, column: str, value: str
) -> str:
    """Set a clock setting of a private chat, or of a group on the owner's request."""
    if not message.private and not notifier.context.access.is_owner(message):
        raise KoreError(t("only the owner can set this for a group"))
    if column == "zone":
        jobs.set_clock(tx, message.route, "zone", zone_of(value).key if value else None)
        return _describe_zone(tx, notifier, message)
    if value and value != "off" and not QUIET.fullmatch(value):
        raise KoreError(t("quiet: found {found!r}, expected 22:00-07:00 or off", found=value[:40]))
    jobs.set_clock(tx, message.route, "quiet", value or None)
    tx.after_commit(notifier.notify_changed)
    hours = value or notifier.context.schedule.quiet_hours or "off"
    return t("Quiet hours {hours}.", hours=hours) if hours != "off" else t("No quiet hours here.")


def _describe_zone(tx: Transaction, notifier: JobNotifier, message: InboundMessage) -> str:
    """Describe the time zone in use, and the jobs that keep the zone in which they were created."""
    zone = job_editor.zone_for(tx, notifier.context, message)
    visible_jobs = job_editor.visible(tx, notifier.context, message)
    older = [
        job
        for job in visible_jobs
        if job.zone != zone
        and job.state in ("on", "paused")
        and job.rule.startswith(("cron ", "days "))
    ]
    sentence = t("Time zone {zone}.", zone=zone)
    if not older:
        return sentence
    lines = [job_text.line(tx, job, escape_markdown) for job in older]
    notice = t(
        "These jobs keep the time zone they were created in; to change one, remove it "
        "and add it again:"
    )
    return "\n".join([sentence, notice, *lines])


def _change(tx: Transaction, notifier: JobNotifier, job: Job, action: str) -> str:
    """Apply an action to a job. Raises `KoreError`."""
    if action == "run":
        fired = fire_now(tx, notifier.context, job, time.time())
        tx.after_commit(lambda: notifier.notify_fired(fired))
        return t("Running job {job} now.", job=job.id)
    if action not in _CHANGES:
        raise KoreError(t("unknown action {action!r}", action=action))
    answer = job_editor.change_job(tx, job, action, time.time())
    tx.after_commit(notifier.notify_changed)
    return answer


def _terminal(tx: Transaction, notifier: JobNotifier) -> InboundMessage:
    """Return a message of the owner at the machine.

    Its route is the owner's private chat, or the next terminal to open.
    """
    owner = notifier.context.access.owner_id
    return job_editor.delivery_route(tx, owner, time.time())
