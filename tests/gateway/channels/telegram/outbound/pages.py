"""Checks of a text split into messages."""

from gateway.channels.telegram.outbound.rich_message import plain_entities
from gateway.channels.telegram.outbound.split import MAX_UNITS
from gateway.channels.telegram.utf16 import units
from gateway.core.messages import OutboundPart
from tests.fakes.bot_text import check_entities, check_text


def check(part: OutboundPart, limit: int = MAX_UNITS) -> None:
    check_text(part.text)
    assert units(part.text) <= limit
    check_entities(
        part.text,
        [
            {"type": e.type, "offset": e.offset, "length": e.length, **e.extra}
            for e in plain_entities(part)
        ],
    )
