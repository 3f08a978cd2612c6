"""Compare the journal with a simple model of it under random operations and crashes.

Each function runs on a real file in its own transaction, as `SqliteStore` runs it. A crash closes
the file without any cleanup; the next process opens it and recovers.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from agent.approvals import ApprovalRequest
from agent.context.history_validation import is_valid, repair
from agent.security.policy.base import Answered
from agent.types import Effect, Message, ToolCall, ToolResult, assistant, user
from gateway.commands import is_command
from gateway.core.approval import ApprovalPrompt, State
from gateway.core.channel_events import Undecoded
from gateway.core.messages import InboundMessage, OutboundPart, Route, Sender
from gateway.store.conditions import LIVE
from gateway.store.port import Transaction
from gateway.store.repositories.access import approvals
from gateway.store.repositories.access.approvals import ApprovalKey
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox, outbox, undecoded_updates
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.repositories.execution import claims, turns, windows
from gateway.store.repositories.execution.claims import (
    MAX_ATTEMPTS,
    CommandClaim,
    SessionBusy,
    TurnClaim,
)
from gateway.store.repositories.execution.turns import FinishedTurn
from tests import postgres_server
from tests.gateway.store.transactions import open_transaction

BEGIN = {"sqlite": "BEGIN IMMEDIATE", "postgres": "BEGIN ISOLATION LEVEL SERIALIZABLE"}
CHATS = ("1", "2")
LANES = tuple(f"chat:bot:{chat}" for chat in CHATS)
EFFECTS: dict[str, Effect] = {"look": "read", "write": "idempotent", "do": "unsafe"}


def compose(messages: Sequence[InboundMessage], mode: str | None) -> Message:
    return user(" + ".join(f"{message.event_id}={message.content}" for message in messages))


@dataclass
class Running:
    """A turn run by this process."""

    claim: TurnClaim
    calls: list[ToolCall] = field(default_factory=list)
    started: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)


def _planned(running: Running) -> list[ToolCall]:
    return [call for call in running.calls if call.id not in running.started]


def _under_way(running: Running) -> list[ToolCall]:
    return [call for call in running.calls if call.id in running.started]


class JournalMachine(RuleBasedStateMachine):
    """Model of the journal.

    Messages (`accepted_messages`), decisions (`answered`), effects (`effects`) and sent parts
    (`left`).
    """

    @initialize()
    def open(self) -> None:
        # In memory if possible, since a kill of the process does not affect the disk.
        memory = Path("/dev/shm")
        self.folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.path = Path(self.folder.name) / "kore.db"
        self.tx = open_transaction(self.path)
        self.now = 1_000.0
        self.number = 0
        self.accepted_messages: list[InboundMessage] = []
        self.offset = 0
        self.running: dict[str, Running] = {}
        self.sending: dict[str, PendingPart] = {}
        self.effect_texts: dict[tuple[int, str], str] = {}
        self.unknown: set[tuple[int, str]] = set()
        self.effects: dict[tuple[int, str], int] = {}
        self.finished: list[tuple[int, ...]] = []
        self.left: dict[str, list[int]] = {lane: [] for lane in LANES}
        self.unclear: set[int] = set()
        self.waiting: dict[str, ApprovalKey] = {}
        self.answered: dict[tuple[int, str], str] = {}
        self.messages_arrive([(chat, False) for chat in CHATS])

    def teardown(self) -> None:
        if hasattr(self, "tx"):
            self.tx.close()
            self.folder.cleanup()

    def do(self, work: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Run a transaction as the database's thread does."""
        self.now += 1.0
        self.tx.run(BEGIN[postgres_server.engine()])
        result = work(self.tx, *args, **more)
        self.tx.run("COMMIT")
        return result

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self.tx.all(sql, values)

    # Incoming messages

    def message(self, chat: str, text: str, **more: Any) -> InboundMessage:
        self.number += 1
        fields: dict[str, Any] = {
            "event_id": f"{chat}:{self.number}",
            "message_id": str(self.number),
            **more,
        }
        return InboundMessage(
            "chat", "bot", chat, Sender("7"), content=text, received_at=self.now, **fields
        )

    def accept(self, entries: Sequence[InboxEntry], lost: Sequence[Undecoded] = ()) -> None:
        self.offset += len(entries) + len(lost)
        arrival = InboxBatch("chat", "bot", self.now, {"offset": str(self.offset)})
        new = inbox.unknown(self.tx, entries)
        lanes = self.do(inbox.accept, arrival, entries)
        self.do(undecoded_updates.keep, arrival, lost)
        assert lanes <= {e.message.session_key for e in new}
        self.accepted_messages += [entry.message for entry in new]

    @rule(batch=st.lists(st.tuples(st.sampled_from(CHATS), st.booleans()), min_size=1, max_size=4))
    def somebody_writes(self, batch: list[tuple[str, bool]]) -> None:
        self.messages_arrive(batch)

    def messages_arrive(self, batch: list[tuple[str, bool]]) -> None:
        self.accept(
            [
                InboxEntry(self.message(chat, f"text {self.number}"), "denied" if denied else None)
                for chat, denied in batch
            ],
            [Undecoded(f"update:{self.number}", "unreadable", "{")],
        )

    @precondition(lambda self: self.accepted_messages)
    @rule(data=st.data())
    def the_platform_delivers_again(self, data: st.DataObject) -> None:
        before = self.ask("SELECT * FROM inbox ORDER BY seq")
        again = data.draw(st.lists(st.sampled_from(self.accepted_messages), min_size=1, max_size=4))
        self.accept([InboxEntry(message) for message in again])
        assert self.ask("SELECT * FROM inbox ORDER BY seq") == before

    @precondition(lambda self: self.accepted_messages)
    @rule(data=st.data())
    def somebody_edits(self, data: st.DataObject) -> None:
        original = data.draw(st.sampled_from(self.accepted_messages))
        self.number += 1
        edit = self.message(
            original.chat_id,
            f"edited {self.number}",
            event_id=f"{original.chat_id}:{original.message_id}:{self.number}",
            message_id=original.message_id,
            edited=True,
        )
        waiting = self.ask(
            "SELECT seq FROM inbox WHERE source_message_id = ? AND turn_id IS NULL"
            " AND dead_reason IS NULL ORDER BY seq",
            f"{original.chat_id}:{original.message_id}",
        )
        self.accept([InboxEntry(edit)])
        if waiting:
            ((payload,),) = self.ask("SELECT payload FROM inbox WHERE seq = ?", *waiting[-1])
            assert json.loads(payload)["content"] == edit.content

    @rule(chat=st.sampled_from(CHATS))
    def somebody_asks_for_a_new_session(self, chat: str) -> None:
        self.accept([InboxEntry(self.message(chat, "/new"))])

    @rule(chat=st.sampled_from(CHATS))
    def somebody_stops(self, chat: str) -> None:
        stop = self.message(chat, "/stop")
        lane = stop.session_key
        live = self.ask(f"SELECT id FROM turn WHERE lane = ? AND {LIVE}", lane)
        waiting = self.ask(
            "SELECT seq FROM inbox WHERE lane = ? AND turn_id IS NULL AND dead_reason IS NULL", lane
        )
        self.accept([InboxEntry(stop, "stop")])
        done = self.do(turns.request_stop, lane, stop.event_id)
        assert done == ("running" if live else "withdrawn" if waiting else None)
        if live:
            assert self.ask("SELECT stop_requested FROM turn WHERE id = ?", *live[0]) == [(1,)]
        if lane in self.waiting:
            self.settle(lane, "withdrawn")

    @rule(one=st.sampled_from(LANES), other=st.sampled_from(LANES))
    def a_chat_joins_the_session_of_another(self, one: str, other: str) -> None:
        session = sessions.bound_session(self.tx, one)
        if session is not None:
            self.do(sessions.bind, other, session)

    # Processing

    def free(self) -> list[str]:
        """Return lanes with work that this process is not doing."""
        texts = inbox.lanes_with_work(self.tx)
        return sorted(lane for lane in texts if lane not in self.running)

    @precondition(lambda self: self.free())
    @rule(data=st.data())
    def a_lane_claims(self, data: st.DataObject) -> None:
        self.claim(data.draw(st.sampled_from(self.free())))

    def claim(self, lane: str) -> None:
        resumable = self.ask("SELECT id FROM turn WHERE lane = ? AND state = 'running'", lane)
        first = self.ask(
            "SELECT seq FROM inbox WHERE lane = ? AND turn_id IS NULL AND dead_reason IS NULL"
            " ORDER BY seq LIMIT 1",
            lane,
        )
        claim = self.do(claims.claim, lane, self.now, is_command, compose)
        match claim:
            case None:
                assert not resumable
                assert not first or lane in self.waiting
            case CommandClaim():
                assert (claim.seq,) == first[0]
                self.do(self._new_session, claim)
            case SessionBusy(other):
                assert other != lane
                assert claim.waits == (other in self.waiting)
                assert self.ask(f"SELECT 1 FROM turn WHERE lane = ? AND {LIVE}", other)
            case TurnClaim():
                assert claim.resumed == bool(resumable)
                if not claim.resumed:
                    assert (claim.seq,) == first[0]
                self._take_up(lane, claim)

    def _new_session(self, tx: Transaction, claim: CommandClaim) -> None:
        sessions.create_session(
            tx, claim.message.principal, self.now, lane=claim.message.session_key
        )
        reply = self._reply(f"c{claim.seq}", claim.message.route, "new")
        turns.finish_command(tx, claim.seq, reply, self.now)

    def _take_up(self, lane: str, claim: TurnClaim) -> None:
        running = self.running[lane] = Running(claim)
        if claim.exhausted:
            self.do(turns.give_up, claim.turn, [], "gave up", self.now)
            del self.running[lane]
            return
        if not claim.resumed:
            return
        results = self.do(turns.known_results, claim.turn)
        open_calls = self._open_calls(claim)
        for call in open_calls:
            key = (claim.turn, self._key(claim.turn, call))
            if key in self.effect_texts:
                assert results[call.id].for_model == self.effect_texts[key]
            elif key in self.unknown:
                assert results[call.id].is_error
                assert "unknown" in results[call.id].for_model
            else:
                assert call.id not in results
        running.calls = [call for call in open_calls if call.id not in results]
        running.results = dict(results)

    def _open_calls(self, claim: TurnClaim) -> list[ToolCall]:
        window = self.do(windows.load, claim.session).messages
        return list(window[-1].tool_calls) if window else []

    def _key(self, turn: int, call: ToolCall) -> str:
        """Return the step number of a call, since vendors reuse ids."""
        ((n,),) = self.ask(
            "SELECT max(n) FROM step WHERE turn_id = ? AND call_id = ?", turn, call.id
        )
        return str(n)

    def turn(
        self, data: st.DataObject, which: Callable[[Running], object] = lambda _: True
    ) -> tuple[str, Running]:
        lanes = sorted(lane for lane, running in self.running.items() if which(running))
        lane = data.draw(st.sampled_from(lanes))
        return lane, self.running[lane]

    @precondition(lambda self: any(not running.calls for running in self.running.values()))
    @rule(data=st.data(), tools=st.lists(st.sampled_from(sorted(EFFECTS)), min_size=1, max_size=3))
    def the_model_asks_for_calls(self, data: st.DataObject, tools: list[str]) -> None:
        _, running = self.turn(data, lambda running: not running.calls)
        turn, session = running.claim.turn, running.claim.session
        rows = self._answers(running)
        calls = [ToolCall(f"call_{i}", tool, {}, "{}") for i, tool in enumerate(tools)]
        reply = assistant("working", tuple(calls))
        effects = {call.id: EFFECTS[call.name] for call in calls}
        self.do(turns.add_reply, turn, session, [*rows, reply], effects, self.now)
        running.calls, running.results, running.started = list(calls), {}, set()

    def _answers(self, running: Running) -> list[Message]:
        from agent.context.history_validation import close_unanswered_calls, tool_message

        window = self.do(windows.load, running.claim.session).messages
        known = {
            call.id: tool_message(
                call, running.results[call.id].for_model, is_error=running.results[call.id].is_error
            )
            for call in self._open_calls(running.claim)
            if call.id in running.results
        }
        return close_unanswered_calls(window, known)

    @precondition(lambda self: any(map(_planned, self.running.values())))
    @rule(data=st.data())
    def a_call_starts(self, data: st.DataObject) -> None:
        _, running = self.turn(data, _planned)
        call, turn = _planned(running)[0], running.claim.turn
        key = (turn, self._key(turn, call))
        ((state,),) = self.ask("SELECT state FROM step WHERE turn_id = ? AND n = ?", *key)
        # A call that may run again may have started before a crash.
        assert state == "planned" or (state == "started" and EFFECTS[call.name] != "unsafe")
        assert key not in self.unknown
        assert key not in self.effect_texts
        if EFFECTS[call.name] != "read":
            self.do(turns.start_call, turn, call)
        running.started.add(call.id)
        self.effects[key] = self.effects.get(key, 0) + 1
        if EFFECTS[call.name] == "unsafe":
            assert self.effects[key] == 1

    @precondition(lambda self: any(map(_planned, self.running.values())))
    @rule(data=st.data())
    def a_call_asks_a_person(self, data: st.DataObject) -> None:
        """The turn waits, since none of its other calls is running."""
        lane, running = self.turn(data, _planned)
        if running.started & {call.id for call in running.calls}:
            return
        claim, call = running.claim, _planned(running)[0]
        wish = ApprovalKey(
            claim.turn, call.id, claim.session, "chat:7", "shown", f"grant {self.number}"
        )
        known = self.do(approvals.find_decision, wish)
        key = (claim.turn, self._key(claim.turn, call))
        assert (known.answer if isinstance(known, Answered) else known) == self.answered.get(key)
        if known is not None:
            return
        self.do(approvals.open_approval, wish, self._question(claim))
        self.waiting[lane] = wish
        del self.running[lane]

    def _question(self, claim: TurnClaim) -> ApprovalPrompt:
        self.number += 1
        route = claim.messages[-1].route
        return ApprovalPrompt(
            *(
                f"nonce {self.number}",
                0,
                "do it",
                ApprovalRequest("do", {}, "why"),
                route.lane,
                claim.session,
            ),
            *("chat:7", "chat:7", route, self.now, self.now + 5),
        )

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), state=st.sampled_from(("once", "session", "deny", "expired")))
    def a_person_answers(self, data: st.DataObject, state: State) -> None:
        self.settle(data.draw(st.sampled_from(sorted(self.waiting))), state)

    def settle(self, lane: str, state: State) -> None:
        wish = self.waiting.pop(lane)
        before = self.ask("SELECT attempts FROM turn WHERE id = ?", wish.turn)
        result = self.do(approvals.find_decision, wish)
        assert isinstance(result, ApprovalPrompt)
        self.do(approvals.close_approval, result, state, "chat:7", self.now)
        call = ToolCall(wish.call_id, "", {}, "{}")
        answer = state if state in ("once", "session") else "deny"
        self.answered[wish.turn, self._key(wish.turn, call)] = answer
        self.claim(lane)
        assert self.ask("SELECT attempts FROM turn WHERE id = ?", wish.turn) == before

    @precondition(lambda self: any(map(_under_way, self.running.values())))
    @rule(data=st.data())
    def a_call_ends(self, data: st.DataObject) -> None:
        _, running = self.turn(data, _under_way)
        call, turn = _under_way(running)[0], running.claim.turn
        text = f"result {self.now}"
        self.do(turns.finish_call, turn, call, ToolResult(text))
        self.effect_texts[(turn, self._key(turn, call))] = text
        running.calls.remove(call)
        running.results[call.id] = ToolResult(text)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), parts=st.integers(1, 3), streamed=st.booleans())
    def a_turn_ends(self, data: st.DataObject, parts: int, streamed: bool) -> None:
        lane, running = self.turn(data)
        claim = running.claim
        reply = self._reply(f"t{claim.turn}", claim.messages[-1].route, "answer", parts)
        if streamed:
            begun = self.do(outbox.begin_stream, claim.turn, reply, 0, self.now)
            if begun is not None and begun.provider_message_id is None and not begun.lost:
                self.do(outbox.set_preview, reply.delivery_id, 0, f"m{claim.turn}")
        rows = [*self._answers(running), assistant("answer")]
        self.do(turns.finish, claim.turn, claim.session, FinishedTurn(rows, [reply]), self.now)
        seqs = self.ask("SELECT seq FROM inbox WHERE turn_id = ? ORDER BY seq", claim.turn)
        self.finished.append(tuple(seq for (seq,) in seqs))
        del self.running[lane]

    @precondition(lambda self: self.running)
    @rule(data=st.data(), end=st.sampled_from(("shown", "refused", "unclear")))
    def a_preview_begins(self, data: st.DataObject, end: str) -> None:
        _, running = self.turn(data)
        claim = running.claim
        route = claim.messages[-1].route
        waits = route.lane in outbox.lanes_with_mail(self.tx)
        reply = self._reply(f"t{claim.turn}", route, "")
        begun = self.do(outbox.begin_stream, claim.turn, reply, 0, self.now)
        if begun is None:
            assert waits
        elif begun.provider_message_id is None and not begun.lost:
            assert not waits
            if end == "unclear":
                (seq,) = self.ask("SELECT seq FROM outbox WHERE delivery_id = ?", reply.delivery_id)
                self.unclear.add(seq[0])
            else:
                shown = f"m{claim.turn}" if end == "shown" else None
                self.do(outbox.set_preview, reply.delivery_id, 0, shown)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_turn_breaks(self, data: st.DataObject) -> None:
        lane, running = self.turn(data)
        claim = running.claim
        reply = self._reply(f"t{claim.turn}", claim.messages[-1].route, "sorry")
        self.do(turns.give_up, claim.turn, [reply], "a bug", self.now)
        del self.running[lane]

    @precondition(lambda self: self.finished)
    @rule(data=st.data())
    def the_owner_replays(self, data: st.DataObject) -> None:
        numbers = data.draw(st.sampled_from(self.finished))
        seq = data.draw(st.sampled_from(numbers))
        live = self.ask(
            f"SELECT 1 FROM inbox JOIN turn ON turn.id = turn_id WHERE seq = ? AND {LIVE}",
            seq,
        )
        if not live:
            self.do(turns.replay, seq)

    def _reply(self, id_: str, route: Route, text: str, parts: int = 1) -> OutgoingReply:
        return OutgoingReply(id_, route, [OutboundPart(f"{text} {n}") for n in range(parts)])

    # Outgoing messages

    def mail(self) -> list[str]:
        """Return routes with mail that is not in flight."""
        texts = outbox.lanes_with_mail(self.tx)
        return sorted(lane for lane in texts if lane not in self.sending)

    @precondition(lambda self: self.mail())
    @rule(data=st.data())
    def a_route_begins_to_send(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(self.mail()))
        due = self.do(outbox.head, lane, self.now)
        first = self.ask(
            "SELECT min(seq) FROM outbox WHERE lane = ? AND state IN ('pending', 'inflight')", lane
        )
        if isinstance(due, PendingPart):
            assert (due.seq,) == first[0]
            assert due.message.route.lane == lane
            if due.message.provider_message_id is None:
                assert due.message.maybe_duplicate == (due.seq in self.unclear)
            self.do(outbox.take, due.seq)
            self.sending[lane] = due

    @precondition(lambda self: self.sending)
    @rule(data=st.data(), end=st.sampled_from(("sent", "later", "unclear", "plain", "new", "bury")))
    def a_send_ends(self, data: st.DataObject, end: str) -> None:
        lane = data.draw(st.sampled_from(sorted(self.sending)))
        due = self.sending.pop(lane)
        is_edit = due.message.provider_message_id is not None
        match end:
            case "sent":
                self.left[lane].append(due.seq)
                self.do(outbox.sent, due.seq, f"p{due.seq}", lane, self.now)
            case "later" | "unclear":
                unclear = end == "unclear"
                self.do(outbox.reschedule, due.seq, self.now + 3, ambiguous=unclear)
                if unclear and not is_edit:
                    self.unclear.add(due.seq)
            case "plain":
                self.do(outbox.make_plain, due.seq)
            case "new" if is_edit:
                self.do(outbox.make_new, due.seq)
            case "bury":
                self.do(outbox.give_up, due.seq, "gone")
            case _:
                self.do(outbox.reschedule, due.seq, self.now, ambiguous=False)

    # End of a process

    @precondition(lambda self: self.running or self.sending or self.waiting)
    @rule()
    def the_process_is_killed(self) -> None:
        self.unclear |= {
            due.seq for due in self.sending.values() if due.message.provider_message_id is None
        }
        edits = {due.seq for due in self.sending.values()} - self.unclear
        for running in self.running.values():
            for call in running.calls:
                if call.id in running.started and EFFECTS[call.name] == "unsafe":
                    self.unknown.add((running.claim.turn, self._key(running.claim.turn, call)))
        self.tx.close()
        self.tx = open_transaction(self.path, check=True)
        self.running, self.sending = {}, {}
        self.do(claims.recover)
        self.do(outbox.recover)
        assert not self.ask("SELECT 1 FROM outbox WHERE state = 'inflight'")
        for seq in edits:
            assert self.ask("SELECT maybe_duplicate FROM outbox WHERE seq = ?", seq) == [(0,)]

    @precondition(lambda self: self.running and not self.sending)
    @rule()
    def the_process_is_stopped(self) -> None:
        """A clean stop costs no attempt."""
        resting = {r.claim.turn for r in self.running.values() if not r.started}
        if len(resting) < len(self.running):
            return
        before = dict(self.ask("SELECT id, attempts FROM turn WHERE state = 'running'"))
        self.do(claims.suspend_all)
        self.tx.close()
        self.tx = open_transaction(self.path)
        self.running = {}
        self.do(claims.recover)
        self.do(outbox.recover)
        for lane in LANES:
            if self.ask("SELECT 1 FROM turn WHERE lane = ? AND state = 'running'", lane):
                self.claim(lane)
        for turn, attempts in before.items():
            assert self.ask("SELECT attempts FROM turn WHERE id = ?", turn) == [(attempts,)]

    # Invariants

    @invariant()
    def no_message_is_answered_by_two_turns(self) -> None:
        if not hasattr(self, "tx"):
            return
        for table in ("lane", "session"):
            assert not self.ask(
                f"SELECT {table} FROM turn WHERE {LIVE} AND session IS NOT NULL"
                f" GROUP BY {table} HAVING count(*) > 1"
            )
        assert not self.ask("SELECT id FROM turn WHERE attempts > ? + 1", MAX_ATTEMPTS)

    @invariant()
    def a_turn_waits_as_long_as_its_question_is_open(self) -> None:
        if not hasattr(self, "tx"):
            return
        waiting = self.ask("SELECT id, lane FROM turn WHERE state = 'waiting' ORDER BY id")
        text = "SELECT turn_id, lane FROM approval WHERE state = 'open' ORDER BY turn_id"
        assert self.ask(text) == waiting
        assert {lane for _, lane in waiting} == set(self.waiting)

    @invariant()
    def a_lane_is_worked_off_in_order(self) -> None:
        if not hasattr(self, "tx"):
            return
        # No message waits before a message already begun, except for replayed messages.
        replayed = {seq for turn in self.finished for seq in turn}
        for lane in LANES:
            waiting = self.ask(
                "SELECT seq FROM inbox WHERE lane = ? AND turn_id IS NULL AND dead_reason IS NULL",
                lane,
            )
            begun = self.ask(
                "SELECT max(seq) FROM inbox WHERE lane = ? AND turn_id IS NOT NULL", lane
            )
            first = min((seq for (seq,) in waiting if seq not in replayed), default=None)
            if first is not None and begun[0][0] is not None:
                assert first > begun[0][0]

    @invariant()
    def conversations_stay_valid_and_numbered(self) -> None:
        if not hasattr(self, "tx"):
            return
        for (session,) in self.ask("SELECT id FROM session"):
            numbers = self.ask("SELECT n FROM message WHERE session = ? ORDER BY n", session)
            assert [n for (n,) in numbers] == list(range(1, len(numbers) + 1))
            messages = sessions.load_all(self.tx, session)
            assert is_valid(repair(messages))
            if not self.ask(f"SELECT 1 FROM turn WHERE session = ? AND {LIVE}", session):
                assert is_valid(messages)

    @invariant()
    def mail_leaves_in_order(self) -> None:
        if not hasattr(self, "tx"):
            return
        for lane, seqs in self.left.items():
            assert seqs == sorted(set(seqs))
            dead = self.ask("SELECT seq FROM outbox WHERE lane = ? AND state = 'dead'", lane)
            gone = {*seqs, *(seq for (seq,) in dead)}
            pending = self.ask(
                "SELECT min(seq) FROM outbox WHERE lane = ? AND state IN ('pending', 'inflight')",
                lane,
            )
            assert pending[0][0] is None or pending[0][0] not in gone

    @invariant()
    def what_was_confirmed_is_stored(self) -> None:
        if not hasattr(self, "tx"):
            return
        cursors = inbox.load_cursors(self.tx, "chat", "bot", 0.0)
        assert cursors == ({"offset": str(self.offset)} if self.offset else {})
        ((stored,),) = self.ask("SELECT count(*) FROM inbox WHERE event_id NOT LIKE 'update:%'")
        assert stored == len(self.accepted_messages)

    @invariant()
    def what_a_tool_did_is_never_forgotten(self) -> None:
        if not hasattr(self, "tx"):
            return
        for (turn, n), text in self.effect_texts.items():
            ((state, result),) = self.ask(
                "SELECT state, result FROM step WHERE turn_id = ? AND n = ?", turn, n
            )
            assert state == "done"
            assert json.loads(result)["text"] == text


# Examples are long, so there are fewer of them than for other properties and in the search.
JournalMachine.TestCase.settings = settings(
    max_examples=max(20, settings().max_examples // 5),
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestJournal = JournalMachine.TestCase
