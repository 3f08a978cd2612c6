"""Transactions of one process get out of each other's way."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from gateway.store.postgres.conflict_limiter import ConflictLimiter

PATIENCE_S = 20.0


def test_as_many_run_at_once_as_there_are_connections() -> None:
    limiter = ConflictLimiter(3)
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        for _ in range(3):
            stack.enter_context(limiter.admitted())
        fourth = threads.submit(_pass_through, limiter)
        assert not fourth.done()
        stack.close()
        fourth.result(PATIENCE_S)


def test_each_conflict_halves_the_number_down_to_one_and_successes_bring_it_back() -> None:
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


def test_one_runs_after_the_other_where_they_conflict() -> None:
    limiter = ConflictLimiter(4)
    for _ in range(2):
        limiter.note_conflict()
    inside, most = 0, 0
    lock = threading.Lock()

    def run() -> None:
        nonlocal inside, most
        with limiter.admitted():
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as threads:
        for one in [threads.submit(run) for _ in range(200)]:
            one.result(PATIENCE_S)
    assert most == 1


def test_nothing_waits_behind_one_that_takes_long() -> None:
    limiter = ConflictLimiter(1)
    with limiter.admitted(), ThreadPoolExecutor() as threads:
        threads.submit(_pass_through, limiter).result(PATIENCE_S)
        # Nor is it counted any more.
        threads.submit(_pass_through, limiter).result(PATIENCE_S)


def _pass_through(limiter: ConflictLimiter) -> None:
    with limiter.admitted():
        pass
