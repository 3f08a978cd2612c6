"""Compare claims, leases and fences of workers with a simple model, on a real server.

Up to three workers claim lanes, run turns and wait for answers. The front declares a worker dead in
the middle of its work, and that worker continues: it can store nothing more, and other workers take
over its turns.
"""

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
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
from agent.context.history_validation import close_unanswered_calls, tool_message
from agent.types import Message, ToolCall, ToolResult, assistant
from gateway.commands import is_command
from gateway.core.approval import ApprovalPrompt, State
from gateway.core.messages import OutboundPart
from gateway.store.conditions import LIVE
from gateway.store.errors import StoreTakenOver
from gateway.store.port import Transaction
from gateway.store.postgres import worker_table
from gateway.store.postgres.worker_store import PostgresWorkerStore
from gateway.store.repositories.access import approvals
from gateway.store.repositories.access.approvals import ApprovalKey
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution import claims, open_work, turns, windows
from gateway.store.repositories.execution.claims import ClaimScope, HeldElsewhere, TurnClaim
from gateway.store.repositories.execution.turns import FinishedTurn
from gateway.worker_app import hand_over_turns
from tests.gateway.store.postgres.claim_scene import EFFECTS, ClaimScene, HeldTurn, compose, message

WORKERS = 3
CHATS = ("a", "b", "c")
_examples = itertools.count(1)

Worker = PostgresWorkerStore


