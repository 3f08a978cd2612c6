"""Benchmark of a burst: 200 messages from 50 chats, and a model with a latency of 200 ms."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from bench.figure import Figure
from bench.stage import OWNER, Stage, open_stage

CHATS = 50
EACH = 4
LATENCY_MS = 200


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command, latency_ms=LATENCY_MS) as stage, stage.bare_gateway():
        bare_s, _ = await _burst(stage)
    async with open_stage(command, latency_ms=LATENCY_MS) as stage, stage.gateway() as running:
        for n in range(2):
            await stage.turn_ms(OWNER, f"warm-up {n}", await stage.effects())
        began = running.cpu_ms()
        wall_s, faults = await _burst(stage)
        cpu_s = (running.cpu_ms() - began) / 1000
    ideal_s = EACH * LATENCY_MS / 1000
    note = f"ideal {ideal_s:g} s; {cpu_s:.2f} s of CPU; {faults or 'every answer in its chat'}"
    name = f"{CHATS * EACH} messages from {CHATS} chats"
    return [
        Figure(name, "s", wall_s, bare=bare_s, goal=1.4, note=note),
        Figure("lost, doubled or out of order", "", len(faults), goal=0),
    ]


async def _burst(stage: Stage) -> tuple[float, list[str]]:
    """Return seconds from the first delivery to the last answer, and errors in the answers."""
    since = await stage.effects()
    chats = [OWNER + 1 + n for n in range(CHATS)]
    result = [{"chat_id": chat, "text": f"m{n} of {chat}"} for n in range(EACH) for chat in chats]
    began = (await stage.bot.post("user_says", result))[0]["at"]
    answers, _ = await stage.answers(since, len(result))
    return answers[-1]["time"] - began, _faults(chats, answers)


def _faults(chats: Sequence[int], answers: Sequence[dict[str, Any]]) -> list[str]:
    got: dict[int, list[str]] = defaultdict(list)
    for answer in answers:
        got[answer["chat_id"]].append(answer["text"])
    faults = []
    for chat in chats:
        expected = [f"echo: m{n} of {chat}" for n in range(EACH)]
        if got[chat] != expected:
            faults.append(f"chat {chat} was told {got[chat]}")
    return faults
