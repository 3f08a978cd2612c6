"""Repository for approvals, each bound to one call of one turn."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, get_args

from agent.approvals import Answer, ApprovalRequest
from agent.errors import KoreError
from agent.records import frozen
from agent.security.policy.base import Answered
from agent.serialization import RecordCodec, dumps
from gateway.core.approval import (
    ApprovalPrompt,
    State,
    audit_text,
    audit_text_for_grant,
    audit_text_for_server,
)
from gateway.core.messages import Route
from gateway.store.conditions import AWAITING
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.access import grants
from gateway.store.repositories.active_channels import run_here
from gateway.store.repositories.audit_outbox import AuditNote
from gateway.store.repositories.codecs import QUESTION, QUESTION_PLACE

_CODEC = RecordCodec()
_ROUTE = ("channel", "account", "chat", "thread")
_PLACE_COLUMNS = tuple(QUESTION_PLACE.split(", "))
# Replaces the hash of the request, because a server's question is not bound to a request.
_ASKED = "asked by a server"
_SELECT = f"SELECT id, asked_at, expires_at, question, {QUESTION_PLACE} FROM approval"


class UnreadableApproval(ValueError):
    """Error: a stored approval has the format of another version."""


@frozen
class ApprovalKey:
    """Hashes that answers are bound to.

    `args_hash` covers everything shown, `grant_hash` is for a standing answer, `prefixes` maps
    hashes for answers about any arguments to the prefixes' names, and `network` contains a hash per
    host. `recipient` is the hash for an answer about private data for the recipient. `unchanged`:
    the call would not change anything (any more). `folder_hash` is for the answer to the same
    call's question about a folder.
    """

    turn: int
    call_id: str
    session: str
    asker: str
    args_hash: str
    grant_hash: str
    unchanged: bool = False
    prefixes: Mapping[str, str] = field(default_factory=dict)
    network: Mapping[str, str] = field(default_factory=dict)
    recipient: str | None = None
    folder_hash: str | None = None


def find_decision(tx: Transaction, wish: ApprovalKey) -> Answered | ApprovalPrompt | None:
    """Return the answer for exactly this call, or its open approval, or None.

    An answer to other arguments or another diff does not count.
    """
    rows = tx.all(
        f"{_SELECT} WHERE turn_id = ? AND step = ?"
        " AND (args_hash IN (?, ?) OR (? = 1 AND grant_hash = ?)) ORDER BY id DESC",
        (
            wish.turn,
            _step(tx, wish),
            wish.args_hash,
            wish.folder_hash or wish.args_hash,
            # After a crash, a call that was carried out has nothing left to change.
            wish.unchanged,
            wish.grant_hash,
        ),
    )
    for approval in _readable(tx, rows):
        if approval.state == "open":
            return approval
        answers: tuple[Answer, ...] = get_args(Answer)
        answer: Answer = next((answer for answer in answers if answer == approval.state), "deny")
        return Answered(answer, audit_text(approval.state, approval.by), approval.words)
    return _standing_answer(tx, wish)


def _standing_answer(tx: Transaction, wish: ApprovalKey) -> Answered | None:
    """Return the standing answer for exactly this call, its prefixes, hosts or recipient."""
    if (grant := _common_grant(tx, wish, [wish.grant_hash])) is not None:
        return Answered("session" if grant[0] else "always", audit_text_for_grant(*grant))
    if (grant := _common_grant(tx, wish, wish.prefixes)) is not None:
        about = ", ".join(dict.fromkeys(wish.prefixes.values()))
        return Answered("session" if grant[0] else "always", audit_text_for_grant(*grant, about))
    if (grant := _common_grant(tx, wish, wish.network.values())) is not None:
        text = audit_text_for_grant(*grant, f"network to {', '.join(wish.network)}")
        return Answered("session" if grant[0] else "always", text, scope="network")
    return standing_trust(tx, wish.asker, wish.session, wish.recipient)


def standing_trust(
    tx: Transaction, asker: str, session: str, recipient: str | None
) -> Answered | None:
    """Return the standing answer that the recipient with this hash may get private data."""
    grant = None if recipient is None else grants.find_grant(tx, asker, session, recipient)
    if grant is None:
        return None
    text = audit_text_for_grant(*grant, "private data for the MCP server")
    return Answered("session" if grant[0] else "always", text, scope="recipient")


def _common_grant(
    tx: Transaction, wish: ApprovalKey, hashes: Iterable[str]
) -> tuple[str, str] | None:
    """If there is a grant for each hash, return the session of the first one and the person who
    gave it.
    """
    common = [grants.find_grant(tx, wish.asker, wish.session, hash_) for hash_ in hashes]
    return None if None in common else next(iter(common), None)


def open_approval(tx: Transaction, wish: ApprovalKey, approval: ApprovalPrompt) -> ApprovalPrompt:
    """Store an approval and make its turn wait; return it with its number."""
    number = _store(tx, wish, approval)
    wait(tx, wish.turn)
    return _stored_approval(tx, tx.one(f"{_SELECT} WHERE id = ?", (number,)))


def open_server_question(
    tx: Transaction, turn: int, call_id: str, approval: ApprovalPrompt
) -> ApprovalPrompt:
    """Store a server's question in the middle of a call, like `open_approval`.

    The turn continues, and the answer does not apply to anything else.
    """
    key = ApprovalKey(turn, call_id, approval.session, approval.asker, _ASKED, approval.nonce)
    return replace(approval, number=_store(tx, key, approval))


def _store(tx: Transaction, wish: ApprovalKey, approval: ApprovalPrompt) -> int:
    route, step = approval.route, _step(tx, wish)
    place = (
        *(approval.nonce, wish.turn, step, wish.args_hash, wish.grant_hash, approval.session),
        *(approval.asker, approval.principal, approval.lane),
        *(route.channel, route.account, route.chat_id, route.thread_id, "open", None),
    )
    (number,) = tx.one(
        "INSERT INTO approval (nonce, turn_id, step, args_hash, grant_hash, lane, session, asker,"
        " principal, channel, account, chat, thread, question, asked_at, expires_at, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " 'open') RETURNING id",
        (
            approval.nonce,
            wish.turn,
            step,
            wish.args_hash,
            wish.grant_hash,
            approval.lane,
            approval.session,
            approval.asker,
            approval.principal,
            route.channel,
            route.account,
            route.chat_id,
            route.thread_id,
            tx.seal(_format_content(approval), QUESTION, *place),
            approval.asked_at,
            approval.expires_at,
        ),
    )
    return int(number)


def wait(tx: Transaction, turn: int) -> None:
    """Make a turn wait until its last open approval is settled."""
    tx.run("UPDATE turn SET state = 'waiting' WHERE id = ?", (turn,))


def close_approval(
    tx: Transaction, approval: ApprovalPrompt, state: State, by: str | None, now: float
) -> ApprovalPrompt:
    """Close an approval and return it.

    Its turn continues when no other approval is open, without counting an attempt. Its `words` are
    stored with the answer. Raises `SealBroken` for an approval that was changed since it was
    stored.
    """
    _close(tx, approval, state, by, now)
    if state in ("session", "always"):
        session = approval.session if state == "session" else ""
        grants.put_grant(tx, approval, session, by or "", now)
        reason = f"question {approval.number}: allowed from now on by {by or 'the owner'}"
        params = {"action": state, "who": approval.asker, "chat": approval.lane}
        audit_outbox.put(tx, AuditNote(now, "grant", reason, params, session=approval.session))
    server_question = approval.request.server_question
    if server_question is not None:
        reason = (
            f"question {approval.number} of the MCP server {server_question.server}: "
            f"{audit_text_for_server(state, by)}"
        )
        params = {"who": approval.asker, "chat": approval.lane}
        is_answered = state == "once"
        note = AuditNote(
            now, "question", reason, params, allowed=is_answered, session=approval.session
        )
        audit_outbox.put(tx, note)
    elif state == "withdrawn":
        # The turn will stop, so the call will not need its decision again.
        reason = (
            f"question {approval.number} about {approval.request.tool}: {audit_text(state, by)}"
        )
        params = {"who": approval.asker, "chat": approval.lane}
        note = AuditNote(now, "question", reason, params, allowed=False, session=approval.session)
        audit_outbox.put(tx, note)
    tx.run(
        "UPDATE turn SET state = 'running', is_suspended = 1 WHERE state = 'waiting'"
        " AND id = (SELECT turn_id FROM approval WHERE nonce = ?) AND NOT EXISTS"
        " (SELECT 1 FROM approval WHERE turn_id = turn.id AND state = 'open')",
        (approval.nonce,),
    )
    return replace(approval, state=state, by=by)


def _close(
    tx: Transaction, approval: ApprovalPrompt, state: State, by: str | None, now: float
) -> None:
    row = tx.one(f"{_SELECT} WHERE nonce = ?", (approval.nonce,))
    # This raises for a changed row, which the new seal below would make valid.
    _stored_approval(tx, row)
    place = (*row[-len(_PLACE_COLUMNS) : -2], state, by)
    tx.run(
        "UPDATE approval SET state = ?, answered_by = ?, answered_at = ?, question = ?"
        " WHERE nonce = ?",
        (
            *(state, by, now),
            tx.seal(_format_content(approval), QUESTION, *place),
            approval.nonce,
        ),
    )


def find(tx: Transaction, nonce: str) -> ApprovalPrompt | None:
    rows = tx.all(f"{_SELECT} WHERE nonce = ?", (nonce,))
    return next(_readable(tx, rows), None)


def _readable(tx: Transaction, rows: Iterable[Row]) -> Iterator[ApprovalPrompt]:
    """Yield the approvals as originally stored.

    An approval that was changed since then, or that another version wrote, is void: its call asks
    again when it needs the decision.
    """
    for row in rows:
        try:
            yield _stored_approval(tx, row)
        except (SealBroken, UnreadableApproval):
            _void(tx, number=row[0])


def _void(tx: Transaction, number: int) -> None:
    turns = tx.all("SELECT turn_id FROM approval WHERE id = ? AND state = 'open'", (number,))
    for (turn,) in turns:
        tx.run("UPDATE approval SET state = 'withdrawn' WHERE id = ?", (number,))
        tx.run(
            "UPDATE turn SET state = 'running', is_suspended = 1 WHERE state = 'waiting'"
            " AND id = ? AND NOT EXISTS"
            " (SELECT 1 FROM approval WHERE turn_id = turn.id AND state = 'open')",
            (turn,),
        )


def open_questions(tx: Transaction, lane: str | None = None) -> list[ApprovalPrompt]:
    """Return the open approvals, oldest first; `lane` selects by turn or destination."""
    rows = tx.all(f"{_SELECT} WHERE state = 'open' ORDER BY id")
    open_approvals = list(_readable(tx, rows))
    return [q for q in open_approvals if lane is None or lane in (q.lane, q.route.lane)]


def expired(tx: Transaction, now: float) -> list[ApprovalPrompt]:
    """Return the expired approvals of this process's channels, because no other process can update
    their messages.
    """
    rows = tx.all(
        f"{_SELECT} WHERE state = 'open' AND expires_at <= ? AND {run_here('approval')}"
        " ORDER BY id",
        (now,),
    )
    return list(_readable(tx, rows))


def open_server_questions(tx: Transaction) -> list[ApprovalPrompt]:
    """Return the open questions of servers in this process's channels, oldest first.

    Turns of workers are excluded.
    """
    rows = tx.all(
        f"{_SELECT} WHERE state = 'open' AND args_hash = ? AND {run_here('approval')}"
        " AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.id = approval.turn_id"
        " AND turn.is_claimed = 1 AND turn.worker IS NOT NULL)"
        " ORDER BY id",
        (_ASKED,),
    )
    return list(_readable(tx, rows))


def is_for_server(tx: Transaction, number: int, principal: str) -> bool:
    """Return whether this approval, open or not, is a server's question to this person."""
    (exists,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM approval WHERE id = ? AND args_hash = ? AND principal = ?)",
        (number, _ASKED, principal),
    )
    return bool(exists)


