from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution import subagent_tasks
from tests.gateway.store.repositories.claims import claim_turn, message_in, take
from tests.gateway.store.repositories.launches import launched


def test_ending_a_task_keeps_another_launched_in_the_same_second(
    db: Transaction,
) -> None:
    take(db, message_in("a", "once-1"), message_in("b", "2"))
    ended = launched(db, claim_turn(db, "chat:bot:once-1"), "chat:bot:once-1")
    other = launched(db, claim_turn(db, "chat:bot:2"), "chat:bot:2")
    assert other.lane == f"{ended.lane}_2"
    assert subagent_tasks.abandon(db, "chat:bot:once-", 8.0) == 1
    assert not inbox.has_work(db, ended.lane)
    assert inbox.has_work(db, other.lane)
