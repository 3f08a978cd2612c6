"""Ingestion of messages: each poll is checked and stored atomically."""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Protocol

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t, use_locale
from agent.records import frozen
from gateway.access.approvals import ApprovalService, ButtonOutcome
from gateway.access.chat_membership import ChatMembership
from gateway.access.control import AccessControl
from gateway.access.pairing_service import PairingService, is_pairing_button
from gateway.bus.interrupts import StopResult, stop_lane, stop_subagent
from gateway.core import keyboard
from gateway.core.approval import ApprovalPrompt
from gateway.core.channel_events import Batch, Undecoded
from gateway.core.errors import QueueFull
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.core.records import TypedCommand
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.sessions.token_room import check_messages
from gateway.store.conditions import DENIED
from gateway.store.port import Store, Transaction
from gateway.store.repositories.access import approvals, members
from gateway.store.repositories.conversations import session_folders, sessions
from gateway.store.repositories.delivery import inbox, outbox, undecoded_updates
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.turns.goals import GoalService

NO_DISK = mark_for_translation("less than {n} MB of disk space is free")

CROWDED = mark_for_translation("the queue is full ({n} messages)")
log = logging.getLogger(__name__)

_STOP = "stop"
_DENY = "deny"
_PRESS = "a button"
_REFUSAL = "a reply to a question"
_LATE = "a reply to a question of a server that is not open"

_UNKNOWN = "nothing in it can be read"

# Maximum size of the set of strangers named in the log, after which it is cleared.
_NAMED = 1_000


@frozen
class IngestBlocked:
    """Reason for not accepting messages: one of the texts above, with its number."""

    text: str
    n: int

    def __str__(self) -> str:
        return self.text.format(n=self.n)

    def refusal(self) -> KoreError:
        """Return the error for a source that does not store messages until there is room."""
        why = t("message not accepted: {why}", why=t(self.text, n=self.n))
        kind = QueueFull if self.text == CROWDED else KoreError
        return kind(why, hint=t("It was not stored. Send it again later."))


@frozen
class BackpressureLimits:
    """Limits on accepting messages; the platform stores messages until they are confirmed.

    `waiting_messages` counts messages over all lanes. Confirmed messages must be stored, so nothing
    is accepted with less than `free_bytes` of free disk space.
    """

    waiting_messages: int = 5_000
    free_bytes: int = 50 * 2**20
    check_interval_s: float = 2.0


