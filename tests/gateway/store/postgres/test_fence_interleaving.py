"""A worker declared dead in the middle of its transaction, in every order of the steps.

Each transaction has its own connection and is advanced step by step. A worker's transaction that
commits after the worker's end must fail if any other transaction has read the rows it writes.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from agent.types import ToolCall, ToolResult, assistant
from gateway.commands import is_command
from gateway.store.conditions import LIVE
from gateway.store.port import Transaction
from gateway.store.postgres import worker_table
from gateway.store.postgres.connection import connect
from gateway.store.postgres.lease import Fence, begin
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.postgres.worker_store import PostgresWorkerStore
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims, turns
from gateway.store.repositories.execution.claims import ClaimScope, HeldElsewhere, TurnClaim
from gateway.store.repositories.execution.turns import FinishedTurn
from tests.gateway.store.postgres.claim_scene import ClaimScene, compose, message

_TIMEOUT_S = 20.0
_POLL_INTERVAL_S = 0.002
CALL = ToolCall("call_0", "do", {}, "{}")
LANE, OTHER = "chat:bot:1", "chat:bot:2"

Write = Callable[[Transaction, TurnClaim], object]
WRITES: dict[str, Write] = {
    "a reply": lambda tx, claim: turns.add_reply(
        *(tx, claim.turn, claim.session),
        *([assistant("on", (ToolCall("call_1", "do", {}, "{}"),))], {"call_1": "unsafe"}, 5.0),
    ),
    "the start of a call": lambda tx, claim: turns.start_call(tx, claim.turn, CALL),
    "the result of a call": lambda tx, claim: turns.finish_call(
        tx, claim.turn, CALL, ToolResult("done")
    ),
    "the end of the turn": lambda tx, claim: turns.finish(
        tx, claim.turn, claim.session, FinishedTurn([assistant("answer")], []), 5.0
    ),
    "the release of the turn": lambda tx, claim: claims.release(tx, claim.turn),
}


class Steps:
    """A transaction advanced step by step."""

    def __init__(self, scene: ClaimScene, fence: Fence) -> None:
        self._connection = connect(scene.address)
        # Use indexes, as on large tables, so that only the rows read are locked.
        self._connection.execute("SET enable_seqscan = off")
        self._fence = fence
        self.tx = PostgresTransaction(self._connection)
        self.process = self._connection.info.backend_pid

    def begin(self) -> None:
        begin(self._connection, self._fence)

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def write_and_commit(self, write: Write, claim: TurnClaim) -> None:
        write(self.tx, claim)
        self.commit()

    def run(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run the whole transaction from begin to commit."""
        self.begin()
        try:
            outcome = work(self.tx, *args)
            self.commit()
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        return outcome

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def scene() -> Iterator[ClaimScene]:
    with closing(ClaimScene()) as scene:
        yield scene


@contextmanager
def worker_of(scene: ClaimScene) -> Iterator[PostgresWorkerStore]:
    worker = scene.join()
    try:
        yield worker
    finally:
        scene.end(worker)


@pytest.fixture
def first(scene: ClaimScene) -> Iterator[PostgresWorkerStore]:
    with worker_of(scene) as worker:
        yield worker


@pytest.fixture
def second(scene: ClaimScene) -> Iterator[PostgresWorkerStore]:
    with worker_of(scene) as worker:
        yield worker


@pytest.fixture
def steps(scene: ClaimScene, first: PostgresWorkerStore) -> Iterator[Steps]:
    """Yield a transaction of the first worker."""
    with closing(Steps(scene, worker_table.fence(first.worker))) as steps:
        yield steps


@pytest.fixture
def front(scene: ClaimScene) -> Iterator[Steps]:
    ((epoch,),) = scene.rows("SELECT epoch FROM owner")
    with closing(Steps(scene, owner_fence(epoch))) as steps:
        yield steps