def recover(tx: Transaction, now: float) -> None:
    """Restart the expiry time of approvals that were stored before the clock was set back."""
    tx.run(
        "UPDATE approval SET expires_at = ? + (expires_at - asked_at), asked_at = ?"
        " WHERE state = 'open' AND asked_at > ?",
        (now, now, now),
    )


def next_expiry(tx: Transaction) -> float | None:
    (at,) = tx.one(
        f"SELECT min(expires_at) FROM approval WHERE state = 'open' AND {run_here('approval')}"
    )
    return float(at) if at is not None and math.isfinite(at) else None


def is_awaited(tx: Transaction, lane: str) -> bool:
    """Return whether the lane's turn waits for an answer."""
    (exists,) = tx.one(f"SELECT EXISTS (SELECT 1 FROM turn WHERE lane = ? AND {AWAITING})", (lane,))
    return bool(exists)


def is_stopping(tx: Transaction, turn: int) -> bool:
    (stop,) = tx.one("SELECT stop_requested FROM turn WHERE id = ?", (turn,))
    return bool(stop)


def _step(tx: Transaction, wish: ApprovalKey) -> int:
    """Return the journal's number of the call, because some vendors reuse ids."""
    (step,) = tx.one(
        "SELECT coalesce(max(n), 0) FROM step WHERE turn_id = ? AND call_id = ?",
        (wish.turn, wish.call_id),
    )
    return int(step)


