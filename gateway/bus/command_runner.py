"""Runner for the chat commands that a lane claims; stores their answers."""

import time
from dataclasses import replace
from typing import Protocol

from gateway.access.pairing_service import PairingService
from gateway.bus.ingest import AuditNotes
from gateway.core.link_defusing import quiet
from gateway.core.messages import Button, InboundMessage
from gateway.core.platform_limits import ButtonLimits
from gateway.core.records import CommandAnswer, TypedCommand
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution import turns
from gateway.store.repositories.execution.claims import CommandClaim


class Commands(Protocol):
    """Chat commands: `gateway.commands.dispatcher.CommandDispatcher`."""

    def read(self, message: InboundMessage) -> TypedCommand | None: ...
    def is_command(self, message: InboundMessage) -> bool: ...
    def takes_time(self, claim: CommandClaim) -> bool: ...
    def carry_out(self, tx: Transaction, claim: CommandClaim, now: float) -> CommandAnswer: ...
    def buttons(
        self, tx: Transaction, claim: CommandClaim, now: float, limits: ButtonLimits
    ) -> tuple[Button, ...]: ...
    async def work(self, claim: CommandClaim, now: float) -> CommandAnswer: ...


class CommandRunner:
    """Runner of commands; quick ones run in the transaction that stores their answer."""

    def __init__(
        self,
        *,
        database: Store,
        commands: Commands,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        pairing: PairingService,
        audit_relay: AuditNotes,
    ) -> None:
        self._database = database
        self._commands = commands
        self._renderer = renderer
        self._sender = sender
        self._pairing = pairing
        self._audit_relay = audit_relay

    def is_command(self, message: InboundMessage) -> bool:
        return self._commands.is_command(message)

    def is_at_once(self, message: InboundMessage) -> bool:
        """Return whether the message is a command that bypasses the queue."""
        command = self._commands.read(message)
        return command is not None and command.at_once

    def takes_time(self, claim: CommandClaim) -> bool:
        return self._commands.takes_time(claim)

    async def run_slow(self, claim: CommandClaim) -> None:
        """Run a command that `takes_time`, outside of transactions."""
        buttons = await self._database.transact(self._buttons, claim, time.time())
        answer = await self._commands.work(claim, time.time())
        await self.answer(claim, answer, buttons)

    async def run_quick(self, claim: CommandClaim) -> None:
        await self._database.transact(self._carry_out, claim)
        await self._audit_relay.flush()
        for lane in (claim.message.session_key, *self._pairing.mention_lanes()):
            self._sender.wake(lane)

    async def answer(
        self, claim: CommandClaim, answer: CommandAnswer, buttons: tuple[Button, ...] = ()
    ) -> None:
        """Store the answer, and send it."""
        await self._database.transact(self._store_answer, claim, answer, buttons)
        self._sender.wake(claim.message.session_key)

    def _carry_out(self, tx: Transaction, claim: CommandClaim) -> None:
        if not inbox.is_unanswered(tx, claim.seq):
            return
        now = time.time()
        buttons = self._buttons(tx, claim, now)
        answer = self._commands.carry_out(tx, claim, now)
        self._store_answer(tx, claim, answer, buttons)

    def _buttons(self, tx: Transaction, claim: CommandClaim, now: float) -> tuple[Button, ...]:
        """Return the choices before the command runs, because it may change them."""
        if (channel := self._renderer.can_ask(claim.message.route)) is None:
            return ()
        choices = self._commands.buttons(tx, claim, now, channel.button_limits)
        return tuple(
            replace(choice, label=self._renderer.clean(choice.label)) for choice in choices
        )

    def _store_answer(
        self,
        tx: Transaction,
        claim: CommandClaim,
        answer: CommandAnswer,
        buttons: tuple[Button, ...] = (),
    ) -> None:
        if not inbox.is_unanswered(tx, claim.seq):
            return  # answered meanwhile as a command that bypasses the queue
        message, text = claim.message, answer.text
        if claim.session is not None:
            # The answer may contain titles and paths that a model has chosen.
            text = quiet(text, sessions.taint_of(tx, claim.session))
        *above, last = self._renderer.render(message.route, text)
        reply = OutgoingReply(
            delivery_id="",  # set by `finish_command`
            route=message.route,
            parts=[*above, replace(last, buttons=buttons)],
            reply_to=message.answer_to,
            event_id=message.event_id,
            outcome=answer.outcome,
        )
        turns.finish_command(tx, claim.seq, reply, time.time())
