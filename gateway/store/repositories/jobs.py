"""Repository for scheduled jobs and their runs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

from agent.records import frozen
from agent.types import Taint
from gateway.core.messages import InboundMessage, Route
from gateway.store.conditions import LIVE, WAITING, beginning, one_of
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories.delivery import inbox

Kind = Literal["reminder", "prompt", "heartbeat"]
CatchUp = Literal["skip", "once", "all"]
CATCH_UPS: tuple[CatchUp, ...] = ("skip", "once", "all")
State = Literal["on", "paused", "done", "failed"]

# Number of slots remembered per job.
_MAX_SLOTS = 100
_LARGEST = 2**63 - 1
_DONE_KEPT_S = 7 * 86_400
_PLAIN = (
    "principal, rule, zone, catch_up, is_urgent, has_own_session, state, reason, failures,"
    " slot_at, due_at,"
    " is_postponed, created_at"
)
_CHANNEL = "channel || ':' || account"
_SELECT = f"SELECT id, made_by, kind, template, {_PLAIN} FROM job"


@frozen
class Job:
    """Scheduled job; `message` is the template of its messages.

    `slot_at` is the first slot that was not handled, `due_at` the time to check it. Times are Unix
    seconds.
    """

    id: int
    made_by: str
    kind: Kind
    message: InboundMessage
    principal: str
    rule: str
    zone: str
    catch_up: CatchUp = "once"
    is_urgent: bool = False
    has_own_session: bool = False
    state: State = "on"
    reason: str = ""
    failures: int = 0
    slot_at: int | None = None
    due_at: float | None = None
    is_postponed: bool = False
    created_at: int = 0

    @property
    def route(self) -> Route:
        return self.message.route

    @property
    def taint(self) -> frozenset[Taint]:
        """Taint of the conversation that created the job, at that time."""
        return frozenset(self.message.options.taint)

    @property
    def lane(self) -> str:
        """Lane of its turns, separate from the chat, so that they do not mix with people's
        messages.
        """
        return f"cron:{self.id}"

    def event(self, slot: int) -> str:
        return f"cron:{self.id}:{slot}"


@frozen
class Slot:
    """Past slot of a job and the delivery of its messages.

    `delivered` means that all `parts` were sent; `lost` is the reason why a part was given up.
    """

    at: int
    state: str
    note: str
    parts: int
    delivered: bool
    lost: str | None


def put(tx: Transaction, job: Job) -> Job:
    """Store a job; return it with its number.

    Return the existing job if the same call has already created it.
    """
    old = job.created_at - _DONE_KEPT_S
    tx.run(
        "DELETE FROM job WHERE state = 'done' AND created_at < ? AND coalesce("
        "(SELECT max(fired_at) FROM job_run WHERE job = id), 0) < ?",
        (old, old),
    )
    route = job.route
    tx.run(
        "INSERT INTO job (made_by, kind, template, principal, channel, account, chat,"
        " rule, zone, catch_up, is_urgent, has_own_session, slot_at, due_at, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            job.made_by,
            job.kind,
            tx.seal(job.message.to_json(), "job.template", job.made_by, job.principal, job.kind),
            job.principal,
            *(route.channel, route.account, route.chat_id),
            *(job.rule, job.zone, job.catch_up, job.is_urgent, job.has_own_session),
            *(job.slot_at, job.due_at, job.created_at),
        ),
    )
    row = tx.one(f"{_SELECT} WHERE made_by = ?", (job.made_by,))
    return _job(tx, row)


def find(tx: Transaction, number: int) -> Job | None:
    if abs(number) > _LARGEST:
        return None
    return next(_readable(tx, tx.all(f"{_SELECT} WHERE id = ?", (number,))), None)


def made(tx: Transaction, made_by: str) -> Job | None:
    row = tx.first(f"{_SELECT} WHERE made_by = ?", (made_by,))
    return _job(tx, row) if row else None


def due(tx: Transaction, channels: Sequence[str], now: float, most: int) -> list[Job]:
    """Return due jobs whose messages one of the `channels` ("channel:account") can deliver."""
    rows = tx.all(
        f"{_SELECT} WHERE state = 'on' AND due_at <= ? AND {one_of(_CHANNEL, channels)}"
        " ORDER BY due_at LIMIT ?",
        (now, *channels, most),
    )
    return list(_readable(tx, rows))


def listed(tx: Transaction, principal: str | None, chat: Route | None) -> list[Job]:
    """Return all jobs, or the jobs of a person or a chat; finished jobs come last."""
    where, values = ["TRUE"], list[object]()
    if principal is not None:
        where.append("principal = ?")
        values.append(principal)
    if chat is not None:
        where.append("channel = ? AND account = ? AND chat = ?")
        values += [chat.channel, chat.account, chat.chat_id]
    rows = tx.all(f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY state = 'done', id", values)
    return list(_readable(tx, rows))


def count_of(tx: Transaction, principal: str) -> int:
    """Return the number of unfinished jobs of a person."""
    (count,) = tx.one(
        "SELECT count(*) FROM job WHERE principal = ? AND state <> 'done'", (principal,)
    )
    return int(count)


def remove(tx: Transaction, job: Job) -> None:
    """Delete a job and its waiting messages; a running turn ends normally."""
    tx.run(
        f"UPDATE inbox SET dead_reason = 'its job was removed' WHERE lane = ? AND {WAITING}",
        (job.lane,),
    )
    tx.run("DELETE FROM job_run WHERE job = ?", (job.id,))
    tx.run("DELETE FROM job WHERE id = ?", (job.id,))


def set_state(tx: Transaction, job: int, state: State, reason: str = "") -> None:
    tx.run(
        "UPDATE job SET state = ?, reason = ?, failures = CASE ? WHEN 'on' THEN 0 ELSE failures END"
        " WHERE id = ?",
        (state, reason, state, job),
    )


def advance(tx: Transaction, job: int, slot: int | None) -> None:
    """Advance to the next slot; without another slot, the job is finished."""
    tx.run(
        "UPDATE job SET slot_at = ?, due_at = ?, is_postponed = 0,"
        " state = CASE WHEN ? = 1 AND state = 'on' THEN 'done' ELSE state END WHERE id = ?",
        (slot, slot, slot is None, job),
    )


def hold(tx: Transaction, job: int, until: float) -> None:
    tx.run("UPDATE job SET due_at = ?, is_postponed = 1 WHERE id = ?", (until, job))


def begin(tx: Transaction, job: Job, slot: int, state: str, now: float) -> bool:
    """Take a slot; return False if it was already taken, so that no slot runs twice."""
    row_count = tx.run(
        "INSERT INTO job_run (job, at, fired_at, state) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (job.id, slot, now, state),
    )
    tx.run(
        "DELETE FROM job_run WHERE job = ? AND at < (SELECT at FROM job_run WHERE job = ?"
        f" ORDER BY at DESC LIMIT 1 OFFSET {_MAX_SLOTS})",
        (job.id, job.id),
    )
    return bool(row_count)


def ended(tx: Transaction, job: int, slot: int, state: str, note: str) -> None:
    tx.run(
        "UPDATE job_run SET state = ?, note = ? WHERE job = ? AND at = ?", (state, note, job, slot)
    )


def count_failure(tx: Transaction, job: int, *, failed: bool) -> int:
    """Count a failure, or reset the count; return the number of consecutive failures."""
    row = tx.first(
        "UPDATE job SET failures = CASE WHEN ? = 1 THEN failures + 1 ELSE 0 END WHERE id = ?"
        " RETURNING failures",
        (failed, job),
    )
    return int(row[0]) if row else 0


def slots(tx: Transaction, job: Job, most: int) -> list[Slot]:
    """Return the latest slots and their progress, newest first."""
    rows = tx.all(
        "SELECT s.at, CASE WHEN s.state <> 'begun' THEN s.state"
        " WHEN i.dead_reason IS NOT NULL THEN 'failed' WHEN i.turn_id IS NULL THEN 'waits'"
        " ELSE 'runs' END, s.note, count(o.seq), coalesce(min(CASE WHEN"
        " o.state = 'sent' AND o.provider_message_id IS NOT NULL THEN 1 ELSE 0 END), 0),"
        " max(o.dead_reason)"
        " FROM job_run s LEFT JOIN inbox i ON i.channel = ? AND i.account = ?"
        " AND i.event_id = 'cron:' || s.job || ':' || s.at"
        " LEFT JOIN outbox o ON o.delivery_id ="
        " coalesce('t' || i.turn_id, 'cron:' || s.job || ':' || s.at)"
        " WHERE s.job = ? GROUP BY s.job, s.at, i.seq ORDER BY s.at DESC LIMIT ?",
        (job.route.channel, job.route.account, job.id, most),
    )
    return [Slot(at, state, note, n, bool(all_), lost) for at, state, note, n, all_, lost in rows]


def is_under_way(tx: Transaction, job: Job) -> bool:
    """Return whether an earlier slot of the job still waits or runs."""
    return inbox.has_work(tx, job.lane)


def lanes_at_work(tx: Transaction, chat: str) -> list[str]:
    """Return the lanes of this chat's jobs whose turn is running; `chat` is its lane."""
    rows = tx.all(
        f"SELECT lane FROM turn WHERE lane >= ? AND lane < ? AND {LIVE}", beginning("cron:")
    )
    working = (find(tx, int(lane.removeprefix("cron:"))) for (lane,) in rows)
    return [job.lane for job in working if job is not None and job.route.lane == chat]


