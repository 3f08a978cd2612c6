"""Soak test of a gateway under mixed work: `python -m bench.soak`.

It detects growth and slowdown over a long time. The slope of the memory is fitted to all samples
after the first quarter. By then the conversations must have filled the conversation cache of 8 MB:
with few chats, or few messages, the slope only shows the growth of this cache.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.process import Running, kore_command
from bench.stage import OWNER, Stage, open_stage

GOAL_MB_AN_HOUR = 1.0
GOAL_CPU_RATIO = 1.2
SAMPLES = 60
_KEPT_REQUESTS = 50
_LONGEST_CHARS = 3_500


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample `at_s` seconds after the beginning, with the process's CPU time and turns so far."""

    at_s: float
    resident_mb: float
    anonymous_mb: float
    cpu_ms: float
    turns: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=10.0, help="messages a second (10)")
    parser.add_argument("--chats", type=int, default=100)
    parser.add_argument("--program", metavar="FILE", help="the kore to run")
    options = parser.parse_args()
    samples = asyncio.run(
        soak(kore_command(options.program), options.minutes * 60, options.rate, options.chats)
    )
    return report(samples)


async def soak(command: Sequence[str], seconds: float, rate: float, chats: int) -> Sequence[Sample]:
    async with open_stage(command, keep=_KEPT_REQUESTS) as stage, stage.gateway() as running:
        return await _work(stage, running, seconds, rate, chats)


async def _work(
    stage: Stage, running: Running, seconds: float, rate: float, chats: int
) -> Sequence[Sample]:
    chance = random.Random(1)
    samples: list[Sample] = []
    began = time.monotonic()
    result = 0
    while (passed := time.monotonic() - began) < seconds:
        if passed >= len(samples) * seconds / SAMPLES:
            turns = int((await stage.bot.get("state"))["sent"])
            memory = running.resident_mb(), running.anonymous_mb()
            samples.append(Sample(passed, *memory, running.cpu_ms(), turns))
            _show(samples[-1])
        await stage.say(OWNER + chance.randrange(chats), _words(chance, result))
        result += 1
        await asyncio.sleep(max(0.0, result / rate - (time.monotonic() - began)))
    return samples


def _words(chance: random.Random, n: int) -> str:
    """Return mostly short texts; some long ones, commands, and sometimes a new conversation."""
    kind = chance.random()
    if kind < 0.02:
        return "/new"
    if kind < 0.07:
        return chance.choice(("/status", "/help", "/cost", "/sessions"))
    if kind < 0.2:
        return f"message {n}: " + "a longer text, " * chance.randrange(1, _LONGEST_CHARS // 15)
    return f"message {n}: what do you think of it?"


def _show(sample: Sample) -> None:
    memory = f"{sample.resident_mb:6.2f} MB, {sample.anonymous_mb:6.2f} MB of it anonymous"
    print(
        f"{sample.at_s:6.0f} s  {memory}  {sample.turns:7,} answers"
        f"  {sample.cpu_ms / 1000:7.1f} s CPU",
        file=sys.stderr,
        flush=True,
    )


def report(samples: Sequence[Sample]) -> int:
    """Print the verdict; return 1 when a goal is missed."""
    rest = samples[len(samples) // 4 :]
    slope = _mb_an_hour(rest, [sample.resident_mb for sample in rest])
    anonymous = _mb_an_hour(rest, [sample.anonymous_mb for sample in rest])
    half = len(rest) // 2
    first, second = _cpu_of_a_turn(rest[: half + 1]), _cpu_of_a_turn(rest[half:])
    ratio = second / first
    verdicts = (
        (
            f"memory: {slope:+.2f} MB an hour, {anonymous:+.2f} of it anonymous",
            GOAL_MB_AN_HOUR,
            slope,
        ),
        (f"CPU of an answer: {first:.1f} ms, then {second:.1f} ms", GOAL_CPU_RATIO, ratio),
    )
    for text, goal, value in verdicts:
        print(
            f"{text} (after the first quarter; goal {goal:g}):",
            "ok" if value <= goal else "MISSED",
        )
    return 0 if all(value <= goal for _, goal, value in verdicts) else 1


def _mb_an_hour(samples: Sequence[Sample], memory: Sequence[float]) -> float:
    return statistics.linear_regression([sample.at_s / 3600 for sample in samples], memory).slope


def _cpu_of_a_turn(samples: Sequence[Sample]) -> float:
    first, last = samples[0], samples[-1]
    return (last.cpu_ms - first.cpu_ms) / max(1, last.turns - first.turns)


if __name__ == "__main__":
    sys.exit(main())
