"""Reports to conversations on finished background commands.

A report is a message in the lane of the turn that started the command: a running turn includes it
in its next request, otherwise it starts a turn. Commands that finish at about the same time share a
report. Results that the model has read in the meantime are not reported, and no result is reported
twice.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agent.events import Notice
from agent.i18n import t
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.redaction import Redactor
from agent.security.taint.taint import NOTHING
from agent.text.visible import escape_invisible
from agent.tools.base import EndedCommand
from agent.types import Taint
from gateway.core.event_hub import EventHub
from gateway.core.messages import derive_report
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import turns
from gateway.store.repositories.execution.claims import TurnClaim

_MAX_OUTPUT_CHARS = 1_500


@frozen
class ReportLimits:
    """Limits of the reports of a conversation.

    Attributes:
        after_s: Delay before a report, in which other commands may finish and `process output` may
            read the end.
        in_a_row: Turns that reports start before a person sends another message.
    """

    after_s: float = 2.0
    in_a_row: int = 10


@dataclass(slots=True)
class _Ended:
    """Finished commands of a turn that share a report."""

    turn: int
    session: str
    commands: list[EndedCommand] = field(default_factory=list)


class CommandReports:
    """Reporter for finished commands; `wake` resumes a lane.

    The next turn of the conversation covers commands that are not reported here.
    """

    def __init__(
        self,
        *,
        database: Store,
        wake: Callable[[str], None],
        redactor: Redactor,
        events: EventHub,
        limits: ReportLimits,
        unpin: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._unpin = unpin
        self._database = database
        self._wake = wake
        self._redactor = redactor
        self._events = events
        self._limits = limits
        self._pending: dict[str, _Ended] = {}
        self._has_pending = asyncio.Event()
        # Number of reports per conversation since the last message of a person.
        self._in_a_row: dict[str, int] = {}
        self._number = 0

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            await self._has_pending.wait()
            await asyncio.sleep(self._limits.after_s)
            self._has_pending.clear()
            pending, self._pending = self._pending, {}
            for ended in pending.values():
                await self._send_report(ended)

    def of_turn(self, claim: TurnClaim) -> Callable[[EndedCommand], None]:
        """Return the callback for finished commands of a turn."""
        turn, session = claim.turn, claim.session
        return lambda command: self._add(turn, session, command)

    def reset_limit(self, session: str) -> None:
        """Reset the limit after a message of a person: commands may start turns again."""
        self._in_a_row.pop(session, None)

    def _add(self, turn: int, session: str, command: EndedCommand) -> None:
        ended = self._pending.setdefault(session, _Ended(turn, session))
        # The people of the newest turn are present and can be answered.
        ended.turn = max(ended.turn, turn)
        ended.commands.append(command)
        self._has_pending.set()

    async def _send_report(self, ended: _Ended) -> None:
        commands = [command for command in ended.commands if command.is_news]
        in_a_row = self._in_a_row.get(ended.session, 0)
        if not commands or in_a_row >= self._limits.in_a_row:
            return
        self._in_a_row[ended.session] = in_a_row + 1
        self._number += 1
        event_id = f"command:{ended.turn}:{time.time_ns()}:{self._number}"

        async def withdraw() -> None:
            """Withdraw the report after the model read one command; report the others again."""
            if await self._database.transact(inbox.withdraw_event, event_id, "read meanwhile"):
                self._in_a_row[ended.session] = max(self._in_a_row.get(ended.session, 0) - 1, 0)
                for command in commands:
                    if command.take_back():
                        self._add(ended.turn, ended.session, command)

        # Before the report is stored: a reader in the meantime then withdraws it.
        for command in commands:
            command.set_told(withdraw)
        text = self._redactor.clean(_note(commands))
        taint = NOTHING.union(*(command.taint for command in commands))

        def store(tx: Transaction) -> str | None:
            return enqueue(tx, ended, event_id, (text, tuple(sorted(taint))))

        if (lane := await self._database.transact(store)) is not None:
            for command in commands:
                self._events.publish(lane, self._notice(command))
            if self._unpin is not None:
                await self._unpin(ended.session)
            self._wake(lane)

    def _notice(self, command: EndedCommand) -> Notice:
        """Return the notice for screens: the subject of the new turn."""
        name = escape_invisible(self._redactor.clean(command.title))
        return Notice(
            "info", t("Background command ended ({state}): {name}", state=command.state, name=name)
        )


def enqueue(
    tx: Transaction, ended: _Ended, event_id: str, note: tuple[str, tuple[Taint, ...]]
) -> str | None:
    """Store the report in the lane of its turn and return the lane.

    The report is addressed to the senders that the turn answered. Return None if their messages
    were erased.
    """
    messages = inbox.of_turn(tx, ended.turn)
    if not messages:
        return None
    text, taint = note
    message = derive_report(
        messages,
        "command_report",
        event_id,
        text,
        time.time(),
        session=ended.session,
        taint=taint,
    )
    batch = InboxBatch(message.channel, message.account, message.received_at)
    inbox.accept(tx, batch, [InboxEntry(message)])
    return message.session_key


def report_lost_commands(tx: Transaction, session: str, where: str) -> str | None:
    """Report that the background commands of a session ended with the process that ran them.

    Return the lane to wake.
    """
    turn = turns.last_of(tx, session)
    if turn is None:
        return None
    text = render_prompt("commands_lost", where=where)
    event_id = f"command:lost:{turn}:{time.time_ns()}"
    return enqueue(tx, _Ended(turn, session), event_id, (text, ()))


def _note(commands: Sequence[EndedCommand]) -> str:
    room = _MAX_OUTPUT_CHARS // len(commands)
    ends = (
        render_prompt(
            "command_ended",
            number=command.number,
            title=command.title,
            state=command.state,
            output=command.last_output(room) or "(no output)",
        )
        for command in commands
    )
    return render_prompt("command_report", commands="\n\n".join(ends))
