"""Creation and changes of jobs, for people who may make them."""

from dataclasses import replace
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import plural, t
from agent.records import frozen
from agent.tools.assistant.schedule import ScheduleTool
from agent.types import Taint
from gateway.core.messages import CONSOLE, ONCE, InboundMessage, MessageOptions, Sender
from gateway.core.timezones import is_zone, own_zone, zone_in_file, zone_of
from gateway.core.token_routes import API
from gateway.scheduler.job_context import JobContext
from gateway.scheduler.job_text import describe_recurrence, local_time, title
from gateway.scheduler.recurrence import Recurrence
from gateway.scheduler.time_parser import parse_time
from gateway.store.port import Transaction
from gateway.store.repositories import jobs
from gateway.store.repositories.delivery import chats
from gateway.store.repositories.jobs import CatchUp, Job

TEXT_LIMIT_CHARS = 4_000
# Options that a terminal chose for a single message, which do not apply to jobs.
_LASTING = (
    *("cwd", "start_folder", "agent", "model", "effort", "allowed_tools", "disallowed_tools"),
    *("max_iterations", "max_cost_usd"),
)


@frozen
class JobRequest:
    """Request to the scheduler. `call` is the model's call; `zone` was named with the time."""

    action: str
    when: str = ""
    text: str = ""
    is_task: bool = False
    urgent: bool = False
    own_session: bool = False
    catch_up: CatchUp = "once"
    zone: str | None = None
    number: int | None = None
    call: str = ""
    taint: frozenset[Taint] = frozenset()


@frozen
class JobAuthor:
    """Future owner of a job: the sender of a message, with the current permission mode."""

    message: InboundMessage
    mode: str
    made_by: str
    now: float
    by_model: bool = False


def create_job(tx: Transaction, context: JobContext, author: JobAuthor, request: JobRequest) -> str:
    """Create a job and return a sentence about it.

    Repeating a call does not create a second job. Raises `KoreError`.
    """
    if existing := jobs.made(tx, author.made_by):
        return describe_new_job(existing)
    if author.message.route.lane.startswith(ONCE):
        # The terminal will be closed when the job runs.
        route_message = delivery_route(tx, context.access.owner_id, author.now)
        author = replace(author, message=route_message)
    zone = request.zone or zone_for(tx, context, author.message)
    zone_of(zone)
    reading = parse_time(request.when, zone, author.now)
    rule, behind = reading.rule, reading.rest
    text = request.text or behind
    if request.text and behind:
        message = t("when: unexpected {behind!r} after the time", behind=behind[:60])
        raise KoreError(message)
    _check(tx, context, author, rule, text)
    began = int(author.now)
    first = rule.after(author.now, began)
    if first is None:
        when = local_time(int(rule.spec), rule.zone) if rule.kind == "at" else rule.spec
        raise KoreError(t("when: {when} is in the past", when=when))
    job = Job(
        id=0,
        made_by=author.made_by,
        kind="prompt" if request.is_task else "reminder",
        message=_template(author, request, text),
        principal=author.message.principal,
        rule=str(rule),
        zone=rule.zone,
        catch_up=request.catch_up,
        is_urgent=request.urgent,
        has_own_session=request.own_session,
        slot_at=first,
        due_at=first,
        created_at=began,
    )
    answer = describe_new_job(jobs.put(tx, job))
    return f"{answer}\n({reading.note})" if reading.note else answer


def describe_new_job(job: Job) -> str:
    """Return the sentence about a new job."""
    assert job.slot_at is not None, "a new job has a slot"
    when = local_time(job.slot_at, job.zone)
    if job.rule.startswith("at "):
        return t("Job {job}: {title}, {when}.", job=job.id, title=title(job), when=when)
    return t(
        "Job {job}: {title}, {rule}, next {when}.",
        job=job.id,
        title=title(job),
        rule=describe_recurrence(job),
        when=when,
    )


def zone_for(tx: Transaction, context: JobContext, message: InboundMessage) -> str:
    """Return the zone of the chat, else of the owner's USER.md, the settings or the machine."""
    own, _ = jobs.clock_of(tx, message.route)
    if own is not None and is_zone(own):
        return own
    profile_zone = None
    if context.access.is_private_owner(message):
        profile_zone = zone_in_file(Path(context.workspace) / "USER.md")
    return profile_zone or context.schedule.zone or own_zone()


