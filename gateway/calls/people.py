"""Calls about people: pairing, and the data stored about a person."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from agent.errors import KoreError
from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.messages import console_principal
from gateway.store.port import Transaction

P = ParamSpec("P")


@call(scope="admin")
async def list_people(ctx: ServiceContext) -> Mapping[str, Any]:
    """Return the `owner`, the people who are `asking` for access, and the `paired` people, without
    pairing codes."""
    return await ctx.database.transact(ctx.pairing.people, time.time())


@call(scope="admin")
async def approve_pairing(ctx: ServiceContext, code: str) -> str:
    """Approve the person who received the code; returns a confirmation."""
    return await _run_pairing(ctx, ctx.pairing.approve, code, console_principal(), time.time())


@call(scope="admin")
async def invite_owner(ctx: ServiceContext, channel: str, account: str) -> str:
    """Return a code, valid for one hour; the first to send `/start CODE` becomes the owner. Fails
    if there is an owner."""
    return await _run_pairing(ctx, ctx.pairing.invite, channel, account, time.time())


@call(scope="admin")
async def revoke_pairing(ctx: ServiceContext, who: str) -> str:
    """Revoke a person's access; returns a confirmation."""
    return await _run_pairing(ctx, ctx.pairing.revoke, who, console_principal(), time.time())


async def _run_pairing(
    ctx: ServiceContext,
    act: Callable[Concatenate[Transaction, P], tuple[bool, str]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> str:
    """Return the resulting sentence. Raises `KoreError` with the sentence if nothing changed."""
    is_done, sentence = await ctx.database.transact(act, *args, **kwargs)
    await ctx.audit_relay.flush()
    for lane in ctx.pairing.mention_lanes():
        ctx.sender.wake(lane)
    if not is_done:
        raise KoreError(sentence)
    return sentence


@call(scope="admin")
async def summarize_person(ctx: ServiceContext, principal: str) -> Mapping[str, Any]:
    """Count the stored data of a person."""
    return await ctx.user_data().summarize(principal)


@call(scope="admin")
async def export_person(ctx: ServiceContext, principal: str, target: Path) -> Mapping[str, Any]:
    """Export a person's data to a new zip file: `file`, `size_bytes`."""
    return await ctx.user_data().export(principal, target)


@call(scope="admin")
async def delete_person(ctx: ServiceContext, principal: str, copies: bool) -> Mapping[str, Any]:
    """Delete a person's data; with `copies`, also in the database copies made by upgrades. Returns
    counts of the deleted data, and the remaining copies."""
    return await ctx.user_data().delete(principal, copies=copies)