class InboxRoom:
    """Check that fewer than `limit` messages wait.

    Messages are counted only after enough new ones were accepted since the last count: counting
    reads all waiting messages and therefore conflicts with every transaction that takes one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting_count = limit  # at the last count
        self._accepted_count = 0  # since the last count

    def is_left(self, tx: Transaction) -> bool:
        accepted = self._accepted_count
        if self._waiting_count + accepted < self._limit:
            return True
        waiting = inbox.waiting_count(tx)
        if waiting >= self._limit:
            return False
        tx.after_commit(lambda: self._note_count(waiting, accepted))
        return True

    def note_accepted(self, messages: int) -> None:
        self._accepted_count += messages

    def _note_count(self, waiting: int, accepted: int) -> None:
        """Store a count; messages accepted during counting are added to it."""
        self._waiting_count = waiting
        self._accepted_count = max(0, self._accepted_count - accepted)


@frozen
class IngestResult:
    """Result of a batch.

    `lanes` have new work, `command_lanes` have a command that bypasses the queue, `lanes_to_stop` a
    turn to end, and `mail_lanes` a message to send. `new_messages` will be answered by a turn; new
    `undecoded` updates have their numbers in the inbox.
    """

    lanes: set[str]
    command_lanes: set[str] = field(default_factory=set)
    lanes_to_stop: set[str] = field(default_factory=set)
    mail_lanes: set[str] = field(default_factory=set)
    new_messages: list[InboundMessage] = field(default_factory=list)
    button_outcomes: list[ButtonOutcome] = field(default_factory=list)
    undecoded: list[tuple[int, Undecoded]] = field(default_factory=list)
    closed_approvals: list[ApprovalPrompt] = field(default_factory=list)


class AuditNotes(Protocol):
    """Writer of stored audit notes to the audit log: `gateway.ops.audit.relay.AuditRelay`."""

    async def flush(self) -> None: ...


class Ingestor:
    """Ingestor of batches.

    It checks access, handles stops and buttons, and stores everything in one transaction.
    `obstacle` is the reason for not accepting messages; None if they are accepted.
    """

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        access: AccessControl,
        pairing: PairingService,
        approvals: ApprovalService,
        membership: ChatMembership,
        audit_relay: AuditNotes,
        renderer: ReplyRenderer,
        languages: UserLanguages,
        goals: GoalService,
        read_command: Callable[[InboundMessage], TypedCommand | None],
        limits: BackpressureLimits | None = None,
        on_people_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._access = access
        self._pairing = pairing
        self._approvals = approvals
        self._membership = membership
        self._audit_relay = audit_relay
        self._renderer = renderer
        self._languages = languages
        self._goals = goals
        self._read_command = read_command
        self._on_people_changed = on_people_changed
        self._obstacle: str | None = None
        self._logged_senders: set[str] = set()
        self._limits = limits or BackpressureLimits()
        self._room = InboxRoom(self._limits.waiting_messages)

    @property
    def obstacle(self) -> str | None:
        damage = self._database.damage
        return str(damage) if damage is not None else self._obstacle

    async def take(self, channel: str, account: str, batch: Batch) -> IngestResult:
        """Store a batch; return once it is on disk.

        Without room, waits, or raises `KoreError` for a batch that cannot wait. Raises
        `StoreError`.
        """
        # Ignore messages of people without access, except those addressed to the bot.
        entries = [
            self._entry(message)
            for message in batch.messages
            if not (message.kind == "overheard" or message.follows)
            or (message.follows and self._access.is_allowed(message))
        ]
        overheard = [message for message in batch.messages if message.kind == "overheard"]
        try:
            while True:
                now = time.time()
                more = (batch.cursors, batch.moves, overheard, batch.membership_changes)
                arrival = InboxBatch(channel, account, now, *more)
                result = await self._try(arrival, entries, batch)
                if isinstance(result, IngestResult):
                    break
                if not batch.can_wait:
                    raise result.refusal()
                self._report_obstacle(str(result))
                await asyncio.sleep(self._limits.check_interval_s)
        finally:
            if batch.can_wait:
                self._obstacle = None
        for entry in entries:
            if entry.dead_reason == DENIED and not self._access.is_allowed(entry.message):
                self._log_how_to_allow(entry.message)
        for seq, update in result.undecoded:
            log.error(
                "%s:%s: %s could not be decoded and was stored: %s. `kore replay %d` retries",
                channel,
                account,
                update.event_id,
                update.reason,
                seq,
            )
        if result.button_outcomes or result.closed_approvals:
            await self._audit_relay.flush()
        return result

    async def stop(self, lane: str) -> StopResult:
        """Store a request to stop the lane's running turn."""
        result = await self._database.transact(self._stop_lane, lane)
        if result.closed_approvals:
            await self._audit_relay.flush()
        return result

    async def stop_subagent(self, lane: str, number: str) -> tuple[StopResult, str]:
        """Store a request to stop one sub-agent of a chat; return a sentence too."""
        result, sentence = await self._database.transact(self._stop_one, lane, number)
        if result.closed_approvals:
            await self._audit_relay.flush()
        return result, sentence

    def _stop_one(self, tx: Transaction, lane: str, number: str) -> tuple[StopResult, str]:
        return stop_subagent(tx, self._approvals, lane, number, time.time())

    def _stop_lane(self, tx: Transaction, lane: str) -> StopResult:
        return stop_lane(tx, self._approvals, self._goals, lane, "", time.time())

    def _entry(self, message: InboundMessage) -> InboxEntry:
        if message.kind == "button":
            return InboxEntry(message, _PRESS)
        if not self._access.is_allowed(message):
            return InboxEntry(message, DENIED)
        if message.unknown:
            return InboxEntry(message, _UNKNOWN)
        name = self._name_of(message)
        return InboxEntry(message, name if name in (_STOP, _DENY) else None)

    def _name_of(self, message: InboundMessage) -> str | None:
        command = self._read_command(message)
        return None if command is None else command.name

    async def _try(
        self, arrival: InboxBatch, entries: Sequence[InboxEntry], batch: Batch
    ) -> IngestResult | IngestBlocked:
        """Store the batch, or return the reason for refusing it; then nothing is stored."""
        if self._database.damage is not None:
            raise self._database.damage
        if shutil.disk_usage(self._database.folder).free < self._limits.free_bytes:
            return IngestBlocked(NO_DISK, self._limits.free_bytes // 2**20)
        result = await self._database.transact(self._store, arrival, entries, batch)
        if result is None:
            return IngestBlocked(CROWDED, self._limits.waiting_messages)
        self._room.note_accepted(len(entries))
        result.mail_lanes.update(self._pairing.mention_lanes())
        if arrival.moves:
            self._on_people_changed()
        return result

    def _report_obstacle(self, obstacle: str) -> None:
        """Log each obstacle once: the check repeats every few seconds, perhaps for days."""
        if obstacle != self._obstacle:
            log.error("not accepting messages: %s", obstacle)
        self._obstacle = obstacle

    def _store(
        self,
        tx: Transaction,
        arrival: InboxBatch,
        entries: Sequence[InboxEntry],
        batch: Batch,
    ) -> IngestResult | None:
        """Store the batch; None when too many messages wait.

        A stop is carried out in the same transaction as its row, so that no crash loses it. A
        repeated delivery of a stop does not affect later messages.
        """
        if not self._room.is_left(tx):
            return None
        presses: list[ButtonOutcome] = []
        entries = [self._as_command(tx, entry, presses) for entry in entries]
        new = [_in_session_folder(tx, entry) for entry in inbox.unknown(tx, entries)]
        check_messages(tx, (entry.message for entry in new))
        refusals: list[ApprovalPrompt] = []
        new = [self._as_refusal(tx, entry, refusals, arrival.now) for entry in new]
        result = IngestResult(inbox.accept(tx, arrival, entries, new=new))
        _report_new(tx, batch, new)
        result.closed_approvals.extend(refusals)
        result.button_outcomes.extend(presses)
        result.undecoded.extend(undecoded_updates.keep(tx, arrival, batch.undecoded))
        strangers = [entry.message for entry in new if entry.dead_reason == DENIED]
        for message in (entry.message for entry in new):
            with use_locale(self._languages.of(message)):
                self._handle_start(tx, message, arrival.now, stranger=message in strangers)
        if strangers:
            members.forget_denied(tx)
        for entry in entries:
            if entry.dead_reason != DENIED:
                self._languages.record_client_language(tx, entry.message)
            if entry.dead_reason == _PRESS:
                # Repeating a press is harmless: the person gets the earlier decision.
                with use_locale(self._languages.of(entry.message)):
                    press = self._handle_button(tx, entry.message, arrival.now)
                result.button_outcomes.append(press)
                result.closed_approvals.extend(
                    [press.closed_approval] if press.closed_approval else []
                )
        result.mail_lanes.update(
            self._membership.record(tx, arrival.membership_changes, arrival.now)
        )
        for message in (entry.message for entry in new if entry.dead_reason == _STOP):
            with use_locale(self._languages.of(message)):
                text = self._stop(tx, message, result, arrival.now)
            if text is not None:
                outbox.put(tx, None, [self._reply(message, text)], arrival.now)
                result.mail_lanes.add(message.session_key)
        for message in (entry.message for entry in new if entry.dead_reason == _DENY):
            with use_locale(self._languages.of(message)):
                self._deny(tx, message, result, arrival.now)
            result.mail_lanes.add(message.session_key)
        for message in (entry.message for entry in new if entry.dead_reason == _LATE):
            with use_locale(self._languages.of(message)):
                self._report_late(tx, message, arrival.now)
            result.mail_lanes.add(message.session_key)
        for message in (entry.message for entry in new if entry.dead_reason == _UNKNOWN):
            with use_locale(self._languages.of(message)):
                self._answer_stranger(tx, message, arrival.now)
            result.mail_lanes.add(message.session_key)
        self._update_running_work(tx, new, result, arrival.now)
        return result

    def _report_late(self, tx: Transaction, message: InboundMessage, now: float) -> None:
        text = t(
            "Nobody got this: it answers what an MCP server asked, and only a new reply to an open "
            "question counts."
        )
        reply = replace(self._reply(message, text), delivery_id=_name("late", message))
        outbox.put(tx, None, [reply], now)

    def _answer_stranger(self, tx: Transaction, message: InboundMessage, now: float) -> None:
        text = t("I can't read this kind of message. Send it as text, a photo or a file.")
        reply = replace(self._reply(message, text), delivery_id=_name("unknown", message))
        outbox.put(tx, None, [reply], now)

    def _update_running_work(
        self, tx: Transaction, new: Sequence[InboxEntry], result: IngestResult, now: float
    ) -> None:
        """Update running work for new messages that a turn answers."""
        for message in (entry.message for entry in new if entry.dead_reason is None):
            if message.follows:
                continue
            # Some edits change nothing, and later parts of an album belong to the first part.
            counts = not (message.edited or message.album) or inbox.waits(tx, message)
            if counts and self._read_command(message) is None:
                result.new_messages.append(message)
            with use_locale(self._languages.of(message)):
                self._handle_out_of_turn(tx, message, result, now)

    def _handle_start(
        self, tx: Transaction, message: InboundMessage, now: float, *, stranger: bool
    ) -> None:
        """Redeem an invitation, or open a pairing request."""
        command = self._read_command(message)
        code = command.argument if command is not None and command.name == "start" else ""
        welcome = code and self._pairing.redeem_invitation(tx, message, code, now)
        if stranger and not welcome:
            self._pairing.handle_stranger(tx, message, now)

    def _handle_out_of_turn(
        self, tx: Transaction, message: InboundMessage, result: IngestResult, now: float
    ) -> None:
        """Handle a message that arrives while the lane's turn runs or waits for an answer."""
        lane = message.session_key
        command = self._read_command(message)
        if command is not None and command.at_once:
            result.command_lanes.add(lane)
        elif command is not None and command.name == "new" and approvals.is_awaited(tx, lane):
            # After `/new` no one answers the question, and later messages would wait for it.
            self._stop_everything(tx, message, result, now)
        elif inbox.may_be_blocked(tx, lane) and (
            self._approvals.notify_blocked(tx, message, now)
            or self._notify_paused(tx, message, now)
        ):
            result.mail_lanes.add(lane)

    def _notify_paused(self, tx: Transaction, message: InboundMessage, now: float) -> bool:
        """Notify the first person who writes into a paused conversation.

        In the terminal, every message is answered, because the answer ends its waiting there.
        """
        lane = message.session_key
        is_command = self._read_command(message) is not None
        if is_command or sessions.status_of_lane(tx, lane) != "paused":
            return False
        if message.channel == CONSOLE or len(inbox.waiting_messages(tx, lane)) == 1:
            text = t("⏸ This conversation is paused; your message is queued. /resume continues it.")
            reply = self._reply(message, text)
            name = f"paused:{lane}:{message.event_id}"
            notice = replace(reply, delivery_id=name, kind="notice")
            outbox.put(tx, None, [notice], now)
        return True

    def _stop(
        self, tx: Transaction, message: InboundMessage, result: IngestResult, now: float
    ) -> str | None:
        """Stop work; return the answer, or None when the ending turn sends it."""
        command = self._read_command(message)
        if command is not None and (number := command.argument):
            lane = message.session_key
            stop, text = stop_subagent(tx, self._approvals, lane, number, now)
            self._record_stop(stop, result)
            return text
        stop = self._stop_everything(tx, message, result, now)
        if stop.stopping == "running":
            return None
        return t("⏹ Stopped.") if stop.stopping else t("Nothing is running.")

    def _stop_everything(
        self, tx: Transaction, message: InboundMessage, result: IngestResult, now: float
    ) -> StopResult:
        stop = stop_lane(
            tx, self._approvals, self._goals, message.session_key, message.event_id, now
        )
        self._record_stop(stop, result)
        return stop

    def _record_stop(self, stop: StopResult, result: IngestResult) -> None:
        result.lanes_to_stop.update(stop.lanes_to_stop)
        result.lanes.update(stop.lanes_to_wake)
        result.closed_approvals.extend(stop.closed_approvals)

    def _as_command(
        self, tx: Transaction, entry: InboxEntry, presses: list[ButtonOutcome]
    ) -> InboxEntry:
        """Return a pressed button below a command's answer as that command.

        The command counts as typed by the person who pressed it. All other entries are returned
        unchanged, and so are presses of outdated buttons and presses by people without access.
        """
        message = entry.message
        if entry.dead_reason != _PRESS or not keyboard.is_choice(message):
            return entry
        session = sessions.bound_session(tx, message.session_key)
        text = keyboard.command_of_button(message, session)
        if text is None or not self._access.is_allowed(message):
            return entry
        typed = replace(message, content=text, kind="message")
        command = self._read_command(typed)
        if command is None or not command.has_buttons:
            return entry
        presses.append(ButtonOutcome(message, text, removes_buttons=True))
        return InboxEntry(typed)

    def _as_refusal(
        self, tx: Transaction, entry: InboxEntry, refusals: list[ApprovalPrompt], now: float
    ) -> InboxEntry:
        """Turn a reply to a question into its refusal, or a reply to a server into its answer.

        Such a reply is not a message for a turn.
        """
        message = entry.message
        if entry.dead_reason is not None or self._read_command(message) is not None:
            return entry
        question = self._approvals.settle_by_reply(tx, message, now)
        if question is None and _is_for_server(tx, message):
            # An edit or a late reply, which may still contain a password.
            return InboxEntry(replace(message, content=""), _LATE)
        if question is None:
            return entry
        refusals.append(question)
        if question.request.server_question is not None:
            # The reply may be a password, and the server has it.
            message = replace(message, content="")
        return InboxEntry(message, _REFUSAL)

    def _deny(
        self, tx: Transaction, message: InboundMessage, result: IngestResult, now: float
    ) -> None:
        command = self._read_command(message)
        words = command.argument if command is not None else ""
        text, question = self._approvals.deny_by_command(tx, message, words, now)
        if question is not None:
            result.closed_approvals.append(question)
        reply = replace(self._reply(message, text), delivery_id=_name(_DENY, message))
        outbox.put(tx, None, [reply], now)

    def _handle_button(self, tx: Transaction, message: InboundMessage, now: float) -> ButtonOutcome:
        if is_pairing_button(message):
            return ButtonOutcome(message, self._pairing.press(tx, message, now))
        if keyboard.is_choice(message):
            if not self._access.is_allowed(message):
                return ButtonOutcome(message, t("Only approved users can use this button."))
            late = t("This button is outdated. Send the command again.")
            return ButtonOutcome(message, late, removes_buttons=True)
        return self._approvals.press(tx, message, now)

    def _log_how_to_allow(self, message: InboundMessage) -> None:
        """Log how to allow a stranger, once per stranger.

        Strangers control the number of their messages, which must not fill the owner's log.
        """
        who = f"{message.principal} {message.account}"
        if who in self._logged_senders:
            return
        if len(self._logged_senders) >= _NAMED:
            self._logged_senders.clear()
        self._logged_senders.add(who)
        log.warning(
            "%s: %s is not on the allowlist; in private they get a code for `kore pair approve"
            " CODE`; or add %s to %s.allow_from",
            message.channel,
            message.sender.id,
            message.sender.id,
            message.channel,
        )

    def _reply(self, message: InboundMessage, text: str) -> OutgoingReply:
        route = message.route
        parts = self._renderer.render(route, text)
        return OutgoingReply(
            _name("stop", message),
            route,
            parts,
            reply_to=message.answer_to,
            event_id=message.event_id,
        )


def _is_for_server(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether the message replies to a question of an MCP server to this person."""
    if message.quoted_id is None:
        return False
    number = outbox.question_of(tx, message.route.lane, message.quoted_id)
    return number is not None and approvals.is_for_server(tx, number, message.principal)


def _name(kind: str, message: InboundMessage) -> str:
    return f"{kind}:{message.route.lane}:{message.event_id}"


def _report_new(tx: Transaction, batch: Batch, new: Sequence[InboxEntry]) -> None:
    if new and batch.on_new is not None:
        batch.on_new(tx)


def _in_session_folder(tx: Transaction, entry: InboxEntry) -> InboxEntry:
    """Add the folder of its session to a message of the owner that names none.

    Such messages come from the web page and from terminals on other machines.
    """
    message = entry.message
    if message.channel != CONSOLE:
        return entry
    session = inbox.session_of_message(message) or sessions.bound_session(tx, message.session_key)
    return replace(entry, message=session_folders.in_folder_of(tx, session, message))
