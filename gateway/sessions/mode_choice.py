"""Choice of a session's permission mode, inside the caller's transaction."""

from collections.abc import Mapping

from agent.security.policy.base import MODES, PermissionMode, is_mode
from gateway.sessions import finished_plan
from gateway.store.port import Transaction
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.audit_outbox import AuditNote
from gateway.store.repositories.conversations import sessions


def choose_mode(
    tx: Transaction,
    session: str,
    mode: PermissionMode,
    current: PermissionMode,
    by: Mapping[str, str],
    now: float,
) -> None:
    """Store the mode, and end the offer of a plan. A looser mode than before is audited.

    `current` is the previous mode if none is stored. `by` names `who` chose it, and in which
    `chat`.
    """
    stored = sessions.chosen_mode(tx, session)
    before = stored if is_mode(stored) else current
    sessions.choose_mode(tx, session, mode)
    finished_plan.close(tx, session)
    if MODES.index(mode) > MODES.index(before):
        reason = f"{before} became {mode} by {by['who']}"
        audit_outbox.put(tx, AuditNote(now, "mode", reason, {"mode": mode, **by}, session=session))
