"""Sender of outbox messages: in order per route, with repeated messages marked."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from agent.i18n import mark_for_translation, use_locale
from gateway.channels.base import (
    Ambiguous,
    BadFormat,
    Channel,
    ChannelRateLimited,
    ChatMoved,
    ChatUnreachable,
    MessageNotFound,
    MessageRefused,
    SendError,
    SupportsAdmission,
    SupportsProbe,
    SupportsReachability,
    TopicNotFound,
    ability,
)
from gateway.core.messages import OutboundPart, Route
from gateway.delivery.outbound_files import FOLDER, OutgoingFiles, send_message, without_files
from gateway.delivery.outbox_reader import OutboxReader, Wait
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.retry_policy import (
    JITTER,
    MAX_AMBIGUOUS_TRIES,
    backoff_s,
    is_expired,
    is_last_try,
)
from gateway.delivery.user_language import UserLanguages
from gateway.runtime.clock import SteadyClock
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import chats, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart

# Limit over all chats; further work is skipped.
MAX_TASKS = 32
TASK_TIMEOUT_S = 20.0
log = logging.getLogger(__name__)

# Returns the number of ended parts, and a lane with a new message.
RecordUnreachable = Callable[[Transaction, Route, str, float], tuple[int, str | None]]

LOST = mark_for_translation("⚠️ Part of my answer could not be sent. Ask again and I'll repeat it.")


class BestEffortTasks:
    """Runner for cosmetic work, limited in number and duration; errors are logged."""

    def __init__(self, *, lasts_s: float = TASK_TIMEOUT_S) -> None:
        self._lasts_s = lasts_s
        self._pieces = 0

    def begin(self, group: asyncio.TaskGroup, work: Callable[[], Awaitable[None]]) -> None:
        """Start the work as a task of `group`, unless too many are running."""
        if self._pieces < MAX_TASKS:
            self._pieces += 1
            group.create_task(
                self._run_for_a_while(work), name="after an answer"
            ).add_done_callback(self._end)

    async def _run_for_a_while(self, work: Callable[[], Awaitable[None]]) -> None:
        piece = asyncio.ensure_future(work())
        try:
            await asyncio.wait({piece}, timeout=self._lasts_s)
        finally:
            piece.cancel()
            await asyncio.wait({piece})
        if not piece.cancelled() and (bug := piece.exception()) is not None:
            log.error("background work after an answer failed", exc_info=bug)

    def _end(self, _: "asyncio.Task[None]") -> None:
        self._pieces -= 1


async def wait_for(wake: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or the time has elapsed."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await wake.wait()
    except TimeoutError:
        return


@dataclass(slots=True)
class DirectSend:
    """Direct send of a reply's first part, once that is on disk and marked as in flight."""

    part: PendingPart | None = None


