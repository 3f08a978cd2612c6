"""Benchmark of 200 simultaneous chats under Telegram's limits, which the fake API enforces.

Measures the wait for each answer, and the number of requests over the limits.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.figure import Figure, percentile
from bench.stage import OWNER, Stage, open_stage

CHATS = 200
# Groups among the chats; messages in them address the bot by name.
GROUPS = 20
ROUNDS = 5
# Long enough for "typing" to be shown, which counts as well.
LATENCY_MS = 800


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command, latency_ms=LATENCY_MS, limits=True) as stage, stage.gateway():
        waits: dict[int, list[float]] = defaultdict(list)
        refused = []
        for round_ in range(ROUNDS):
            for chat, wait_s in (await _round(stage, round_)).items():
                waits[chat].append(wait_s)
            refused.append((await stage.bot.get("state"))["refused"])
    every = [wait_s for chat in waits.values() for wait_s in chat]
    chats = [statistics.mean(chat) for chat in waits.values()]
    ratio = max(chats) / statistics.median(chats)
    bound_s = CHATS / 30 + LATENCY_MS / 1000
    note = (
        f"of {len(every)} answers; the longest {max(every):.1f} s; 30 a second make {bound_s:.1f} s"
    )
    return [
        Figure(
            f"{CHATS} chats at once, wait", "s", statistics.median(every), percentile(every, 0.95),
            goal=bound_s, note=note,
        ),
        Figure("429 answered", "", refused[-1], goal=0, note=f"after each round: {refused}"),
        Figure("chat that waits longest, to the median", "times", ratio, goal=3),
    ]  # fmt: skip


async def _round(stage: Stage, round_: int) -> Mapping[int, float]:
    """Return seconds of waiting per chat: all chats write at once, after all earlier answers."""
    since = await stage.effects()
    chats = [OWNER + n if n >= GROUPS else -1000 - n for n in range(CHATS)]
    result = [_update_of(chat, f"m{round_}") for chat in chats]
    began = (await stage.bot.post("user_says", result))[0]["at"]
    answers, _ = await stage.answers(since, len(result))
    outcome = {answer["chat_id"]: answer["time"] - began for answer in answers}
    missing = set(chats) - set(outcome)
    if missing:
        raise RuntimeError(f"no answer in {sorted(missing)}")
    return outcome


def _update_of(chat: int, text: str) -> dict[str, object]:
    if chat > 0:
        return {"chat_id": chat, "text": text}
    return {"chat_id": chat, "text": f"@kore_test_bot {text}", "user_id": OWNER}
