"""Calls that operate the process: status, reload, backup, logs and costs."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.errors import KoreError
from agent.i18n import t
from agent.version import VERSION
from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.control.replay import replay_error
from gateway.control.runtime_status import resident_bytes
from gateway.store.errors import ReplayRefused
from gateway.store.repositories import usage
from gateway.store.repositories.delivery import chats, inbox, undecoded_updates
from gateway.store.repositories.execution import turns
from gateway.turns.usage.limits import BillingDay
from gateway.turns.usage.turn_log import failure_facts


@call(scope="read")
async def status(ctx: ServiceContext) -> Mapping[str, Any]:
    """Return the data of `kore status`: pid, version, model, channels, queues, and the `workers`
    that run turns for this process (None: it runs them itself)."""
    database = ctx.database
    waiting = await database.transact(inbox.waiting_count)
    spent = await database.transact(usage.of_all, BillingDay.of(time.time()).began_at)
    approvals = await ctx.approvals.open_questions()
    workers = await ctx.workers()
    processes = (*workers["alive"], *workers["ended"]) if workers is not None else ()
    logs = [process["log"] for process in processes if process["log"] is not None]
    facts = ctx.status()
    return {
        "version": VERSION,
        "pid": os.getpid(),
        **facts,
        **failure_facts([ctx.turn_log.facts(), *logs], facts["model"]),
        "lanes_busy": ctx.bus.lanes,
        "messages_waiting": waiting,
        "config": ctx.reloader.facts() if ctx.reloader else None,
        "updates_undecoded": await database.transact(undecoded_updates.count) or None,
        "open_questions": len(approvals),
        "obstacle": ctx.bus.obstacle,
        "routes_with_mail": ctx.sender.routes,
        "unreachable": await database.transact(chats.unreachable_chats),
        "parts_given_up": ctx.sender.given_up_count,
        "workers": workers,
        "memory_mb": resident_bytes() // 2**20,
        "spent_today": {
            "cost_usd": spent.known_usd,
            "input_tokens": spent.usage.input,
            "output_tokens": spent.usage.output,
            "calls": spent.calls,
            "calls_of_unknown_price": spent.unpriced,
        },
    }


@call(scope="admin")
async def reload(ctx: ServiceContext) -> Mapping[str, Any]:
    """Reload the configuration. Returns the `changed` keys, and the keys `waiting` for a restart.
    If it is invalid, the previous settings stay in effect."""
    if ctx.reloader is None:
        raise KoreError(
            t("Kore is running as a terminal conversation, not as a gateway"),
            hint=t("It reads the configuration only when it starts; restart it."),
        )
    return await ctx.reloader.reload()


@call(scope="admin")
async def hand_over(ctx: ServiceContext, successor: str) -> Sequence[str] | None:
    """Release the data to a starting gateway, after the current step of each running turn. Returns
    the lanes of one-shot runs that wait for the successor; None if this process keeps the data."""
    return None if ctx.handover is None else await ctx.handover.request(successor)


@call(scope="admin")
async def replay(ctx: ServiceContext, seq: int) -> str:
    """Requeue a dead or finished inbox row; returns a confirmation."""
    update = await ctx.database.transact(undecoded_updates.at, seq)
    if update is not None:
        return await _decode_again(ctx, update)
    try:
        lane = await ctx.database.transact(turns.replay, seq)
    except ReplayRefused as refused:
        raise replay_error(seq, refused) from None
    ctx.bus.wake(lane)
    return t("Message {seq} is queued again on {lane}.", seq=seq, lane=lane)


async def _decode_again(ctx: ServiceContext, update: undecoded_updates.UndecodedUpdate) -> str:
    """Store an update like any other batch. Its messages keep the platform's ids, so that each is
    stored once."""
    channel = ctx.renderer.decoder(update.channel, update.account)
    if channel is None:
        raise KoreError(
            t(
                "update {seq} is from {channel}, which is not running here",
                seq=update.seq,
                channel=f"{update.channel}:{update.account}",
            ),
            hint=t("Start `kore gateway` first."),
        )
    batch = replace(channel.decode_again(update.raw), can_wait=False)
    if batch.undecoded:
        raise KoreError(
            t(
                "update {seq} still cannot be decoded: {reason}",
                seq=update.seq,
                reason=batch.undecoded[0].reason,
            )
        )
    await ctx.bus.accept(update.channel, update.account, batch)
    await ctx.database.transact(undecoded_updates.mark_decoded, update.seq)
    if not batch.messages:
        return t("Update {seq} is decoded; it contains no message for Kore.", seq=update.seq)
    return t(
        "Update {seq} is decoded; its message is queued on {lane}.",
        seq=update.seq,
        lane=batch.messages[0].session_key,
    )


@call(scope="admin")
async def backup(ctx: ServiceContext, target: Path) -> int:
    """Copy the database to a new file; returns its size in bytes."""
    return await ctx.database.backup(target)


@call(scope="admin")
async def list_costs(ctx: ServiceContext, days: int = 30) -> Sequence[Mapping[str, Any]]:
    """List the costs of the latest days, today last: `day`, `cost_usd`, `input_tokens`,
    `output_tokens`, `calls`."""
    return await ctx.screens.workbench().list_costs(days)


@call(scope="admin")
async def read_log(
    ctx: ServiceContext, lines: int = 200, level: str = "info"
) -> Sequence[Mapping[str, Any]]:
    """Return the newest log lines of at least this level, oldest first."""
    return await asyncio.to_thread(ctx.screens.workbench().read_log, lines, level)


@call(scope="admin")
async def list_audit(ctx: ServiceContext, limit: int = 100) -> Sequence[Mapping[str, Any]]:
    """List the newest entries of the audit log, newest first."""
    await ctx.audit_relay.flush()
    return await asyncio.to_thread(ctx.screens.workbench().list_audit, limit)