class OutboxSender:
    """Sender of outbox messages, with one task per route; only a route's head is tried.

    `when_given_up` is called inside the transaction that gives up a part of a delivery; it returns
    a callback for after the commit. `record_unreachable` ends the messages for a chat that accepts
    no text. `clock` returns Unix time in seconds and does not jump; `wait` pauses a route until its
    next attempt; `outgoing` manages files. In a process that sends nothing itself, `pass_on`
    notifies the sending process.
    """

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        renderer: ReplyRenderer,
        languages: UserLanguages,
        when_given_up: Callable[[Transaction, str], Callable[[], None]],
        record_unreachable: RecordUnreachable,
        clock: Callable[[], float] | None = None,
        wait: Wait = wait_for,
        pass_on: Callable[[str], None] | None = None,
        outgoing: OutgoingFiles | None = None,
    ) -> None:
        self._pass_on = pass_on
        self.outgoing = outgoing or OutgoingFiles(database.folder / FOLDER)
        self._database = database
        self._renderer = renderer
        self._languages = languages
        self._when_given_up = when_given_up
        self._record_unreachable = record_unreachable
        self._clock = clock or SteadyClock()
        self._wait = wait
        self._reader = OutboxReader(database, self._clock, wait)
        self._routes: dict[str, asyncio.Event] = {}
        self._sending: set[str] = set()
        self._broken_lanes: set[str] = set()
        # Routes with a waiting time set by the platform.
        self._limited: set[str] = set()
        self._group: asyncio.TaskGroup | None = None
        # True while `run` wakes the routes of an earlier process.
        self._is_resuming = False
        self._best_effort = BestEffortTasks()
        self._idle = asyncio.Event()
        self._idle.set()
        self.sent_count = 0
        self.failed_count = 0
        self.given_up_count = 0

    async def run(self) -> None:
        """Send until cancelled, starting with messages of an earlier process."""
        async with asyncio.TaskGroup() as group:
            self._group, self._is_resuming = group, True
            for channel in self._renderer.channels.values():
                if isinstance(channel, SupportsReachability):
                    channel.when_reachable(partial(self._retry_channel, channel))
            try:
                for lane in await self._database.transact(outbox.lanes_with_mail):
                    self.wake(lane)
                self._is_resuming = False
                await asyncio.Event().wait()
            finally:
                self._group, self._is_resuming = None, False

    def wake(self, lane: str) -> None:
        """Notify the route of new messages or a reason to retry."""
        if self._pass_on is not None:
            self._pass_on(lane)
            return
        if self._group is None or lane in self._broken_lanes:
            return  # `run` starts with every route that has messages.
        wake = self._routes.get(lane)
        if wake is None:
            wake = self._routes[lane] = asyncio.Event()
            self._begin_route(lane, wake)
        self._mark_busy(lane)
        wake.set()

    @contextmanager
    def direct_send(self, reply: OutgoingReply | None) -> Iterator["DirectSend | None"]:
        """Let the transaction that stores `reply` mark its first part as in flight.

        This requires an idle route and free capacity on the platform; otherwise, yield None. The
        context owns the route: wake-ups are processed afterwards, even if the body fails, since a
        marked part that is not handed over is still the head of its route.
        """
        if self._group is None or reply is None or not self._is_free(reply):
            yield None
            return
        lane, direct = reply.route.lane, DirectSend()
        wake = self._routes[lane] = asyncio.Event()
        self._mark_busy(lane)
        try:
            yield direct
        finally:
            self._begin_route(lane, wake, direct.part)

    def _begin_route(
        self, lane: str, wake: asyncio.Event, admitted_part: PendingPart | None = None
    ) -> None:
        if self._group is not None:
            self._group.create_task(self._drain(lane, wake, admitted_part), name=f"route {lane}")
        else:
            del self._routes[lane]
            self._mark_idle(lane)

    def _is_free(self, reply: OutgoingReply) -> bool:
        """Return whether the first part would be sent at once."""
        channel, lane = self._renderer.channel(reply.route), reply.route.lane
        if channel is None or lane in self._routes or lane in self._broken_lanes:
            return False
        if not reply.parts or reply.preview_parts.get(0) == reply.parts[0]:
            return False
        admission = ability(channel, SupportsAdmission)
        return admission is None or admission.try_admit(reply.route)

    async def retry_now(self, lane: str) -> None:
        """Retry at once, because the route has a viewer again."""
        await self._database.transact(outbox.due_now, lane)
        self.wake(lane)

    def _retry_channel(self, channel: Channel) -> None:
        """Retry the failed messages of a channel whose platform responds again."""
        prefix = f"{channel.name}:{channel.account}:"
        for lane in [route for route in self._routes if route.startswith(prefix)]:
            if self._group is not None and lane not in self._limited:
                self._group.create_task(self.retry_now(lane), name=f"retry of {lane}")

    async def post(self, reply: OutgoingReply) -> None:
        """Queue a message that belongs to no turn, and send it."""
        await self._database.transact(outbox.put, None, [reply], self._clock())
        self.wake(reply.route.lane)

    async def flush(self) -> None:
        """Wait until every route has sent its due messages, for a clean stop."""
        await self._idle.wait()

    @property
    def routes(self) -> int:
        """Number of routes with messages, plus one until `run` has queried them."""
        return len(self._routes) + len(self._broken_lanes) + self._is_resuming

    async def _drain(
        self, lane: str, wake: asyncio.Event, admitted_part: PendingPart | None = None
    ) -> None:
        """Send the route's messages, first `admitted_part`, which is marked as in flight."""
        try:
            while True:
                wake.clear()
                self._mark_busy(lane)
                if admitted_part is not None:
                    due = await self._send(lane, admitted_part, is_admitted=True)
                    admitted_part = None
                else:
                    due = await self._reader.next_part(lane)
                while isinstance(due, PendingPart):
                    due = await self._send(lane, due)
                if due is None and not wake.is_set():
                    return
                if due is not None:
                    self._mark_idle(lane)
                    await self._wait(wake, due - self._clock())
        except StoreError as exc:
            # Parts in flight may have arrived: only the next start can mark them.
            self._broken_lanes.add(lane)
            log.error("sending to %s is suspended until the next start: %s", lane, exc)
        finally:
            del self._routes[lane]
            self._mark_idle(lane)

    def _mark_busy(self, lane: str) -> None:
        self._sending.add(lane)
        self._idle.clear()

    def _mark_idle(self, lane: str) -> None:
        self._sending.discard(lane)
        if not self._sending:
            self._idle.set()

    async def _send(
        self, lane: str, due: PendingPart, *, is_admitted: bool = False
    ) -> PendingPart | float | None:
        """Send one part; return the next part or its due time."""
        route = due.message.route
        channel = self._renderer.channel(route)
        if channel is None:
            log.info("%s has messages for a channel that is not running here", lane)
            return None
        try:
            provider_message_id = due.message.provider_message_id
            if not due.is_previewed or provider_message_id is None:
                provider_message_id = await self._record_sent(channel, due, is_admitted)
        except SendError as exc:
            await self._settle(channel, due, exc)
        except Exception as exc:
            # A bug in a channel costs this part, not every chat; the part may have arrived.
            log.exception("%s could not be sent", due.message.delivery_id)
            await self._settle(channel, due, Ambiguous(f"{type(exc).__name__}: {exc}"))
        else:
            self.sent_count += 1
            answers = due.message.last and due.message.kind == "final"
            reacting = self._renderer.can_react(route) if answers else None
            following, left = await self._reader.record_sent(
                due, provider_message_id, lane, answers=reacting is not None
            )
            await self.outgoing.delete(due.message.content.files)
            if reacting is not None and self._group is not None:
                # The answer has arrived: clear the reactions of its questions, but not of later
                # messages.
                self._best_effort.begin(
                    self._group, partial(reacting.clear_reactions, due.message, left)
                )
            return following
        return await self._reader.next_part(lane)

    async def _record_sent(self, channel: Channel, due: PendingPart, is_admitted: bool) -> str:
        """Send the part when the platform has capacity; return the platform's id."""
        route = due.message.route
        # Copy files before the part counts as in flight: until then, nothing can have arrived.
        message = await self.outgoing.bring_here(due.message)
        if not is_admitted:
            await self._take(channel, due)
        await self._database.until_held()
        with use_locale(self._languages.of_route(route)):
            return await send_message(channel, message)

    async def _take(self, channel: Channel, due: PendingPart) -> None:
        """Mark the part as in flight once the platform has capacity."""
        if due.ambiguous and isinstance(channel, SupportsProbe):
            # The number of unclear attempts is limited, so make none while the platform is clearly
            # down.
            await channel.probe()
        if (admission := ability(channel, SupportsAdmission)) is not None:
            await admission.admit(due.message.route)
        await self._reader.run_with_retries(outbox.take, due.seq)

    async def _settle(self, channel: Channel, due: PendingPart, error: SendError) -> None:
        """Reschedule, change or give up a part that could not be sent."""
        run = self._reader.run_with_retries
        now = self._clock()
        self.failed_count += 1
        log.log(
            error.level,
            "not sent: %s part %d to %s: %s",
            due.message.delivery_id,
            due.message.part,
            due.message.route.lane,
            error,
        )
        self._limited.discard(due.message.route.lane)
        match error:
            case ChannelRateLimited(retry_after_s=wait_s):
                self._limited.add(due.message.route.lane)
                await run(outbox.reschedule, due.seq, now + wait_s, ambiguous=False)
            case BadFormat() if due.message.content.entities:
                await run(outbox.make_plain, due.seq)
            case ChatMoved(canonical_id=known_id, current_id=new_id):
                await run(chats.add_alias, due.message.route.channel, [(known_id, new_id)])
                wait_s = backoff_s(due, ambiguous=False) if due.attempts else 0.0
                await run(outbox.reschedule, due.seq, now + wait_s, ambiguous=False)
            case TopicNotFound() if due.message.route.thread_id:
                await run(outbox.leave_topic, due.seq)
            case MessageNotFound() if due.message.provider_message_id is not None:
                await run(outbox.make_new, due.seq)
            case ChatUnreachable() | MessageRefused() | BadFormat() if due.message.content.files:
                await self._leave_files(channel, due, error)
            case ChatUnreachable():
                await self._give_up(due, str(error), whole_lane=True)
            case MessageRefused() | BadFormat() | MessageNotFound() | TopicNotFound():
                await self._give_up(due, str(error))
            case _ if is_expired(due):
                await self._give_up(due, f"gave up after a day: {error}")
            case Ambiguous() if is_last_try(due):
                await self._give_up(due, f"unclear {MAX_AMBIGUOUS_TRIES} times: {error}")
            case _:
                ambiguous = isinstance(error, Ambiguous)
                wait_s = backoff_s(due, ambiguous=ambiguous) * random.uniform(*JITTER)  # noqa: S311 - jitter
                await run(
                    outbox.reschedule, due.seq, now + wait_s, ambiguous=ambiguous, rest_s=wait_s
                )

    async def _leave_files(self, channel: Channel, due: PendingPart, error: SendError) -> None:
        """Send the message without its files.

        It is given up only if the platform refuses the text, too.
        """
        message = due.message
        with use_locale(self._languages.of_route(message.route)):
            first, *more = without_files(channel, message, error)
        rest = OutgoingReply(
            delivery_id=f"{message.delivery_id}.text",
            route=message.route,
            parts=more,
            kind=message.kind,
            event_id=message.event_id,
        )

        def store(tx: Transaction) -> Callable[[], None]:
            outbox.replace_content(tx, due.seq, first)
            outbox.put_behind(tx, due.seq, rest, self._clock())
            return self._when_given_up(tx, message.delivery_id)

        (await self._reader.run_with_retries(store))()
        await self.outgoing.delete(message.content.files)

    def _end(
        self, tx: Transaction, due: PendingPart, reason: str, whole_lane: bool
    ) -> tuple[int, Callable[[], None]]:
        """Return the number of parts given up, and a callback for after the commit."""
        message = due.message
        follow = self._when_given_up(tx, message.delivery_id)
        if not whole_lane and message.kind == "final":
            notice = OutgoingReply(
                delivery_id=f"{message.delivery_id}.lost",
                route=message.route,
                parts=[OutboundPart(self._languages.text_for(message.route, LOST))],
                kind="notice",
                event_id=message.event_id,
            )
            outbox.put(tx, None, [notice], self._clock())
        others, lane = 0, None
        if whole_lane:
            lost, lane = self._record_unreachable(tx, message.route, reason, self._clock())
            others = lost - 1
        parts = outbox.give_up(tx, due.seq, reason, whole_lane=whole_lane) + max(0, others)

        def finish() -> None:
            follow()
            if lane is not None:
                self.wake(lane)

        return parts, finish

    async def _give_up(self, due: PendingPart, reason: str, *, whole_lane: bool = False) -> None:
        """Give up the part and report it to the owner and, if it has viewers, to the chat."""
        # A platform may quote the request URL, which contains the token.
        reason = self._renderer.clean(reason)
        parts, follow = await self._reader.run_with_retries(self._end, due, reason, whole_lane)
        follow()
        await self.outgoing.delete(due.message.content.files)
        self.given_up_count += parts
        log.error(
            "dropped %d messages to %s, from %s part %d on: %s",
            parts,
            due.message.route.lane,
            due.message.delivery_id,
            due.message.part,
            reason,
        )
