"""Calls that answer approvals, and list and revoke standing grants."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agent.approvals import Answer, Scope
from agent.errors import KoreError
from agent.i18n import t
from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.approval import ApprovalPrompt, ApprovalReply
from gateway.core.messages import console_principal
from gateway.store.repositories.access import grants


@call(scope="approve")
async def answer_approval(
    ctx: ServiceContext,
    nonce: str,
    answer: Answer,
    by: str,
    words: str = "",
    scope: Scope = "call",
) -> bool:
    """Answer an approval; False if it has expired or was already answered. The model receives the
    `words` of a denial. `scope` is the scope of a standing answer; `prefix` allows all commands
    with the prefix in the event."""
    is_first = await ctx.approvals.answer(nonce, ApprovalReply(answer, words, scope), by)
    await ctx.audit_relay.flush()
    return is_first


@call(scope="read")
async def list_approvals(ctx: ServiceContext) -> Sequence[ApprovalPrompt]:
    """List the open approvals, oldest first."""
    return await ctx.approvals.open_questions()


@call(scope="admin")
async def list_grants(ctx: ServiceContext) -> Sequence[Mapping[str, Any]]:
    """List the standing answers to approvals, oldest first: `id`, `principal`, `session` ('' for
    all), `title`, `folder`, `granted_by`, `granted_at`."""
    return [asdict(grant) for grant in await ctx.database.transact(grants.list_grants)]


@call(scope="admin")
async def revoke_grants(ctx: ServiceContext, grant: int | None) -> str:
    """Revoke a grant (None: all); returns a confirmation."""
    by = console_principal()
    revoked = await ctx.database.transact(grants.revoke_grant, grant, by, time.time())
    await ctx.audit_relay.flush()
    if grant is None:
        return t("{gone} revoked; you will be asked again.", gone=len(revoked))
    if not revoked:
        raise KoreError(
            t("no grant {grant}", grant=grant), hint=t("`kore policy grants` lists them")
        )
    return t("Revoked: {title}; you will be asked again.", title=revoked[0].title)
