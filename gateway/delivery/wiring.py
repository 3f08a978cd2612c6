"""Wiring of the parts that render and send replies."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent.records import frozen
from agent.security.redaction import Redactor
from gateway.channels.base import Channel
from gateway.delivery.outbound_files import FOLDER, OutgoingFiles
from gateway.delivery.outbox_reader import Wait
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender, RecordUnreachable
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Store, Transaction

if TYPE_CHECKING:
    from gateway.store.files.file_store import SharedFiles


@frozen
class Delivery:
    """Parts that render and send replies, in people's languages."""

    languages: UserLanguages
    renderer: ReplyRenderer
    sender: OutboxSender


def wire_delivery(  # noqa: PLR0913 - the inputs by name
    *,
    database: Store,
    channels: Mapping[tuple[str, str], Channel],
    redactor: Redactor,
    language: str,
    files: "SharedFiles | None",
    pass_on: Callable[[str], None] | None,
    on_people_changed: Callable[[], None],
    on_given_up: Callable[[Transaction, str], Callable[[], None]],
    record_unreachable: RecordUnreachable,
    clock: Callable[[], float] | None,
    wait: Wait,
) -> Delivery:
    """Build the parts. Without `pass_on` this process sends what it stores."""
    languages = UserLanguages(language, on_people_changed)
    renderer = ReplyRenderer(channels, redactor)
    sender = OutboxSender(
        database=database,
        renderer=renderer,
        languages=languages,
        when_given_up=on_given_up,
        record_unreachable=record_unreachable,
        clock=clock,
        wait=wait,
        pass_on=pass_on,
        outgoing=OutgoingFiles(
            database.folder / FOLDER,
            files.outgoing if files else None,
            sends=pass_on is None,
        ),
    )
    return Delivery(languages, renderer, sender)