def clock_of(tx: Transaction, route: Route) -> tuple[str | None, str | None]:
    """Return the time zone and the quiet hours that a chat has chosen."""
    row = tx.first("SELECT zone, quiet FROM chat_clock WHERE chat = ?", (_chat(route),))
    return (row[0], row[1]) if row else (None, None)


def set_clock(tx: Transaction, route: Route, column: str, value: str | None) -> None:
    assert column in ("zone", "quiet"), column
    tx.run(
        f"INSERT INTO chat_clock (chat, {column}) VALUES (?, ?)"
        f" ON CONFLICT (chat) DO UPDATE SET {column} = excluded.{column}",
        (_chat(route), value),
    )


def _chat(route: Route) -> str:
    return f"{route.channel}:{route.account}:{route.chat_id}"


def _readable(tx: Transaction, rows: Iterable[Row]) -> Iterator[Job]:
    """Yield the unchanged jobs; a job that was changed outside of Kore does nothing."""
    for row in rows:
        with suppress(SealBroken):
            yield _job(tx, row)


def _job(tx: Transaction, row: Sequence[Any]) -> Job:
    id_, made_by, kind, template, *rest = row
    values = dict(zip(_PLAIN.split(", "), rest, strict=True))
    for name in ("is_urgent", "has_own_session", "is_postponed"):
        values[name] = bool(values[name])
    text = tx.unseal(template, "job.template", made_by, values["principal"], kind)
    message = InboundMessage.from_json(text)
    return Job(id_, made_by, kind, message, **values)


def timer_state(tx: Transaction) -> tuple[bool, float]:
    """Return whether there is any job, and the time of the last begun slot."""
    (any_,) = tx.one("SELECT EXISTS (SELECT 1 FROM job)")
    (last,) = tx.one("SELECT coalesce(max(fired_at), 0) FROM job_run")
    return bool(any_), float(last)


def next_due(tx: Transaction, channels: Sequence[str]) -> float | None:
    (at,) = tx.one(
        f"SELECT min(due_at) FROM job WHERE state = 'on' AND {one_of(_CHANNEL, channels)}",
        channels,
    )
    return None if at is None else float(at)
