"""Approvals: requested from people, stored so that they survive a restart, and published."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

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

_RETRY_INTERVAL_S = 5.0


class ApprovalCoordinator:
    """Coordinator of approvals: requests, answers, notifications, and denial after expiry.

    `wake` lets a lane continue; `announce_question` and `announce_settlement` notify other
    processes that run turns.
    """

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        service: ApprovalService,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        events: EventHub,
        wake: Callable[[str], None],
        announce_question: Callable[[], None] = lambda: None,
        announce_settlement: Callable[[str, str], None] = lambda nonce, value: None,
    ) -> None:
        self._announce_question = announce_question
        self._announce_settlement = announce_settlement
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
        """Close expired approvals until cancelled.

        First, withdraw questions of servers that ended with an earlier process.
        """
        while True:
            self._changed.clear()
            try:
                if has_orphans := self._has_orphans:
                    # Clear this before the query, because a process may end while it runs.
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
                next_at = self._service.clock() + _RETRY_INTERVAL_S
            if next_at is None:
                await self._changed.wait()
            else:
                await wait_for(self._changed, next_at - self._service.clock())

    async def ask(self, context: ApprovalContext, request: ApprovalRequest) -> Answered:
        """Return the stored answer for this call.

        Raises `AwaitingAnswer` until there is an answer, and `KoreError` when no person can be
        asked.
        """
        result = await self._database.transact(self._service.ask, context, request, time.time())
        if isinstance(result, ApprovalPrompt):
            for lane in {result.lane, result.route.lane}:
                self._sender.wake(lane)
            self.look_again()
            self._announce_question()
            raise AwaitingAnswer(f"question {result.number} is open", t("Waiting for an answer"))
        return result

    async def trust_in_recipient(
        self, context: ApprovalContext, request: ApprovalRequest
    ) -> Answered | None:
        """Return the standing answer about the recipient of a call, or None."""
        return await self._database.transact(self._service.trust_in_recipient, context, request)

    async def ask_for_server(
        self, context: ApprovalContext, call: ToolCall, query: ServerQuestion
    ) -> ApprovalPrompt | None:
        """Send a server's question during this call, and wait.

        Returns the closed approval with the answer in `value`; None when no person can be asked.
        """
        nonce = new_nonce()
        settled: asyncio.Future[ApprovalPrompt] = asyncio.get_running_loop().create_future()
        self._awaited[nonce] = settled
        try:
            approval = await self._database.transact(
                self._service.ask_for_server, context, call, (nonce, query), time.time()
            )
            if approval is None:
                return None
            lanes = {approval.lane, approval.route.lane}
            for lane in lanes:
                self._sender.wake(lane)
            self._events.publish_suspended(lanes, approval.session, self.request_event(approval))
            self.look_again()
            self._announce_question()
            return await settled
        except KoreError as exc:
            log.info("the MCP server %s cannot ask anybody: %s", query.server, exc)
            return None
        finally:
            del self._awaited[nonce]
            if not settled.done() or settled.cancelled():
                await asyncio.shield(self._withdraw(nonce))

    def look_again(self, *, orphans: bool = False) -> None:
        """Check for expiries again after a new approval; with `orphans`, also for questions that an
        ended process waited for."""
        self._has_orphans = self._has_orphans or orphans
        self._changed.set()

    async def settle(self, nonce: str, value: str | None) -> None:
        """Return a server's question to its waiting call after another process has settled it.
        Without a `value` the answer is lost, and the question counts as withdrawn."""
        awaited = self._awaited.get(nonce)
        if awaited is None:
            return
        approval = await self._database.transact(approvals.find, nonce)
        if approval is None or approval.state == "open" or awaited.done():
            return
        is_lost = value is None and approval.state == "once"
        awaited.set_result(
            replace(approval, value=value or "", state="withdrawn" if is_lost else approval.state)
        )

    async def settle_missed(self) -> None:
        """Settle all questions of servers here, in case a notice of another process was lost."""
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
        """Answer an approval from a screen of the owner; False when it is no longer open."""
        settled = await self._database.transact(self._service.answer, nonce, reply, by, time.time())
        self.publish_closed(settled)
        return any(approval.state != "expired" for approval in settled)

    async def open_questions(self, lane: str | None = None) -> Sequence[ApprovalPrompt]:
        return await self._database.transact(approvals.open_questions, lane)

    async def publish_open(self, lane: str) -> None:
        """Show each of a lane's open approvals to its viewers once."""
        for approval in await self.open_questions(lane):
            lanes = {approval.lane, approval.route.lane}
            event = self.request_event(approval)
            self._events.publish_suspended(lanes, approval.session, event)

    def request_event(self, approval: ApprovalPrompt) -> ApprovalAsked:
        """Return the event that shows an approval on screens, with the remaining time."""
        return self._service.event(approval, self._left_s(approval))

    def _left_s(self, approval: ApprovalPrompt) -> float | None:
        if math.isinf(approval.expires_at):
            return None
        return max(0.0, round(approval.expires_at - self._service.clock(), 1))

    def publish_closed(self, closed: Iterable[ApprovalPrompt]) -> None:
        """Notify screens, senders and lanes of closed approvals that are on disk."""
        for approval in closed:
            answers: tuple[Answer, ...] = ("once", "session", "always")
            answer: Answer = next(
                (choice for choice in answers if choice == approval.state), "deny"
            )
            by = approval.by or approval.state
            server_question = approval.request.server_question
            event = ApprovalAnswered(
                approval.nonce,
                by,
                answer,
                approval.words,
                _prefix_of(approval),
                approval.request.network if approval.scope == "network" else (),
                "" if server_question is None else server_question.server,
                approval.request.recipient if approval.scope == "recipient" else None,
                _folder_of(approval),
            )
            if (awaited := self._awaited.get(approval.nonce)) is not None and not awaited.done():
                awaited.set_result(approval)
            if server_question is not None:
                self._announce_settlement(approval.nonce, approval.value)
            lanes = {approval.lane, approval.route.lane}
            self._events.publish_suspended(lanes, approval.session, event)
            for lane in lanes:
                self._sender.wake(lane)
            self._wake(approval.lane)

    def deny_unseen(self, tx: Transaction, delivery_id: str) -> Callable[[], None]:
        """Deny the approval whose file could not be delivered. Returns a function that publishes
        this once it is on disk."""
        closed = self._service.deny_unseen(tx, delivery_id, time.time())
        return lambda: self.publish_closed(closed)

    async def acknowledge(self, outcome: ButtonOutcome) -> None:
        """Show the result to the person who pressed the button, while the platform still can."""
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
            # If this fails, the buttons keep working.
            try:
                await channel.remove_buttons(message.route, message.pressed_on)
            except SendError as exc:
                log.info("pressed buttons could not be removed: %s", exc)


def _prefix_of(approval: ApprovalPrompt) -> str | None:
    """Return the prefixes that the answer covers, if any."""
    return approval.request.prefix_names if approval.scope == "prefix" else None


def _folder_of(approval: ApprovalPrompt) -> str:
    """Return the folder that the answer covers, or ''."""
    access = approval.request.folder_access
    return str(access.path) if approval.scope == "folder" and access is not None else ""


@frozen
class TurnApprover:
    """`agent.security.policy.base.Approver` that asks on behalf of a turn.

    `asking` returns the message that is being answered, which may change while the turn runs.
    """

    defers_answers: ClassVar[bool] = True

    approvals: ApprovalCoordinator
    asking: Callable[[], ApprovalContext]

    async def ask(self, request: ApprovalRequest) -> Answered:
        return await self.approvals.ask(self.asking(), request)
