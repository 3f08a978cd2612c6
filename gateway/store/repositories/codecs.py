"""What people said, as rows keep it: JSON, which the store seals for its place if it has a key."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agent.serialization import dumps, message_from_json, message_to_json
from agent.types import Message
from gateway.core.messages import Button, Entity, InboundMessage, OutboundFile, OutboundPart
from gateway.store.port import Transaction

# The columns that hold a message of a conversation, of the inbox, and a part of the outbox: what
# the functions below need of a row.
CONTENT = "session, n, content"
PAYLOAD = "channel, account, event_id, payload"
PART = "body, entities, files, buttons"
# A payload of which nothing is left.
NO_PAYLOAD = "{}"


def message_from_row(tx: Transaction, session: str, n: int, content: str) -> Message:
    return message_from_json(json.loads(tx.unseal(content, "message.content", session, n)))


def content_of(tx: Transaction, session: str, n: int, message: Message) -> str | None:
    """The column `content` of message `n`."""
    return tx.seal(dumps(message_to_json(message)), "message.content", session, n)


def inbound_from_row(
    tx: Transaction, channel: str, account: str, event_id: str, payload: str
) -> InboundMessage:
    return InboundMessage.from_json(payload_from_row(tx, channel, account, event_id, payload))


def payload_from_row(
    tx: Transaction, channel: str, account: str, event_id: str, payload: str
) -> str:
    return str(tx.unseal(payload, "inbox.payload", channel, account, event_id))


def payload_of(
    tx: Transaction, channel: str, account: str, event_id: str, payload: str
) -> str | None:
    """The column `payload` of this row of the inbox."""
    return tx.seal(payload, "inbox.payload", channel, account, event_id)


def put_payload(tx: Transaction, seq: int, payload: str) -> None:
    """In the place of what this row of the inbox holds."""
    channel, account, event_id = tx.one(
        "SELECT channel, account, event_id FROM inbox WHERE seq = ?", (seq,)
    )
    sealed = payload_of(tx, channel, account, event_id, payload)
    tx.run("UPDATE inbox SET payload = ? WHERE seq = ?", (sealed, seq))


def part_from_row(tx: Transaction, row: Mapping[str, Any]) -> OutboundPart:
    """`row` has the columns `PART`, `delivery_id` and `part`."""
    key = row["delivery_id"], row["part"]
    entities = json.loads(tx.unseal(row["entities"], "outbox.entities", *key))
    return OutboundPart(
        tx.unseal(row["body"], "outbox.body", *key),
        tuple(Entity(**one) for one in entities),
        tuple(Button(**one) for one in json.loads(row["buttons"])),
        tuple(OutboundFile(**one) for one in files_from_row(tx, *key, row["files"])),
    )


def _file_values(file: OutboundFile) -> dict[str, Any]:
    """Without what is not set: an older Kore refuses what it does not know."""
    values = asdict(file)
    if file.digest is None:
        del values["digest"]
    return values


def files_from_row(
    tx: Transaction, delivery_id: str, number: int, files: str
) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads(tx.unseal(files, "outbox.files", delivery_id, number))
    return data


def columns_of_part(
    tx: Transaction, delivery_id: str, number: int, part: OutboundPart
) -> dict[str, str | None]:
    """The columns `PART` of part `number` of a delivery."""

    def seal(text: str, name: str) -> str | None:
        return tx.seal(text, f"outbox.{name}", delivery_id, number)

    return {
        "body": seal(part.text, "body"),
        "entities": seal(dumps([asdict(entity) for entity in part.entities]), "entities"),
        "files": seal(dumps([_file_values(file) for file in part.files]), "files"),
        "buttons": dumps([asdict(button) for button in part.buttons]),
    }
