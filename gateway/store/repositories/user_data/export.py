"""Export of a person's data from the database, as files of JSON lines."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.store.port import Row, Transaction
from gateway.store.repositories import api_answers
from gateway.store.repositories.access import members
from gateway.store.repositories.codecs import (
    PART_ROUTE,
    PAYLOAD,
    QUESTION,
    QUESTION_PLACE,
    payload_from_row,
)
from gateway.store.repositories.conversations import transcripts
from gateway.store.repositories.user_data import erasure

_SESSIONS = "SELECT id FROM gone_session"


def export_rows(tx: Transaction, principal: str) -> dict[str, str]:
    """Return the text of each file by its name, as JSON lines."""
    erasure.select_user_rows(tx, principal)
    files = {
        f"sessions/{session}.jsonl": _joined(transcripts.lines(tx, session))
        for (session,) in tx.all(f"{_SESSIONS} ORDER BY id")
    }
    files["messages_received.jsonl"] = _rows(
        [
            (at, *columns[:3], payload_from_row(tx, *columns))
            for at, *columns in tx.all(
                f"SELECT received_at, {PAYLOAD} FROM inbox WHERE principal = ? ORDER BY seq",
                (principal,),
            )
        ],
        "received_at, channel, account, event_id, message",
        "message",
    )
    files["messages_sent.jsonl"] = _rows(
        [
            (at, place[3], place[5], place[7], state, tx.unseal(body, "outbox.body", *place))
            for at, state, body, *place in tx.all(
                f"SELECT created_at, state, body, delivery_id, part, {PART_ROUTE}, kind, buttons"
                " FROM outbox WHERE lane IN (SELECT lane FROM gone_lane) OR turn_id IN"
                " (SELECT id FROM gone_turn UNION SELECT id FROM shared_turn)"
                " ORDER BY seq"
            )
        ],
        "created_at, channel, chat, kind, state, text",
    )
    files["conversations_with_others.jsonl"] = _rows(
        [
            (session, n, at, tx.unseal(content, "message.content", session, n))
            for session, n, at, content in tx.all(
                "SELECT session, n, created_at, content FROM message"
                " WHERE turn_id IN (SELECT id FROM shared_turn) ORDER BY session, n"
            )
        ],
        "session, n, created_at, message",
        "message",
    )
    files["spending.jsonl"] = _rows(
        tx.all(
            "SELECT at, session, model, input, output, cached, cost_nusd FROM usage"
            " WHERE principal = ? ORDER BY at",
            (principal,),
        ),
        "at, session, model, input, output, cached, cost_nusd",
    )
    files["approvals.jsonl"] = _rows(
        [
            (*row[:7], tx.unseal(row[7], QUESTION, *row[8:]))
            for row in tx.all(
                "SELECT asked_at, session, asker, principal, state, answered_by, answered_at,"
                f" question, {QUESTION_PLACE} FROM approval"
                " WHERE asker = ? OR principal = ? ORDER BY id",
                (principal, principal),
            )
        ],
        "asked_at, session, asker, asked, state, answered_by, answered_at, question",
        "question",
    )
    files["standing_permissions.jsonl"] = _rows(
        [
            (
                at,
                by,
                tx.unseal(title, "permission_grant.title", *key, by),
                tx.unseal(folder, "permission_grant.folder", *key, by),
            )
            for at, by, title, folder, *key in tx.all(
                "SELECT granted_at, granted_by, title, folder, principal, session, grant_hash"
                " FROM permission_grant WHERE principal = ? ORDER BY id",
                (principal,),
            )
        ],
        "granted_at, granted_by, title, folder",
    )
    files["jobs.jsonl"] = _rows(
        [
            (*facts, tx.unseal(template, "job.template", made_by, principal, facts[1]))
            for *facts, made_by, template in tx.all(
                "SELECT created_at, kind, rule, zone, state, made_by, template"
                " FROM job WHERE principal = ? ORDER BY id",
                (principal,),
            )
        ],
        "created_at, kind, rule, zone, state, message",
        "message",
    )
    files["goals.jsonl"] = _rows(
        [
            (
                *facts,
                tx.unseal(template, "goal.template", session, principal),
                tx.unseal(remark, "goal.remark", session, principal),
            )
            for *facts, session, template, remark in tx.all(
                "SELECT created_at, state, reason, turns, session, template, remark"
                " FROM goal WHERE principal = ? ORDER BY created_at, session",
                (principal,),
            )
        ],
        "created_at, state, reason, turns, message, remark",
        "message",
    )
    files["api_answers.jsonl"] = _rows(
        [
            (at, token, id_, json.dumps(api_answers.unsealed(tx, token, id_, texts)))
            for at, token, id_, *texts in tx.all(
                "SELECT made_at, token, id, answer, conversation FROM api_answer"
                " WHERE principal = ? ORDER BY made_at, token, id",
                (principal,),
            )
        ],
        "made_at, token, id, stored",
        "stored",
    )
    channel, _, sender = principal.partition(":")
    files["access.jsonl"] = _rows(
        [
            (
                member.person.account,
                member.person.name,
                member.owner,
                member.approved_by,
                member.approved_at,
            )
            for member in members.members(tx)
            if (member.person.channel, member.person.sender) == (channel, sender)
        ],
        "account, name, owner, approved_by, approved_at",
    )
    return {name: text for name, text in files.items() if text}


def _rows(rows: Sequence[Row], names: str, as_json: str | None = None) -> str:
    """Return each row as an object with these keys; the value `as_json` is already JSON."""

    def lines() -> Iterator[str]:
        for row in rows:
            line: dict[str, Any] = dict(zip(names.split(", "), row, strict=True))
            if as_json is not None:
                line[as_json] = json.loads(line[as_json])
            yield json.dumps(line, ensure_ascii=False)

    return _joined(lines())


def _joined(lines: Any) -> str:
    return "".join(f"{line}\n" for line in lines)
