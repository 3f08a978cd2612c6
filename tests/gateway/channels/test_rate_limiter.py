import asyncio
import heapq
import itertools
import statistics

import pytest

from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.spec import RATES
from tests.fakes.bot_limits import Gatekeeper, Limits
from tests.gateway.parts import cancel_and_wait

BOT = RATES.all_traffic.bot


class SimulatedTime:
    """Clock that jumps to the next wake-up once every task waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._numbers), future))
        await future

    async def run_until(self, end: float) -> None:
        while True:
            await self.settle()
            if not self._sleepers or self._sleepers[0][0] > end:
                self.now = end
                return
            at, _, future = heapq.heappop(self._sleepers)
            self.now = max(self.now, at)
            if not future.done():
                future.set_result(None)

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


@pytest.fixture
def time() -> SimulatedTime:
    return SimulatedTime()


@pytest.fixture
def gate(time: SimulatedTime) -> RateLimiter:
    return RateLimiter(RATES.all_traffic, clock=time.clock, sleep=time.sleep)


async def send(
    gate: RateLimiter, time: SimulatedTime, chat: str, count: int, *, group: bool = False
) -> list[float]:
    """Return the times at which `count` finals, all requested at once, may be sent."""
    times: list[float] = []

    async def one() -> None:
        await gate.acquire(chat, group=group)
        times.append(time.now)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(one())
        await time.run_until(time.now + 3600)
    return times


async def test_private_chat_sends_five_at_once_then_one_per_second(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    times = await send(gate, time, "7", 8)
    assert times == pytest.approx([0, 0, 0, 0, 0, 1, 2, 3])


async def test_group_gets_at_most_twenty_messages_per_minute(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    times = await send(gate, time, "-7", 60, group=True)
    for start in times:
        assert sum(start <= at < start + 60 for at in times) <= 20


async def test_worker_leaves_the_gateway_its_share_in_a_group(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    previews = RateLimiter(RATES.previews, clock=time.clock, sleep=time.sleep)
    shown = 0

    async def show() -> None:
        nonlocal shown
        while True:
            shown += previews.try_acquire("group", group=True)
            await time.sleep(1.0)

    task = asyncio.create_task(show())
    sent = await send(gate, time, "group", 400, group=True)
    await cancel_and_wait(task)
    assert shown > 50
    assert len(sent) + shown <= 20 * time.now / 60


async def test_bot_stays_within_its_total_limit(gate: RateLimiter, time: SimulatedTime) -> None:
    passed: list[float] = []

    async def one(chat: int) -> None:
        await gate.acquire(str(chat), group=False)
        passed.append(time.now)

    async with asyncio.TaskGroup() as tasks:
        for chat in range(400):
            tasks.create_task(one(chat))
        await time.run_until(60)
    assert passed[int(BOT.burst) - 1] == 0
    assert passed[-1] == pytest.approx((400 - BOT.burst) / BOT.per_s)


async def test_slow_chat_does_not_delay_another(gate: RateLimiter, time: SimulatedTime) -> None:
    async with asyncio.TaskGroup() as tasks:
        flood = [tasks.create_task(gate.acquire("1", group=False)) for _ in range(20)]
        await time.settle()
        other = tasks.create_task(gate.acquire("2", group=False))
        await time.settle()
        assert other.done()
        assert sum(task.done() for task in flood) == 5
        await time.run_until(60)


async def test_previews_leave_a_token_for_the_final_message(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    allowed = [gate.try_acquire("7", group=False) for _ in range(10)]
    assert allowed.count(True) == 4
    before = time.now
    await gate.acquire("7", group=False)
    assert time.now == before


async def test_previews_yield_to_a_waiting_final_message(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for _ in range(7):
            tasks.create_task(gate.acquire("7", group=False))
        await time.run_until(1.5)
        assert not gate.try_acquire("7", group=False)
        assert gate.try_acquire("8", group=False)
        await time.run_until(10)
    assert gate.try_acquire("7", group=False)


async def test_final_message_without_a_wait_passes_at_once_and_counts(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    passed = [gate.acquire_at_once("7", group=False) for _ in range(7)]
    assert passed == [True] * 5 + [False] * 2
    assert await send(gate, time, "7", 1) == pytest.approx([1])


async def test_nothing_passes_before_a_waiting_final_message(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for _ in range(6):
            tasks.create_task(gate.acquire("7", group=False))
        await time.run_until(0.5)
        assert not gate.acquire_at_once("7", group=False)
        assert gate.acquire_at_once("8", group=False)
        await time.run_until(10)
    assert gate.acquire_at_once("7", group=False)


async def test_penalty_pauses_the_chat_and_then_starts_slowly(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    gate.penalise("7", 30)
    assert not gate.try_acquire("7", group=False)
    assert gate.try_acquire("8", group=False)
    times = await send(gate, time, "7", 3)
    assert times == pytest.approx([30, 31, 32])


async def test_penalty_delays_waiting_senders(gate: RateLimiter, time: SimulatedTime) -> None:
    passed: list[float] = []

    async def one() -> None:
        await gate.acquire("7", group=False)
        passed.append(time.now)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(6):
            tasks.create_task(one())
        await time.run_until(0.5)
        gate.penalise("7", 100)
        await time.run_until(200)
    assert passed == pytest.approx([0, 0, 0, 0, 0, 100.5])


async def test_penalty_of_a_chat_waiting_for_the_bot_does_not_delay_others(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    for n in range(int(BOT.burst)):
        await gate.acquire(str(n), group=False)
    passed: dict[str, float] = {}

    async def final(chat: str) -> None:
        await gate.acquire(chat, group=False)
        passed[chat] = time.now

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(final("slow"))
        await time.settle()
        tasks.create_task(final("quick"))
        await time.settle()
        # An edit that was already in flight reports the limit.
        gate.penalise("slow", 60.0)
        await time.run_until(120.0)
    assert passed["quick"] < 1.0
    assert passed["slow"] >= 60.0


async def test_global_penalty_pauses_every_chat(gate: RateLimiter, time: SimulatedTime) -> None:
    gate.penalise(None, 10)
    assert not gate.try_acquire("7", group=False)
    assert await send(gate, time, "8", 1) == pytest.approx([10])


async def test_bot_is_paused_after_rejections_in_several_chats_in_a_row(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    for chat in ("1", "2", "2"):
        gate.note_refused(chat, 20, group=False)
    assert gate.try_acquire("7", group=False)
    gate.note_refused("3", 10, group=False)
    assert not gate.try_acquire("7", group=False)
    assert await send(gate, time, "7", 1) == pytest.approx([10])
    # The chat is still refused, so a single further refusal is enough.
    gate.note_refused("7", 30, group=False)
    assert not gate.try_acquire("8", group=False)


async def test_rejections_between_successes_pause_only_their_chats(
    gate: RateLimiter,
) -> None:
    for chat in ("1", "2", "3", "4"):
        gate.note_refused(chat, 20, group=False)
        gate.note_passed()
    assert gate.try_acquire("7", group=False)


async def test_cancelled_wait_uses_no_token(gate: RateLimiter, time: SimulatedTime) -> None:
    for _ in range(5):
        await gate.acquire("7", group=False)
    waiting = asyncio.create_task(gate.acquire("7", group=False))
    await time.settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    time.now += 1
    await gate.acquire("7", group=False)
    assert time.now == 1


async def test_penalty_applies_without_rate_limits(time: SimulatedTime) -> None:
    gate = RateLimiter(None, clock=time.clock, sleep=time.sleep)
    assert set(await send(gate, time, "7", 1000)) == {0.0}
    assert all(gate.try_acquire("7", group=False) for _ in range(100))
    now = time.now
    gate.penalise("7", 5)
    assert await send(gate, time, "7", 1) == pytest.approx([now + 5])


async def test_idle_chats_are_forgotten(gate: RateLimiter, time: SimulatedTime) -> None:
    for chat in range(20_000):
        gate.try_acquire(str(chat), group=False)
        time.now += 0.1
    assert len(gate) <= 2048


async def test_two_hundred_concurrent_chats_exceed_no_limit_and_all_are_served(
    gate: RateLimiter, time: SimulatedTime
) -> None:
    # Slightly above the limits: two clocks that add fractions differ in the last digit.
    keeper = Gatekeeper(Limits(private_burst=5.01, overall_burst=30.01, clock=time.clock))
    waits: dict[int, list[float]] = {}

    async def chat(number: int) -> None:
        key, group = str(number), number < 0
        for _ in range(4):
            began = time.now
            for _ in range(3):
                # Typing indicators, and edits of the growing answer.
                if gate.try_acquire(key, group=group):
                    assert keeper.retry_after(number) is None
                await time.sleep(1.0)
            await gate.acquire(key, group=group)
            assert keeper.retry_after(number) is None
            waits.setdefault(number, []).append(time.now - began)

    async with asyncio.TaskGroup() as tasks:
        for number in (*range(1, 181), *range(-20, 0)):
            tasks.create_task(chat(number))
        await time.run_until(3600)
    assert len(waits) == 200
    assert keeper.refused == 0
    means = [statistics.mean(waited) for waited in waits.values()]
    assert max(means) < 3 * statistics.median(means)