def _stored_approval(tx: Transaction, row: Sequence[Any]) -> ApprovalPrompt:
    number, asked_at, expires_at, sealed, *place = row
    values = dict(zip(_PLACE_COLUMNS, place, strict=True))
    contents = _parse_content(tx.unseal(sealed, QUESTION, *place))
    own = {name: values[name] for name in ("nonce", "lane", "session", "asker", "principal")}
    return ApprovalPrompt(
        number=number,
        route=Route(*(values[name] for name in _ROUTE)),
        **contents,
        state=values["state"],
        by=values["answered_by"],
        asked_at=asked_at,
        expires_at=expires_at,
        **own,
    )


def _format_content(approval: ApprovalPrompt) -> str:
    """Return the stored form of the text that is shown to a person."""
    return dumps(
        {
            "title": approval.title,
            "root": approval.root,
            "words": approval.words,
            "scope": approval.scope,
            "request": _CODEC.encode(ApprovalRequest, approval.request),
        }
    )


def _parse_content(content: str) -> dict[str, Any]:
    """Return the stored fields of an approval. Raises `UnreadableApproval` for another form."""
    values: dict[str, Any] = json.loads(content)
    try:
        return {**values, "request": _CODEC.decode(ApprovalRequest, values["request"], "request")}
    except (KeyError, KoreError) as exc:
        raise UnreadableApproval from exc