class ClaimMachine(RuleBasedStateMachine):
    """Model of the claims.

    The worker of each lane (`at_work`), turns that wait for an answer (`waiting`), effects of tools
    (`effects`), and the turn that answered each message (`answered`).
    """

    scene: ClaimScene

    @initialize(pins=st.booleans())
    def begin(self, pins: bool) -> None:
        self.example = next(_examples)
        self.lanes = [f"chat:bot:{self.example}{chat}" for chat in CHATS]
        self.now, self.number = 1_000.0, 0
        self.workers: list[Worker] = [self.scene.join(), self.scene.join()]
        self.dead: list[tuple[Worker, list[tuple[str, HeldTurn]]]] = []
        # Workers that have ended and are not yet recovered.
        self.unrecovered: set[int] = set()
        self.at_work: dict[str, tuple[Worker, HeldTurn]] = {}
        self.waiting: dict[str, ApprovalKey] = {}
        # Workers that have not yet released a waiting turn, by lane.
        self.unreleased: dict[str, Worker] = {}
        self.pins: dict[str, int] = {}
        self.effects: dict[tuple[int, int], int] = {}
        self.unknown: set[tuple[int, int]] = set()
        self.answered: dict[int, int] = {}
        for chat in CHATS:
            self.somebody_writes(chat)
        self._begin_in_the_middle(pins)

    def _begin_in_the_middle(self, pins: bool) -> None:
        """Begin with a turn that runs an unsafe call, and a turn that waits for an answer."""
        for worker, lane in zip(self.workers, self.lanes, strict=False):
            self._claim(worker, lane)
            self._reply(*self.at_work[lane], ["do"])
        self._start(*self.at_work[self.lanes[0]])
        self._ask(self.lanes[1])
        self._let_go(self.lanes[1], pins)

    def teardown(self) -> None:
        if not hasattr(self, "workers"):
            return
        ((parts, result),) = self.scene.rows("SELECT count(*), count(DISTINCT turn_id) FROM outbox")
        assert parts == result
        for worker in self.workers:
            self.scene.do(self.scene.owner, worker_table.end, worker.worker)
        for worker in [*self.workers, *(outcome for outcome, _ in self.dead)]:
            self.scene.end(worker)

    def front(self, work: Any, *args: Any, **more: Any) -> Any:
        self.now += 1.0
        return self.scene.do(self.scene.owner, work, *args, **more)

    def lane_of(self, chat: str) -> str:
        return self.lanes[CHATS.index(chat)]

    # Actions of the front

    @rule(chat=st.sampled_from(CHATS))
    def somebody_writes(self, chat: str) -> None:
        self.number += 1
        entry = InboxEntry(message(f"{self.example}{chat}", self.number))
        offset = str(self.example * 10_000 + self.number)
        batch = InboxBatch("chat", "bot", self.now, {"offset": offset})
        assert self.front(inbox.accept, batch, [entry]) <= set(self.lanes)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), state=st.sampled_from(("once", "deny")))
    def somebody_answers(self, data: st.DataObject, state: State) -> None:
        lane = data.draw(st.sampled_from(sorted(self.waiting)))
        key = self.waiting.pop(lane)
        question = self.front(approvals.find_decision, key)
        assert isinstance(question, ApprovalPrompt)
        self.front(approvals.close_approval, question, state, "chat:7", self.now)
        # Several workers are notified; one of them claims first.
        self._claim(data.draw(st.sampled_from(self.workers)), lane)

    @precondition(lambda self: len(self.workers) < WORKERS)
    @rule()
    def a_worker_joins(self) -> None:
        self.workers.append(self.scene.join())

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), at_once=st.booleans())
    def a_worker_is_declared_dead(self, data: st.DataObject, at_once: bool) -> None:
        """Recover its turns at once, or later, like an owner that is starting."""
        worker = data.draw(st.sampled_from(self.workers))
        if at_once:
            self.front(_end_and_recover, worker.worker)
        else:
            self.front(worker_table.end, worker.worker)
            self.unrecovered.add(worker.worker)
        self._bury(worker)
        if at_once:
            self._forget_pins(worker.worker)

    @precondition(lambda self: self.unrecovered)
    @rule()
    def the_front_recovers(self) -> None:
        for number in self.front(worker_table.ended_with_turns):
            self.front(claims.recover, number)
            self._forget_pins(number)
        for number in self.unrecovered:
            assert not self.scene.rows(f"SELECT 1 FROM turn WHERE {LIVE} AND worker = ?", number)
        # Pins of a worker without turns remain until its row is examined.
        for number in self.unrecovered:
            self.front(claims.recover, number)
            self._forget_pins(number)
        self.unrecovered.clear()

    def _bury(self, worker: Worker) -> None:
        self.workers.remove(worker)
        left = [(lane, turn) for lane, (holder, turn) in self.at_work.items() if holder is worker]
        for lane, turn in left:
            del self.at_work[lane]
            for call in turn.under_way:
                if EFFECTS[call.name] == "unsafe":
                    self.unknown.add(self._step(turn, call))
        self.unreleased = {
            lane: result for lane, result in self.unreleased.items() if result is not worker
        }
        self.dead.append((worker, left))
        if len(self.workers) < 2:
            self.workers.append(self.scene.join())

    def _forget_pins(self, number: int) -> None:
        self.pins = {session: pin for session, pin in self.pins.items() if pin != number}

    # Actions of workers

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def a_worker_claims(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        lanes = st.sampled_from(self.lanes)
        for lane in data.draw(st.lists(lanes, min_size=1, max_size=3, unique=True)):
            self._claim(worker, lane)

    def _claim(self, worker: Worker, lane: str) -> None:
        holder = self.at_work.get(lane, (None, None))[0] or self.unreleased.get(lane)
        if holder is worker:
            return  # a bus has one task for each lane
        live = self.scene.rows(
            f"SELECT id, state, worker, session FROM turn WHERE lane = ? AND {LIVE}", lane
        )
        claim = self.scene.claim(worker, lane, self.now)
        if live and live[0][1] == "waiting":
            assert claim is None
        elif live and live[0][2] is not None:
            # The holder may also be a dead worker that is not yet recovered.
            assert claim == HeldElsewhere(live[0][2])
        elif isinstance(claim, HeldElsewhere):
            (session,) = self.scene.rows("SELECT session FROM binding WHERE lane = ?", lane)[0]
            assert claim.worker == self.pins[session] != worker.worker
        elif isinstance(claim, TurnClaim):
            assert claim.resumed == bool(live)
            assert self.pins.get(claim.session, worker.worker) == worker.worker
            self._take_up(worker, lane, claim)
        else:
            assert claim is None
            assert not live
            assert not inbox.waiting_rows(self.scene.reader, lane, together=True)

    def _take_up(self, worker: Worker, lane: str, claim: TurnClaim) -> None:
        turn = HeldTurn(claim)
        if claim.exhausted:
            self._do(worker, turns.give_up, claim.turn, [], "gave up", self.now)
            self._note_end(claim)
            return
        self.at_work[lane] = worker, turn
        if not claim.resumed:
            return
        turn.results = self._do(worker, turns.known_results, claim.turn)
        for call in self._open_calls(worker, claim):
            if self._step(turn, call) in self.unknown:
                assert "unknown" in turn.results[call.id].for_model
            elif call.id not in turn.results:
                turn.calls.append(call)

    def _do(self, worker: Worker, work: Any, *args: Any) -> Any:
        self.now += 1.0
        return self.scene.do(worker, work, *args)

    def _draw(self, data: st.DataObject, which: Any) -> tuple[str, Worker, HeldTurn]:
        lanes = sorted(lane for lane, (_, turn) in self.at_work.items() if which(turn))
        lane = data.draw(st.sampled_from(lanes))
        return lane, *self.at_work[lane]

    @precondition(lambda self: any(not turn.calls for _, turn in self.at_work.values()))
    @rule(
        data=st.data(),
        tools=st.lists(st.sampled_from(sorted(EFFECTS)), min_size=1, max_size=2),
        starts=st.booleans(),
    )
    def the_model_asks_for_calls(self, data: st.DataObject, tools: list[str], starts: bool) -> None:
        _, worker, turn = self._draw(data, lambda turn: not turn.calls)
        self._reply(worker, turn, tools)
        if starts:
            self._start(worker, turn)

    def _reply(self, worker: Worker, turn: HeldTurn, tools: list[str]) -> None:
        claim = turn.claim
        calls = [ToolCall(f"call_{n}", tool, {}, "{}") for n, tool in enumerate(tools)]
        rows = [*self._answers(worker, turn), assistant("working", tuple(calls))]
        effects = {call.id: EFFECTS[call.name] for call in calls}
        self._do(worker, turns.add_reply, claim.turn, claim.session, rows, effects, self.now)
        turn.calls, turn.started, turn.results = calls, set(), {}

    @precondition(lambda self: any(turn.planned for _, turn in self.at_work.values()))
    @rule(data=st.data())
    def a_call_starts(self, data: st.DataObject) -> None:
        _, worker, turn = self._draw(data, lambda turn: turn.planned)
        self._start(worker, turn)

    def _start(self, worker: Worker, turn: HeldTurn) -> None:
        call = turn.planned[0]
        step = self._step(turn, call)
        assert step not in self.unknown
        if EFFECTS[call.name] != "read":
            self._do(worker, turns.start_call, turn.claim.turn, call)
        turn.started.add(call.id)
        self.effects[step] = self.effects.get(step, 0) + 1

    @precondition(lambda self: any(turn.under_way for _, turn in self.at_work.values()))
    @rule(data=st.data())
    def a_call_ends(self, data: st.DataObject) -> None:
        _, worker, turn = self._draw(data, lambda turn: turn.under_way)
        call = turn.under_way[0]
        result = ToolResult(f"result {self.now}")
        self._do(worker, turns.finish_call, turn.claim.turn, call, result)
        turn.calls.remove(call)
        turn.results[call.id] = result

    @precondition(lambda self: self.at_work)
    @rule(data=st.data())
    def a_turn_ends(self, data: st.DataObject) -> None:
        lane, worker, turn = self._draw(data, lambda turn: True)
        self._do(worker, turns.finish, *self._ending(worker, turn))
        self._note_end(turn.claim)
        del self.at_work[lane]

    @precondition(lambda self: any(turn.planned for _, turn in self.at_work.values()))
    @rule(data=st.data(), rests=st.booleans(), pins=st.booleans())
    def a_call_asks(self, data: st.DataObject, rests: bool, pins: bool) -> None:
        """The turn waits, and may be released."""
        lane, _, _ = self._draw(data, lambda turn: turn.planned)
        if self._ask(lane) and rests:
            self._let_go(lane, pins)

    def _ask(self, lane: str) -> bool:
        """Ask about a planned call; return False if it is already answered."""
        worker, turn = self.at_work[lane]
        call, claim = turn.planned[0], turn.claim
        key = ApprovalKey(claim.turn, call.id, claim.session, "chat:7", "shown", f"g{self.number}")
        if turn.under_way or self._do(worker, approvals.find_decision, key) is not None:
            return False
        self._do(worker, approvals.open_approval, key, self._question(claim))
        self.waiting[lane] = key
        del self.at_work[lane]
        self.unreleased[lane] = worker
        return True

    @precondition(lambda self: self.unreleased)
    @rule(data=st.data(), pins=st.booleans())
    def a_worker_lets_go(self, data: st.DataObject, pins: bool) -> None:
        self._let_go(data.draw(st.sampled_from(sorted(self.unreleased))), pins)

    def _let_go(self, lane: str, pins: bool) -> None:
        worker = self.unreleased.pop(lane)
        ((turn, session),) = self.scene.rows(
            f"SELECT id, session FROM turn WHERE lane = ? AND {LIVE}", lane
        )
        if pins:
            self._do(worker, sessions.pin, session, worker.worker)
            self.pins[session] = worker.worker
        self._do(worker, claims.release, turn)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def a_worker_stops(self, data: st.DataObject) -> None:
        """A clean stop costs no attempt."""
        worker = data.draw(st.sampled_from(self.workers))
        attempts = "SELECT id, attempts, interruptions FROM turn WHERE state = 'running'"
        before = self.scene.rows(f"{attempts} AND worker = ? ORDER BY id", worker.worker)
        self._do(worker, hand_over_turns, worker.worker, "a worker")
        self._do(worker, worker_table.end, worker.worker)
        self._bury(worker)
        self._forget_pins(worker.worker)
        now = self.scene.rows(f"{attempts} ORDER BY id")
        assert set(before) <= set(now)

    # Attempts of workers that do not know that they are dead

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), what=st.integers(0, 5))
    def a_dead_worker_goes_on(self, data: st.DataObject, what: int) -> None:
        worker, left = data.draw(st.sampled_from(self.dead))
        before = self.scene.content()
        scope = ClaimScope(worker.worker)
        lane = data.draw(st.sampled_from(self.lanes))
        arguments: list[tuple[Any, ...]] = [
            (claims.claim, lane, self.now, is_command, compose, scope),
            (worker_table.end, worker.worker),
        ]
        for _, turn in left:
            claim, call = turn.claim, ToolCall("call_0", "do", {}, "{}")
            reply = [assistant("late", (call,))]
            done = FinishedTurn([assistant("late")], [_reply(claim)])
            arguments += [
                (turns.add_reply, claim.turn, claim.session, reply, {call.id: "unsafe"}, self.now),
                (turns.start_call, claim.turn, call),
                (turns.finish_call, claim.turn, call, ToolResult("late")),
                (turns.finish, claim.turn, claim.session, done, self.now),
                (claims.release, claim.turn),
            ]
        with pytest.raises(StoreTakenOver):
            self._do(worker, *arguments[what % len(arguments)])
        assert self.scene.content() == before

    # Helpers

    def _open_calls(self, worker: Worker, claim: TurnClaim) -> list[ToolCall]:
        window = self._do(worker, windows.load, claim.session).messages
        return list(window[-1].tool_calls) if window else []

    def _step(self, turn: HeldTurn, call: ToolCall) -> tuple[int, int]:
        """Return the step number of a call, since vendors reuse ids."""
        ((n,),) = self.scene.rows(
            "SELECT max(n) FROM step WHERE turn_id = ? AND call_id = ?", turn.claim.turn, call.id
        )
        return turn.claim.turn, n

    def _answers(self, worker: Worker, turn: HeldTurn) -> list[Message]:
        window = self._do(worker, windows.load, turn.claim.session).messages
        known = {
            call.id: tool_message(
                call, turn.results[call.id].for_model, is_error=turn.results[call.id].is_error
            )
            for call in self._open_calls(worker, turn.claim)
            if call.id in turn.results
        }
        return close_unanswered_calls(window, known)

    def _ending(self, worker: Worker, turn: HeldTurn) -> tuple[Any, ...]:
        claim = turn.claim
        rows = [*self._answers(worker, turn), assistant("answer")]
        return claim.turn, claim.session, FinishedTurn(rows, [_reply(claim)]), self.now

    def _note_end(self, claim: TurnClaim) -> None:
        for (seq,) in self.scene.rows("SELECT seq FROM inbox WHERE turn_id = ?", claim.turn):
            assert seq not in self.answered
            self.answered[seq] = claim.turn

    def _question(self, claim: TurnClaim) -> ApprovalPrompt:
        self.number += 1
        route = claim.messages[-1].route
        return ApprovalPrompt(
            *(f"nonce {self.example} {self.number}", 0, "do it"),
            *(ApprovalRequest("do", {}, "why"), route.lane, claim.session, "chat:7", "chat:7"),
            *(route, self.now, self.now + 5),
        )

    # Invariants

    @invariant()
    def whoever_holds_a_turn_counts(self) -> None:
        if not hasattr(self, "workers"):
            return
        marks = ", ".join("?" for _ in self.lanes)
        live = self.scene.rows(
            f"SELECT lane, is_claimed, worker FROM turn WHERE {LIVE} AND lane IN ({marks})",
            *self.lanes,
        )
        assert len({lane for lane, *_ in live}) == len(live)
        holders = {
            lane: worker
            for lane, is_claimed, worker in live
            if is_claimed and worker not in self.unrecovered
        }
        assert holders == {
            **{lane: worker.worker for lane, (worker, _) in self.at_work.items()},
            **{lane: worker.worker for lane, worker in self.unreleased.items()},
        }
        assert set(holders.values()) <= {worker.worker for worker in self.workers}

    @invariant()
    def nothing_unsafe_starts_twice(self) -> None:
        if not hasattr(self, "workers"):
            return
        turns_seen = sorted({turn for turn, _ in self.effects})
        if not turns_seen:
            return
        marks = ", ".join("?" for _ in turns_seen)
        steps = {
            (turn, n): (effect, state)
            for turn, n, effect, state in self.scene.rows(
                f"SELECT turn_id, n, effect, state FROM step WHERE turn_id IN ({marks})",
                *turns_seen,
            )
        }
        for step, times in self.effects.items():
            assert times == 1 or steps[step][0] != "unsafe"
        for step in self.unknown:
            assert steps[step][1] in ("started", "unknown")

    @invariant()
    def lanes_are_worked_off_in_order(self) -> None:
        if not hasattr(self, "workers"):
            return
        marks = ", ".join("?" for _ in self.lanes)
        stored = self.scene.rows(
            f"SELECT lane, seq, turn_id FROM inbox WHERE lane IN ({marks}) ORDER BY seq",
            *self.lanes,
        )
        for lane in self.lanes:
            rows = [(seq, turn) for of, seq, turn in stored if of == lane]
            results = [turn for _, turn in rows if turn is not None]
            # Waiting messages follow those already taken, and turns are in order.
            assert [turn for _, turn in rows[: len(results)]] == results == sorted(results)
            for seq, turn in rows:
                assert self.answered.get(seq, turn) == turn

    @invariant()
    def open_work_names_what_nobody_is_at(self) -> None:
        if not hasattr(self, "workers"):
            return
        free = set(open_work.lanes(self.scene.reader)) & set(self.lanes)
        assert not free & {*self.at_work, *self.waiting}


def _end_and_recover(tx: Transaction, number: int) -> None:
    worker_table.end(tx, number)
    claims.recover(tx, number)


def _reply(claim: TurnClaim) -> OutgoingReply:
    route = claim.messages[-1].route
    return OutgoingReply(f"t{claim.turn}", route, [OutboundPart("answer")])


@pytest.fixture(scope="module", autouse=True)
def scene() -> Iterator[None]:
    with closing(ClaimScene()) as scene:
        ClaimMachine.scene = scene
        yield


# Examples are long and use a real server, so there are fewer of them than for other properties.
TestClaims = ClaimMachine.TestCase
TestClaims.settings = settings(
    max_examples=max(12, settings().max_examples // 8),
    stateful_step_count=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
