"""Approvals: questions to people that are stored, so that they live through a restart."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from agent.approvals import Answer, ApprovalRequest, ServerQuestion
from agent.errors import KoreError
from agent.events import ApprovalAnswered, ApprovalAsked
from agent.i18n import t
from agent.records import frozen
from agent.security.policy.base import Answered
from agent.types import ToolCall
from gateway.access.approvals import (
    ApprovalContext,
    ApprovalService,
    ButtonOutcome,
)
from gateway.channels.base import SendError, SupportsButtonRemoval
from gateway.core.approval import ApprovalPrompt, ApprovalReply, new_nonce
from gateway.core.errors import AwaitingAnswer
from gateway.core.event_hub import EventHub
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender, wait_for
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories.access import approvals

log = logging.getLogger(__name__)

_PAUSE_S = 5.0


class ApprovalCoordinator:
    """Asks, takes answers, tells who has to know, and says no when the time is over. `wake` lets
    a lane go on; `tell_asked` and `tell_settled` tell other processes, where they run turns, too.
    """

    def __init__(  # noqa: PLR0913 - its collaborators, named once in the container
        self,
        *,
        database: Store,
        service: ApprovalService,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        events: EventHub,
        wake: Callable[[str], None],
        tell_asked: Callable[[], None] = lambda: None,
        tell_settled: Callable[[str, str], None] = lambda nonce, value: None,
    ) -> None:
        self._tell_asked = tell_asked
        self._tell_settled = tell_settled
        self._database = database
        self._service = service
        self._renderer = renderer
        self._sender = sender
        self._events = events
        self._wake = wake
        self._changed = asyncio.Event()
        self._has_orphans = True
        self._awaited: dict[str, asyncio.Future[ApprovalPrompt]] = {}

    def approver(self, context: Callable[[], ApprovalContext]) -> "TurnApprover":
        return TurnApprover(self, context)

    async def run(self) -> None:
        """Close questions without an answer at their deadline, until cancelled; and first those
        of servers that are gone."""
        while True:
            self._changed.clear()
            try:
                if has_orphans := self._has_orphans:
                    # Before the look: a process may end while it lasts.
                    self._has_orphans = False
                    self.publish_closed(
                        await self._database.transact(
                            self._service.withdraw_orphans, self._awaited, time.time()
                        )
                    )
                    has_orphans = False
                self.publish_closed(
                    await self._database.transact(self._service.expire, time.time())
                )
                next_at = await self._database.transact(approvals.next_expiry)
            except StoreError as exc:
                self._has_orphans = self._has_orphans or has_orphans
                log.error("approval questions are delayed: %s", exc)
                next_at = self._service.clock() + _PAUSE_S
            if next_at is None:
                await self._changed.wait()
            else:
                await wait_for(self._changed, next_at - self._service.clock())

    async def ask(self, context: ApprovalContext, request: ApprovalRequest) -> Answered:
        """The answer that is stored for this call. Raises `AwaitingAnswer` when there is none
        yet, and `KoreError` when no one can be asked."""
        result = await self._database.transact(self._service.ask, context, request, time.time())
        if isinstance(result, ApprovalPrompt):
            for lane in {result.lane, result.route.lane}:
                self._sender.wake(lane)
            self.look_again()
            self._tell_asked()
            raise AwaitingAnswer(f"question {result.number} is open", t("Waiting for an answer"))
        return result

    async def ask_for_server(
        self, context: ApprovalContext, call: ToolCall, query: ServerQuestion
    ) -> ApprovalPrompt | None:
        """Put what a server asks in the middle of this call, and wait: how it was settled, with
        the `value` that was answered. None when nobody can be asked."""
        nonce = new_nonce()
        settled: asyncio.Future[ApprovalPrompt] = asyncio.get_running_loop().create_future()
        self._awaited[nonce] = settled
        try:
            question = await self._database.transact(
                self._service.ask_for_server, context, call, (nonce, query), time.time()
            )
            if question is None:
                return None
            for lane in {question.lane, question.route.lane}:
                self._sender.wake(lane)
                self._events.publish(lane, self.request_event(question))
            self.look_again()
            self._tell_asked()
            return await settled
        except KoreError as exc:
            log.info("the MCP server %s cannot ask anybody: %s", query.server, exc)
            return None
        finally:
            del self._awaited[nonce]
            if not settled.done() or settled.cancelled():
                await asyncio.shield(self._withdraw(nonce))

    def look_again(self, *, orphans: bool = False) -> None:
        """A question was put; with `orphans`, a process has ended that may have waited for one."""
        self._has_orphans = self._has_orphans or orphans
        self._changed.set()

    async def settle(self, nonce: str, value: str | None) -> None:
        """Another process has settled what a server asked here; None: what it was answered with is
        not known, so that it has no answer."""
        awaited = self._awaited.get(nonce)
        if awaited is None:
            return
        question = await self._database.transact(approvals.find, nonce)
        if question is None or question.state == "open" or awaited.done():
            return
        is_lost = value is None and question.state == "once"
        awaited.set_result(
            replace(question, value=value or "", state="withdrawn" if is_lost else question.state)
        )

    async def settle_missed(self) -> None:
        """The same for all, should another process's word have been lost."""
        for nonce in list(self._awaited):
            await self.settle(nonce, None)

    async def _withdraw(self, nonce: str) -> None:
        words = t("the call has ended")
        self.publish_closed(
            await self._database.transact(
                self._service.withdraw_for_server, nonce, words, time.time()
            )
        )

    async def answer(self, nonce: str, reply: ApprovalReply, by: str) -> bool:
        """An answer from a screen of the owner; False when the question is not open any more."""
        settled = await self._database.transact(self._service.answer, nonce, reply, by, time.time())
        self.publish_closed(settled)
        return any(one.state != "expired" for one in settled)

    async def open_questions(self, lane: str | None = None) -> Sequence[ApprovalPrompt]:
        return await self._database.transact(approvals.open_questions, lane)

    async def publish_open(self, lane: str) -> None:
        """Show a lane's open questions to its viewers, each once."""
        for question in await self.open_questions(lane):
            for place in {question.lane, question.route.lane}:
                self._events.publish(place, self.request_event(question))

    def request_event(self, question: ApprovalPrompt) -> ApprovalAsked:
        """The question as screens see it; the time that is left counts from now."""
        return self._service.event(question, self._left_s(question))

    def _left_s(self, question: ApprovalPrompt) -> float | None:
        if math.isinf(question.expires_at):
            return None
        return max(0.0, round(question.expires_at - self._service.clock(), 1))

    def publish_closed(self, closed: Iterable[ApprovalPrompt]) -> None:
        """What was settled is on disk: screens, senders and lanes hear of it."""
        for question in closed:
            answers: tuple[Answer, ...] = ("once", "session", "always")
            answer: Answer = next(
                (choice for choice in answers if choice == question.state), "deny"
            )
            by = question.by or question.state
            server_question = question.request.server_question
            event = ApprovalAnswered(
                question.nonce,
                by,
                answer,
                question.words,
                _prefix_of(question),
                question.request.network if question.scope == "network" else (),
                "" if server_question is None else server_question.server,
            )
            if (awaited := self._awaited.get(question.nonce)) is not None and not awaited.done():
                awaited.set_result(question)
            if server_question is not None:
                self._tell_settled(question.nonce, question.value)
            for lane in {question.lane, question.route.lane}:
                self._events.publish(lane, event)
                self._sender.wake(lane)
            self._wake(question.lane)

    def deny_unseen(self, tx: Transaction, delivery_id: str) -> Callable[[], None]:
        """Deny the question whose file this delivery was: it is given up. Returns what publishes
        that once it is on disk."""
        closed = self._service.deny_unseen(tx, delivery_id, time.time())
        return lambda: self.publish_closed(closed)

    async def acknowledge(self, outcome: ButtonOutcome) -> None:
        """Show the presser what came of it, as long as the platform still can."""
        message = outcome.message
        channel = self._renderer.can_ask(message.route)
        if channel is None:
            return
        try:
            await channel.acknowledge(message.event_id, outcome.sentence)
        except SendError as exc:
            log.info("a button press could not be acknowledged: %s", exc)
        if (
            outcome.removes_buttons
            and message.pressed_on
            and isinstance(channel, SupportsButtonRemoval)
        ):
            # Should it fail, the buttons go on working.
            try:
                await channel.take_buttons(message.route, message.pressed_on)
            except SendError as exc:
                log.info("pressed buttons could not be removed: %s", exc)


def _prefix_of(question: ApprovalPrompt) -> str | None:
    """The prefix that the answer is about, if it is about one."""
    return str(question.request.prefix) if question.scope == "prefix" else None


@frozen
class TurnApprover:
    """Asks on behalf of one turn; implements `agent.security.policy.base.Approver`.

    `asking` says for whom, which may change while the turn runs.
    """

    approvals: ApprovalCoordinator
    asking: Callable[[], ApprovalContext]

    async def ask(self, request: ApprovalRequest) -> Answered:
        return await self.approvals.ask(self.asking(), request)
