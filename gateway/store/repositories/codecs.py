"""Codecs for messages in rows: JSON, sealed for its row and column if the store has a key.

Readers of the inbox skip rows that were changed outside of Kore. The transaction reports such a row
to the log and the audit log, once and without its content.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from agent.serialization import dumps, message_from_json, message_to_json
from agent.types import Message
from gateway.core.messages import (
    Button,
    Entity,
    InboundMessage,
    OutboundFile,
    OutboundKind,
    OutboundPart,
)
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction

# Columns of a message in a conversation, a message in the inbox, and a part of the outbox, for the
# functions below.
CONTENT = "session, n, content"
PAYLOAD = "channel, account, event_id, lane, principal, payload"
PART = "body, entities, files, buttons"
# Destination of a part, which its texts are bound to.
PART_ROUTE = "lane, channel, account, chat, thread"
QUESTION = "approval.question"
# Columns that the text of a question to a person is bound to, starting with its key.
QUESTION_PLACE = (
    "nonce, turn_id, step, args_hash, grant_hash, session, asker, principal, lane, channel,"
    " account, chat, thread, state, answered_by"
)
# Payload of a message after its contents were deleted.
NO_PAYLOAD = "{}"
# Reason for giving up a message of the inbox.
_CHANGED = "changed outside of Kore"


def message_from_row(tx: Transaction, session: str, n: int, content: str) -> Message:
    return message_from_json(json.loads(tx.unseal(content, "message.content", session, n)))


def content_of(tx: Transaction, session: str, n: int, message: Message) -> str | None:
    """Return the column `content` of message `n`."""
    return tx.seal(dumps(message_to_json(message)), "message.content", session, n)


def inbound_from_row(tx: Transaction, *columns: str) -> InboundMessage:
    """Return the message in the columns `PAYLOAD`."""
    return InboundMessage.from_json(payload_from_row(tx, *columns))


def payload_from_row(tx: Transaction, *columns: str) -> str:
    """Return the JSON in the columns `PAYLOAD`."""
    *place, payload = columns
    return str(tx.unseal(payload, "inbox.payload", *place))


def payload_of(tx: Transaction, place: Sequence[str], payload: str) -> str | None:
    """Return the column `payload` of a row of the inbox; `place` contains its other `PAYLOAD`
    columns.
    """
    return tx.seal(payload, "inbox.payload", *place)


def put_payload(tx: Transaction, seq: int, payload: str) -> None:
    """Replace the payload of this row of the inbox."""
    place = tx.one(
        "SELECT channel, account, event_id, lane, principal FROM inbox WHERE seq = ?", (seq,)
    )
    sealed = payload_of(tx, place, payload)
    tx.run("UPDATE inbox SET payload = ? WHERE seq = ?", (sealed, seq))


def readable(tx: Transaction, rows: Iterable[Row]) -> Iterator[tuple[int, InboundMessage]]:
    """Yield the unchanged messages in rows of `seq` and `PAYLOAD`, each with its number."""
    for seq, *columns in rows:
        try:
            message = inbound_from_row(tx, *columns)
        except SealBroken:
            continue
        yield seq, message


def bury_changed(tx: Transaction, rows: Iterable[Row]) -> list[tuple[int, InboundMessage]]:
    """Return the `readable` messages and give up the others.

    A changed message therefore does not block the messages after it.
    """
    rows = list(rows)
    messages = list(readable(tx, rows))
    for seq in {row[0] for row in rows} - {seq for seq, _ in messages}:
        bury(tx, seq)
    return messages


def bury(tx: Transaction, seq: int) -> str | None:
    """Give up a message that cannot be read, and return its lane."""
    row = tx.first("UPDATE inbox SET dead_reason = ? WHERE seq = ? RETURNING lane", (_CHANGED, seq))
    return row[0] if row else None


def part_from_row(tx: Transaction, row: Mapping[str, Any]) -> OutboundPart:
    """Return a part; `row` has `PART`, `PART_ROUTE`, `delivery_id`, `part` and `kind`."""
    place = row["delivery_id"], row["part"], *(row[name] for name in PART_ROUTE.split(", "))
    entities = json.loads(tx.unseal(row["entities"], "outbox.entities", *place))
    return OutboundPart(
        tx.unseal(row["body"], "outbox.body", *place, row["kind"], row["buttons"]),
        tuple(Entity(**entity) for entity in entities),
        tuple(Button(**load) for load in json.loads(row["buttons"])),
        tuple(OutboundFile(**item) for item in files_from_row(tx, row["files"], *place)),
    )


def files_from_row(tx: Transaction, files: str, *place: Any) -> list[dict[str, Any]]:
    """Return the files of a part; `place` is the delivery, the part, and `PART_ROUTE`."""
    data: list[dict[str, Any]] = json.loads(tx.unseal(files, "outbox.files", *place))
    return data


def columns_of_part(
    tx: Transaction, place: Sequence[Any], kind: OutboundKind, part: OutboundPart
) -> dict[str, str | None]:
    """Return the columns `PART` of a part; `place` is as in `files_from_row`."""
    buttons = dumps([asdict(button) for button in part.buttons])
    entities = dumps([asdict(entity) for entity in part.entities])
    files = dumps([asdict(file) for file in part.files])
    return {
        "body": tx.seal(part.text, "outbox.body", *place, kind, buttons),
        "entities": tx.seal(entities, "outbox.entities", *place),
        "files": tx.seal(files, "outbox.files", *place),
        "buttons": buttons,
    }


def put_part(
    tx: Transaction, seq: int, place: Sequence[Any], kind: OutboundKind, part: OutboundPart
) -> None:
    """Replace the part in this row of the outbox."""
    tx.run(
        "UPDATE outbox SET body = ?, entities = ?, files = ?, buttons = ? WHERE seq = ?",
        (*columns_of_part(tx, place, kind, part).values(), seq),
    )


def withdraw_questions(tx: Transaction, turn: int, now: float) -> None:
    """Withdraw the open questions of an ended turn.

    A question that was changed outside of Kore stays unreadable.
    """
    rows = tx.all(
        f"SELECT question, {QUESTION_PLACE} FROM approval WHERE turn_id = ? AND state = 'open'",
        (turn,),
    )
    for question, nonce, *place in rows:
        with suppress(SealBroken):
            text = tx.unseal(question, QUESTION, nonce, *place)
            question = tx.seal(text, QUESTION, nonce, *place[:-2], "withdrawn", None)
        tx.run(
            "UPDATE approval SET state = 'withdrawn', answered_at = ?, answered_by = NULL,"
            " question = ? WHERE nonce = ?",
            (now, question, nonce),
        )
