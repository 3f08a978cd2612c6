"""Preview of a growing answer: a typing indicator, then messages that are edited.

Below the text, a status line shows the current activity. Before there is any text, that line
appears only in drafts, which vanish on their own: a message with nothing else might be left behind.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

from agent import events
from agent.events import Event
from agent.records import frozen
from gateway.channels.base import (
    Ambiguous,
    PreviewContent,
    SendError,
    SupportsDrafts,
    SupportsStreaming,
    SupportsTyping,
)
from gateway.core.markdown import close_code_block
from gateway.core.messages import OutboundPart
from gateway.delivery.activity_status import ActivityStatus
from gateway.store.errors import StoreError
from gateway.store.port import Store
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply

log = logging.getLogger(__name__)

# A turn that ends earlier needs no preview: its answer is one send.
FIRST_AFTER_S = 0.7
# An answer that arrives earlier needs no typing indicator.
TYPING_AFTER_S = 0.3
TYPING_INTERVAL_S = 4.5
PRIVATE_INTERVAL_S = 1.0
GROUP_INTERVAL_S = 3.5
# After this time without text, the status line is shown.
LINE_AFTER_S = 2.5
# Interval for checking the status line for changes.
POLL_INTERVAL_S = 2.0
# Drafts vanish after half a minute, so they are repeated earlier.
SKETCH_AGAIN_S = 20.0
_LEFT_OVER = OutboundPart("…")


@runtime_checkable
class SupportsPreview(SupportsStreaming, SupportsTyping, Protocol):
    """Channel that can show a growing answer and a typing indicator."""


@frozen
class PreviewTiming:
    """Timing of a preview, in seconds, and its text filters.

    The times are from the first text to the first display, between edits, before a status line
    without text, and between checks. `clean` filters each displayed text; `defuse` filters text
    that the turn adds to the model's text.
    """

    first_after_s: float
    every_s: float
    clean: Callable[[str], str] = str
    defuse: Callable[[str], str] = str
    line_after_s: float = LINE_AFTER_S
    look_every_s: float = POLL_INTERVAL_S


class StreamingPreview:
    """Preview of one turn's growing answer.

    `feed` it events, and `close` it before the final commit. `earlier_texts` is the output of an
    earlier run of the turn.

    It starts once its route has no waiting messages, so that it overtakes no earlier answer. Text
    that outgrows a message continues in another. The outbox row of each message exists before its
    first send, and the platform's id is journaled as soon as the send returns. Each part of the
    final text is an edit of its message, even after a crash.
    """

    def __init__(
        self,
        *,
        database: Store,
        channel: SupportsPreview,
        turn: int,
        reply: OutgoingReply,
        timing: PreviewTiming,
        earlier_texts: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._channel = channel
        self._turn = turn
        self._outgoing = reply
        self._timing = timing
        self._done_texts = list(earlier_texts)
        self._text = ""
        # The model's to-do list: shown while it works, not part of the answer.
        self._list = ""
        self._activity = ActivityStatus()
        self._began_at = time.monotonic()
        self._first_at: float | None = None
        # Platform ids of the messages, and their displayed content.
        self._ids: list[str] = []
        self._pages: dict[int, OutboundPart] = {}
        # The last content of messages and drafts, and the time of the draft.
        self._last_content = ("", "")
        self._last_draft, self._draft_at = PreviewContent(""), 0.0
        self._is_paused = False
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()

    def feed(self, event: Event) -> None:
        self._activity.feed(event)
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
            case events.ToolResulted(kind="plan", content=content, is_error=False):
                self._list = self._timing.defuse(content)
                self._changed.set()
            case events.ToolStart():
                self._changed.set()
        if not self._text_so_far():
            self._first_at = None
        elif self._first_at is None:
            self._first_at = time.monotonic()

    @property
    def pages(self) -> Mapping[int, OutboundPart]:
        """Confirmed content of the messages, by number."""
        return self._pages

    def set_paused(self, sentence: str) -> None:
        """Show the sentence that explains what the paused turn is waiting for."""
        self._activity.set_paused(sentence)
        self._is_paused = True

    def close(self) -> None:
        """Stop updates; an update in progress may finish (see `run`)."""
        self._closed.set()
        self._changed.set()

    async def run(self) -> None:
        """Update the preview until it is closed.

        Errors of the platform or the disk never fail a turn; the preview omits text that it cannot
        show.
        """
        # Most turns end by then and need neither typing nor preview.
        quiet_s = min(TYPING_AFTER_S, self._timing.first_after_s)
        if await self._closes_within(quiet_s):
            return
        async with asyncio.TaskGroup() as group:
            typing = group.create_task(self._type(TYPING_AFTER_S - quiet_s))
            try:
                if (
                    await self._show(self._timing.first_after_s - quiet_s)
                    and self._is_paused
                    and self._ids
                ):
                    await self._grow()
            except StoreError as exc:
                # Without its row on disk, a message could not be edited after a crash.
                log.warning("preview of %s ends: %s", self._outgoing.delivery_id, exc)
                await self._closed.wait()
                await self._store_ids()
            finally:
                typing.cancel()

    async def _type(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        while True:
            with suppress(SendError):
                await self._channel.typing(self._outgoing.route)
            await asyncio.sleep(TYPING_INTERVAL_S)

    async def _show(self, pause_s: float) -> bool:
        """Send the first text after `pause_s`, then edit it at the configured interval.

        Returns False when the chat may contain a message with an unknown id: no other may follow
        it.
        """
        while await self._open_after(pause_s):
            pause_s = self._timing.every_s
            preview_kind = self._channel.streaming(self._outgoing.route)
            if preview_kind == "off":
                continue
            if not self._ids and (rest_s := self._too_early_s()) > 0:
                pause_s = rest_s
                self._changed.set()
                continue
            if not self._ids and (preview_kind == "drafts" or not self._text_so_far()):
                await self._send_draft()
            elif not await self._grow():
                return False
        return True

    def _too_early_s(self) -> float:
        """Return the delay before the first send, in seconds.

        An answer that completes soon after its first word is one message, sent once.
        """
        if self._first_at is None:
            return 0.0
        return self._first_at + self._timing.first_after_s - time.monotonic()

    def _text_so_far(self) -> str:
        text = self._text.strip()
        if self._list:
            text = close_code_block(text)
        return "\n\n".join(filter(None, [*self._done_texts, text, self._list]))

    @property
    def _status(self) -> str:
        return self._timing.defuse(self._activity.line)

    async def _send_draft(self) -> None:
        """Show a draft, which vanishes on its own, if the platform supports drafts."""
        content = PreviewContent(self._text_so_far(), self._status)
        now = time.monotonic()
        due = content.text or now - self._began_at >= self._timing.line_after_s
        is_recent = content == self._last_draft and now - self._draft_at < SKETCH_AGAIN_S
        is_blank = not content.text and not content.status_line
        if due and not is_blank and not is_recent and isinstance(self._channel, SupportsDrafts):
            if await self._database.transact(outbox.has_mail, self._outgoing.route.lane):
                return
            with suppress(SendError):
                clean = self._timing.clean
                redacted = PreviewContent(clean(content.text), clean(content.status_line))
                await self._channel.show_draft(self._outgoing.route, redacted, self._turn)
            self._last_draft, self._draft_at = content, now

    async def _grow(self) -> bool:
        """Send or edit the messages that changed; False when a message id is unknown."""
        now = (self._text_so_far(), self._status)
        if not now[0] or now == self._last_content:
            return True
        clean = self._timing.clean
        pages = list(self._channel.pages(PreviewContent(clean(now[0]), clean(now[1]))))
        # After a retry the text may be shorter: the surplus messages stay empty until it grows.
        pages += [_LEFT_OVER] * (len(self._ids) - len(pages))
        for number, page in enumerate(pages):
            if self._pages.get(number) == page:
                continue
            try:
                if number == len(self._ids):
                    row = await self._begin(number)
                    if row is None:
                        return True  # Earlier answers wait on this route.
                    if row.lost:
                        return False  # The chat may contain a message from an interrupted run.
                    if row.provider_message_id is not None:
                        self._ids.append(row.provider_message_id)
                await self._update(number, page)
            except Ambiguous:
                # A new message may have arrived without a known id: it stays marked.
                return number < len(self._ids)
            except SendError as exc:
                log.info("preview of %s skipped: %s", self._outgoing.delivery_id, exc)
                if number == len(self._ids):
                    await self._store(number, None)
                return True
        self._last_content = now
        return True

    async def _begin(self, number: int) -> outbox.PreviewRow | None:
        return await self._database.transact(
            outbox.begin_stream, self._turn, self._outgoing, number, time.time()
        )

    async def _update(self, number: int, page: OutboundPart) -> None:
        self._pages.pop(number, None)
        await self._database.until_held()
        reply = self._outgoing
        if number < len(self._ids):
            await self._channel.preview(reply.route, page, self._ids[number])
        else:
            reply_to = reply.reply_to if number == 0 else None
            message_id = await self._channel.preview(reply.route, page, None, reply_to)
            self._ids.append(message_id)
            await self._store(number, message_id)
        self._pages[number] = page

    async def _store(self, number: int, provider_message_id: str | None) -> None:
        await self._database.transact(
            outbox.set_preview, self._outgoing.delivery_id, number, provider_message_id
        )

    async def _store_ids(self) -> None:
        """Retry storing the message ids that the disk refused.

        The answer edits those messages if their ids are stored; otherwise it is marked.
        """
        for number, provider_message_id in enumerate(self._ids):
            try:
                await self._store(number, provider_message_id)
            except StoreError as exc:
                log.warning(
                    "a message id of %s could not be stored: %s", self._outgoing.delivery_id, exc
                )

    async def _open_after(self, seconds: float) -> bool:
        """Wait for this time and then for a change; False as soon as the preview is closed."""
        if await self._closes_within(seconds):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.look_every_s):
                await self._changed.wait()
        self._changed.clear()
        return not self._closed.is_set()

    async def _closes_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        return self._closed.is_set()
