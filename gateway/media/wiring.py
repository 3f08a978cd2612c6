"""Wiring of the parts that receive files, transcribe speech and read answers aloud."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.agent import Agent
from agent.records import frozen
from gateway.config import Settings
from gateway.delivery.wiring import Delivery
from gateway.media.downloader import MediaDownloader, shared_inbox
from gateway.media.speech import SpeechService
from gateway.media.storage import InboxPaths
from gateway.media.transcription import Transcriber
from gateway.media.uploads import Uploads
from gateway.store.port import Store

if TYPE_CHECKING:
    from gateway.media.shared_inbox import SharedInbox
    from gateway.store.files.file_store import SharedFiles


@frozen
class MediaParts:
    """Parts for files and voice. `shared` is the inbox that other machines can read, if any."""

    downloader: MediaDownloader
    shared: "SharedInbox | None"
    speech: SpeechService
    uploads: Uploads


def wire_media(  # noqa: PLR0913 - the inputs by name
    *,
    settings: Settings,
    agent: Agent,
    database: Store,
    delivery: Delivery,
    inboxes: InboxPaths,
    files: "SharedFiles | None",
    wake: Callable[[str], None],
) -> MediaParts:
    renderer, sender = delivery.renderer, delivery.sender
    shared = shared_inbox(settings.media, files, inboxes)
    return MediaParts(
        downloader=MediaDownloader(
            database=database,
            renderer=renderer,
            sender=sender,
            languages=delivery.languages,
            inboxes=inboxes,
            wake=wake,
            media=settings.media,
            transcribe=Transcriber(settings.transcription).transcribe,
            shared=shared,
        ),
        shared=shared,
        speech=SpeechService(
            settings=settings.tts, database=database, renderer=renderer, sender=sender
        ),
        uploads=Uploads(
            lambda: agent.workspace.folder, settings.media.max_file_mb * 2**20, shared=shared
        ),
    )
