"""All that the database holds of one person, as lines of JSON under the names of files."""

import json
from collections.abc import Iterator
from sqlite3 import Connection, Cursor
from typing import Any

from gateway.store.repositories import transcripts, user_data
from gateway.store.repositories.inbox import PAYLOAD

_SESSIONS = "SELECT id FROM temp.gone_session"
_OUTBOX = "unseal({0}, 'outbox.{0}', delivery_id, part)"


def export_rows(connection: Connection, principal: str) -> dict[str, str]:
    """Name -> text; JSON lines, for people and programs."""
    user_data.select_user_rows(connection, principal)
    found = {
        f"sessions/{session}.jsonl": _joined(transcripts.lines(connection, session))
        for (session,) in connection.execute(f"{_SESSIONS} ORDER BY id").fetchall()
    }
    found["messages_received.jsonl"] = _rows(
        connection.execute(
            f"SELECT received_at, channel, account, event_id, {PAYLOAD} AS message FROM inbox"
            " WHERE principal = ? ORDER BY seq",
            (principal,),
        ),
        "message",
    )
    found["messages_sent.jsonl"] = _rows(
        connection.execute(
            f"SELECT created_at, channel, chat, kind, state, {_OUTBOX.format('body')} AS text"
            " FROM outbox WHERE lane IN (SELECT lane FROM temp.gone_lane)"
            " OR turn_id IN (SELECT id FROM temp.gone_turn UNION SELECT id FROM temp.shared_turn)"
            " ORDER BY seq"
        )
    )
    found["conversations_with_others.jsonl"] = _rows(
        connection.execute(
            "SELECT session, n, created_at,"
            " unseal(content, 'message.content', session, n) AS message FROM message"
            " WHERE turn_id IN (SELECT id FROM temp.shared_turn) ORDER BY session, n"
        ),
        "message",
    )
    found["spending.jsonl"] = _rows(
        connection.execute(
            "SELECT at, session, model, input, output, cached, cost_nusd FROM usage"
            " WHERE principal = ? ORDER BY at",
            (principal,),
        )
    )
    found["approvals.jsonl"] = _rows(
        connection.execute(
            "SELECT asked_at, session, asker, principal AS asked, state, answered_by, answered_at,"
            " unseal(question, 'approval.question', nonce) AS question FROM approval"
            " WHERE asker = :who OR principal = :who ORDER BY id",
            {"who": principal},
        ),
        "question",
    )
    found["standing_permissions.jsonl"] = _rows(
        connection.execute(
            "SELECT granted_at, granted_by,"
            " unseal(title, 'standing.title', principal, session, grant_hash) AS title,"
            " unseal(folder, 'standing.folder', principal, session, grant_hash) AS folder"
            " FROM standing WHERE principal = ? ORDER BY id",
            (principal,),
        )
    )
    found["jobs.jsonl"] = _rows(
        connection.execute(
            "SELECT created_at, kind, rule, zone, state, unseal(template, 'job.template', made_by)"
            " AS message FROM job WHERE principal = ? ORDER BY id",
            (principal,),
        ),
        "message",
    )
    channel, _, sender = principal.partition(":")
    found["access.jsonl"] = _rows(
        connection.execute(
            "SELECT account, name, owner, approved_by, approved_at FROM member"
            " WHERE channel = ? AND sender = ?",
            (channel, sender),
        )
    )
    return {name: text for name, text in found.items() if text}


def _rows(cursor: Cursor, *as_json: str) -> str:
    names = [column[0] for column in cursor.description]

    def lines() -> Iterator[str]:
        for row in cursor:
            line: dict[str, Any] = dict(zip(names, row, strict=True))
            for name in as_json:
                line[name] = json.loads(line[name])
            yield json.dumps(line, ensure_ascii=False)

    return _joined(lines())


def _joined(lines: Any) -> str:
    return "".join(f"{line}\n" for line in lines)
