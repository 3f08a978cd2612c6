"""What one platform message holds, as a row of the outbox keeps it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agent.serialization import dumps
from gateway.core.messages import Button, Entity, OutboundFile, OutboundPart

# The columns that hold it; the sealed ones are opened by the words they were shut with.
COLUMNS = "body, entities, files, buttons"
OPENED = (
    "unseal(body, 'outbox.body', delivery_id, part),"
    " unseal(entities, 'outbox.entities', delivery_id, part),"
    " unseal(files, 'outbox.files', delivery_id, part), buttons"
)
SEALING = (
    "seal(:body, 'outbox.body', :delivery_id, :part),"
    " seal(:entities, 'outbox.entities', :delivery_id, :part),"
    " seal(:files, 'outbox.files', :delivery_id, :part), :buttons"
)


def to_row(part: OutboundPart) -> dict[str, str]:
    """What `SEALING` puts into the columns."""
    return {
        "body": part.text,
        "entities": dumps([asdict(entity) for entity in part.entities]),
        "files": dumps([asdict(file) for file in part.files]),
        "buttons": dumps([asdict(button) for button in part.buttons]),
    }


def from_row(row: Mapping[str, Any]) -> OutboundPart:
    return OutboundPart(
        row["body"],
        tuple(Entity(**one) for one in json.loads(row["entities"])),
        tuple(Button(**one) for one in json.loads(row["buttons"])),
        tuple(OutboundFile(**one) for one in json.loads(row["files"])),
    )
