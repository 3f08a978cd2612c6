"""Shows an answer while it grows: first typing, then one message that is edited."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

from agent import events
from agent.events import Event
from agent.frozen import frozen
from gateway.channels.base import Ambiguous, SendError, Streams, Types
from gateway.store import outbox
from gateway.store.database import Database, StoreError
from gateway.store.outbox import Letter

log = logging.getLogger(__name__)

# A turn that is over by then needs no preview: its answer is one send.
FIRST_AFTER_S = 0.7
# An answer that is there by then needs no "typing" in front of it.
TYPING_AFTER_S = 0.3
TYPING_EVERY_S = 4.5
PRIVATE_EVERY_S = 1.0
GROUP_EVERY_S = 3.5


@runtime_checkable
class Shows(Streams, Types, Protocol):
    """A channel that can show an answer while it grows, and that somebody is typing."""


@frozen
class Pace:
    """Seconds before the first text is shown, and between two edits; `clean` is what a text goes
    through before."""

    first_after_s: float
    every_s: float
    clean: Callable[[str], str] = str


class Preview:
    """The growing answer of one turn. `feed` it events, and `close` it before the final commit.
    `said` is what an earlier run of the turn has said.

    Its outbox row exists before its first send, and the platform's id of the message is journaled
    as soon as it returns: the final text is an edit of that message, also after a crash.
    """

    def __init__(
        self,
        database: Database,
        channel: Shows,
        turn: int,
        letter: Letter,
        pace: Pace,
        said: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._channel = channel
        self._turn = turn
        self._letter = letter
        self._pace = pace
        self._done_texts = list(said)
        self._text = ""
        # The model's list of what is to be done: shown while it works, not part of the answer.
        self._list = ""
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()

    def feed(self, event: Event) -> None:
        match event:
            case events.IterationStart():
                if self._text.strip():
                    self._done_texts.append(self._text.strip())
                self._text = ""
            case events.TextDelta(text):
                self._text += text
                self._changed.set()
            case events.Retry():
                self._text = ""
            case events.ToolResulted(name="todo", content=content, is_error=False):
                self._list = content
                self._changed.set()

    def close(self) -> None:
        """No further updates; one that is under way ends by itself (see `run`)."""
        self._closed.set()
        self._changed.set()

    async def run(self) -> None:
        """Show until closed. No trouble of the platform or the disk fails a turn: what cannot be
        shown is left out."""
        async with asyncio.TaskGroup() as group:
            typing = group.create_task(self._type())
            try:
                await self._show()
            except StoreError as exc:
                # What is not on disk could not be edited after a crash: nothing more is shown.
                log.warning("preview of %s ends: %s", self._letter.delivery_id, exc)
            finally:
                typing.cancel()

    async def _type(self) -> None:
        await asyncio.sleep(TYPING_AFTER_S)
        while True:
            with suppress(SendError):
                await self._channel.typing(self._letter.route)
            await asyncio.sleep(TYPING_EVERY_S)

    async def _show(self) -> None:
        """Send the first text once the turn has lasted a while, then edit it at the pace."""
        provider_msg: str | None = None
        shown = ""
        pause_s = self._pace.first_after_s
        while await self._open_after(pause_s):
            pause_s = self._pace.every_s
            parts = [*self._done_texts, self._text.strip(), self._list]
            text = "\n\n".join(filter(None, parts))
            if not text or text == shown:
                continue
            try:
                if not shown:
                    begun = await self._begin()
                    if begun.lost:
                        return  # A message of a run that was cut off may stand there already.
                    provider_msg = begun.provider_msg
                provider_msg = await self._update(text, provider_msg)
            except Ambiguous:
                if provider_msg is None:
                    # It may be there or not, and no id tells: the answer goes out anew, marked.
                    await self._database.run(outbox.set_preview_lost, self._letter.delivery_id)
                    return
            except SendError as exc:
                log.info("preview of %s skipped: %s", self._letter.delivery_id, exc)
            else:
                shown = text

    async def _begin(self) -> outbox.Preview:
        return await self._database.run(outbox.begin_stream, self._turn, self._letter, time.time())

    async def _update(self, text: str, provider_msg: str | None) -> str:
        letter, text = self._letter, self._pace.clean(text)
        shown = await self._channel.preview(letter.route, text, provider_msg, letter.reply_to)
        if shown != provider_msg:
            await self._database.run(outbox.set_preview, letter.delivery_id, shown)
        return shown

    async def _open_after(self, seconds: float) -> bool:
        """Wait so long, and for text; False as soon as the preview is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        await self._changed.wait()
        self._changed.clear()
        return not self._closed.is_set()