def owner_fence(epoch: int) -> Fence:
    return Fence(epoch, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT epoch FROM owner", "")


def ask(scene: ClaimScene, chat: str) -> None:
    batch = InboxBatch("chat", "bot", 1.0, {"offset": chat})
    scene.do(scene.owner, inbox.accept, batch, [InboxEntry(message(chat, 1))])


def claim_with_a_call(scene: ClaimScene, worker: PostgresWorkerStore) -> TurnClaim:
    """Claim a turn that has an unsafe call to start."""
    ask(scene, "1")
    claim = scene.claim(worker, LANE, 2.0)
    assert isinstance(claim, TurnClaim)
    reply = [assistant("working", (CALL,))]
    effects = {CALL.id: "unsafe"}
    scene.do(worker, turns.add_reply, claim.turn, claim.session, reply, effects, 3.0)
    return claim


def end_and_recover(tx: Transaction, number: int) -> list[str]:
    worker_table.end(tx, number)
    return claims.recover(tx, number)


def claim_lane(tx: Transaction, worker: int, lane: str) -> Any:
    return claims.claim(tx, lane, 4.0, is_command, compose, ClaimScope(worker))


def until_blocked(scene: ClaimScene, steps: Steps, work: Future[Any]) -> bool:
    """Return True once `work` waits for a lock, False if it has finished."""
    deadline = time.monotonic() + _TIMEOUT_S
    query = "SELECT 1 FROM pg_stat_activity WHERE pid = ? AND wait_event_type = 'Lock'"
    while not work.done():
        if scene.rows(query, steps.process):
            return True
        assert time.monotonic() < deadline
        time.sleep(_POLL_INTERVAL_S)
    return False


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.mark.parametrize("write", WRITES)
def test_write_after_the_worker_was_ended_is_not_stored(
    scene: ClaimScene, first: PostgresWorkerStore, steps: Steps, front: Steps, write: str
) -> None:
    claim = claim_with_a_call(scene, first)
    steps.begin()

    front.run(end_and_recover, first.worker)
    before = scene.content()
    with pytest.raises(psycopg.errors.SerializationFailure):
        steps.write_and_commit(WRITES[write], claim)

    assert scene.content() == before


@pytest.mark.parametrize("write", WRITES)
def test_commit_after_the_worker_was_ended_is_not_stored(
    scene: ClaimScene,
    first: PostgresWorkerStore,
    second: PostgresWorkerStore,
    steps: Steps,
    front: Steps,
    threads: ThreadPoolExecutor,
    write: str,
) -> None:
    claim = claim_with_a_call(scene, first)
    steps.begin()
    WRITES[write](steps.tx, claim)

    ending = threads.submit(front.run, end_and_recover, first.worker)
    if until_blocked(scene, front, ending):
        # The end waits for this commit, so the commit comes first.
        steps.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            ending.result()
        front.run(end_and_recover, first.worker)
    else:
        assert ending.result() == [LANE]
        other = scene.claim(second, LANE, 6.0)
        assert isinstance(other, TurnClaim)
        assert other.turn == claim.turn
        before = scene.content()
        with pytest.raises(psycopg.errors.SerializationFailure):
            steps.commit()
        assert scene.content() == before

    assert not scene.rows(f"SELECT 1 FROM turn WHERE {LIVE} AND worker = ?", first.worker)


def test_call_of_a_dead_worker_is_started_once(
    scene: ClaimScene,
    first: PostgresWorkerStore,
    second: PostgresWorkerStore,
    steps: Steps,
    front: Steps,
    threads: ThreadPoolExecutor,
) -> None:
    """End and recovery are separate transactions; the next worker reads the call first."""
    claim = claim_with_a_call(scene, first)
    steps.begin()
    turns.start_call(steps.tx, claim.turn, CALL)

    front.run(worker_table.end, first.worker)
    assert scene.claim(second, LANE, 6.0) == HeldElsewhere(first.worker)
    front.run(claims.recover, first.worker)
    other = scene.claim(second, LANE, 6.0)
    assert isinstance(other, TurnClaim)
    assert scene.do(second, turns.known_results, other.turn) == {}
    with closing(Steps(scene, worker_table.fence(second.worker))) as others:
        start = threads.submit(others.run, turns.start_call, other.turn, CALL)
        assert until_blocked(scene, others, start)
        with pytest.raises(psycopg.errors.SerializationFailure):
            steps.commit()
        start.result()


def test_turn_claimed_by_an_ending_worker_is_recovered(
    scene: ClaimScene,
    first: PostgresWorkerStore,
    second: PostgresWorkerStore,
    steps: Steps,
    front: Steps,
) -> None:
    """No other transaction has read the lane, so the claim may be serialized before the end."""
    ask(scene, "2")
    steps.begin()
    claim = claim_lane(steps.tx, first.worker, OTHER)
    front.run(worker_table.end, first.worker)
    steps.commit()

    assert scene.claim(second, OTHER, 6.0) == HeldElsewhere(first.worker)
    assert front.run(worker_table.ended_with_turns) == [first.worker]
    assert front.run(claims.recover, first.worker) == [OTHER]
    other = scene.claim(second, OTHER, 6.0)
    assert isinstance(other, TurnClaim)
    assert other.turn == claim.turn
    assert other.resumed


def test_concurrent_claims_of_a_lane_begin_one_turn(
    scene: ClaimScene,
    first: PostgresWorkerStore,
    second: PostgresWorkerStore,
    steps: Steps,
    threads: ThreadPoolExecutor,
) -> None:
    ask(scene, "2")
    steps.begin()
    claim = claim_lane(steps.tx, first.worker, OTHER)
    assert isinstance(claim, TurnClaim)
    with closing(Steps(scene, worker_table.fence(second.worker))) as others:
        late = threads.submit(others.run, claim_lane, second.worker, OTHER)
        assert until_blocked(scene, others, late)
        steps.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            late.result()

    assert scene.claim(second, OTHER, 6.0) == HeldElsewhere(first.worker)
    assert scene.rows("SELECT id, worker FROM turn") == [(claim.turn, first.worker)]