def visible(tx: Transaction, context: JobContext, message: InboundMessage) -> list[Job]:
    """Return all jobs for a terminal, a group's jobs in the group, a person's jobs in private."""
    if message.channel == CONSOLE:
        return jobs.listed(tx, None, None)
    if not message.private:
        return jobs.listed(tx, None, message.route)
    return jobs.listed(tx, message.principal, None)


def find(tx: Transaction, context: JobContext, message: InboundMessage, number: int | None) -> Job:
    """Return a job that the speaker may change. Raises `KoreError`.

    In private the owner may change any job, because the owner is notified of jobs paused elsewhere.
    """
    if context.access.is_private_owner(message):
        reachable_jobs = jobs.listed(tx, None, None)
    else:
        reachable_jobs = visible(tx, context, message)
    job = next((job for job in reachable_jobs if job.id == number), None)
    if job is None:
        raise KoreError(t("there is no job {job} here", job=number))
    if job.principal != message.principal and not context.access.is_owner(message):
        raise KoreError(t("job {job} belongs to someone else", job=job.id))
    return job


def change_job(tx: Transaction, job: Job, action: str, now: float) -> str:
    """Remove, pause or resume a job and return a sentence about it."""
    if action == "remove":
        jobs.remove(tx, job)
        return t("Job {job} removed.", job=job.id)
    if action == "pause":
        jobs.set_state(tx, job.id, "paused")
        return t("Job {job} paused.", job=job.id)
    slot = Recurrence.from_stored(job.rule, job.zone).after(now, job.created_at)
    if slot is None:
        raise KoreError(t("job {job} has ended: create a new one", job=job.id))
    jobs.set_state(tx, job.id, "on")
    # There is no notification when a group restores the bot's rights; only another attempt reveals
    # it.
    chats.touch(tx, job.route)
    # Slots missed during the pause were skipped on purpose.
    jobs.advance(tx, job.id, slot)
    return describe_new_job(replace(job, slot_at=slot))


def _check(
    tx: Transaction, context: JobContext, author: JobAuthor, rule: Recurrence, text: str
) -> None:
    """Raise `KoreError` for a job that the owner's limits or the role do not allow."""
    limits, message = context.schedule, author.message
    if message.channel == API:
        raise KoreError(t("nothing can be sent here later: this conversation is over the API"))
    role = context.roles.role(context.access.role(message))
    tool_rule = role.rule(ScheduleTool.name) if role is not None else None
    if tool_rule is None or not tool_rule.allow:
        raise KoreError(t("your role cannot create jobs"))
    if not text:
        raise KoreError(t("the text is missing: write it after the time"))
    if len(text) > TEXT_LIMIT_CHARS:
        raise KoreError(
            t("the text has {n:,} characters; keep it under {most:,}", n=len(text),
              most=TEXT_LIMIT_CHARS)
        )  # fmt: skip
    if jobs.count_of(tx, message.principal) >= limits.max_jobs:
        raise KoreError(
            plural(
                limits.max_jobs,
                "you have reached the limit of {n} job (schedule.max_jobs)",
                "you have reached the limit of {n} jobs (schedule.max_jobs)",
            )
        )
    if (gap := rule.shortest_s(author.now)) < limits.min_interval_s:
        raise KoreError(
            t(
                "every {n:.0f} s is too often: the minimum is {least} (schedule.min_interval_s)",
                n=gap,
                least=limits.min_interval_s,
            )
        )


def _template(author: JobAuthor, request: JobRequest, text: str) -> InboundMessage:
    """Return the request's message, reduced to the parts that apply to the job."""
    message = author.message
    options = MessageOptions(
        **{name: getattr(message.options, name) for name in _LASTING},
        mode=author.mode,
        taint=tuple(sorted(request.taint)),
        by_model=author.by_model,
    )
    return InboundMessage(
        channel=message.channel,
        account=message.account,
        chat_id=message.chat_id,
        sender=message.sender,
        event_id="",
        content=text,
        received_at=author.now,
        thread_id=message.thread_id,
        private=message.private,
        options=options,
    )


def delivery_route(tx: Transaction, owner: str | None, now: float) -> InboundMessage:
    """Return a message of the owner, from their private chat or the next terminal to open."""
    route = chats.private_route(tx, owner) if owner else None
    if route is None or owner is None or route.channel == CONSOLE:
        return InboundMessage(CONSOLE, "local", "main", Sender("0"), "", "", now)
    sender = Sender(owner.partition(":")[2])
    return InboundMessage(
        *(route.channel, route.account, route.chat_id), sender, "", "", now, route.thread_id
    )
