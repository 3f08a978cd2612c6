"""Limiter that keeps transactions of one process from conflicting."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.store.postgres.conflict_limiter import ConflictLimiter

TIMEOUT_S = 20.0


@pytest.mark.parametrize(("conflicts", "at_once"), [(0, 4), (1, 2), (2, 1)])
def test_concurrency_respects_the_limit(conflicts: int, at_once: int) -> None:
    limiter = ConflictLimiter(4, TIMEOUT_S)
    for _ in range(conflicts):
        limiter.note_conflict()
    inside: list[int] = []
    most = 0
    together = threading.Barrier(at_once, timeout=TIMEOUT_S)

    def run(number: int) -> None:
        nonlocal most
        with limiter.admitted():
            inside.append(number)
            # Wait inside for as many transactions as the limit allows.
            together.wait()
            most = max(most, len(inside))
            together.wait()
            inside.remove(number)

    with ThreadPoolExecutor(8) as threads:
        for item in [threads.submit(run, number) for number in range(40)]:
            item.result(TIMEOUT_S)
    assert most == at_once


def test_conflicts_halve_the_limit_and_successes_restore_it() -> None:
    limiter = ConflictLimiter(4)
    limits = []
    for _ in range(4):
        limiter.note_conflict()
        limits.append(limiter.limit)
    assert limits == [2, 1, 1, 1]

    successes = 0
    while limiter.limit < 4:
        limiter.note_success()
        successes += 1
    assert 50 < successes < 200
    limiter.note_success()
    assert limiter.limit == 4


def test_long_transaction_does_not_block_others() -> None:
    limiter = ConflictLimiter(1)
    with limiter.admitted(), ThreadPoolExecutor() as threads:
        threads.submit(_pass_through, limiter).result(TIMEOUT_S)
        # The transaction that takes long no longer counts.
        threads.submit(_pass_through, limiter).result(TIMEOUT_S)


def _pass_through(limiter: ConflictLimiter) -> None:
    with limiter.admitted():
        pass
