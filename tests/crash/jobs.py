"""Jobs that people request during the crash loop, and a report on their answers."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.fakes.bot_api import BotApi

REPEAT_MARK = "↻"
OWNER = 1
_RUN_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """A message that is answered with `done N` in its chat.

    `tool` has an effect that must not repeat; with `asks`, the owner has to approve it first. With
    `runs`, a command runs until its timeout.
    """

    number: int
    chat: int
    tool: bool
    slow: bool
    asks: bool = False
    runs: bool = False

    @property
    def text(self) -> str:
        return f"job {self.number}{self._kind}{' slow' if self.slow else ''}"

    @property
    def _kind(self) -> str:
        if self.runs:
            return " run"
        return (" edit" if self.asks else " tool") if self.tool else ""


def plan(count: int, chats: int, chance: random.Random) -> list[Job]:
    """Plan jobs over several chats.

    A third have an effect, a third of these ask, a few stream for a while, some run a command. The
    owner sends the first message, so that the chat for approvals is known.
    """
    jobs = []
    for n in range(1, count + 1):
        same = n > 1 and chance.random() < 0.5
        chat = jobs[-1].chat if same else chance.randint(1, chats) if n > 1 else OWNER
        tool, slow = chance.random() < 0.35, chance.random() < 0.04
        asks = tool and n > 1 and chance.random() < 0.3
        runs = not tool and chance.random() < _RUN_SHARE
        jobs.append(Job(n, chat, tool, slow, asks, runs))
    return jobs


class Ledger:
    """Answered jobs, read from the Bot API's journal as it grows."""

    def __init__(self, api: BotApi) -> None:
        self._api = api
        self._read = 0
        self._done: set[int] = set()

    def done(self) -> set[int]:
        """Return the numbers of the jobs whose answer appeared in any message."""
        journal = self._api.sent
        for effect in journal[self._read :]:
            self._done.update(_finished_numbers(effect.text or ""))
        self._read = len(journal)
        return self._done


@dataclass(slots=True)
class Account:
    """Findings of the crash loop; everything from `lost` to `remains` must be empty.

    `ends` counts the exits of workers.
    """

    jobs: int
    questions: int = 0
    steered: int = 0
    jumps: int = 0
    troubles: int = 0
    bursts: int = 0
    stops: int = 0
    met: int = 0
    kills: int = 0
    kills_at: dict[str, int] = field(default_factory=dict)
    database_faults: Mapping[str, int] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    unmarked: list[int] = field(default_factory=list)
    out_of_order: list[int] = field(default_factory=list)
    repeated_effects: list[int] = field(default_factory=list)
    misplaced: list[int] = field(default_factory=list)
    given_up: int = 0
    outlived: list[int] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)
    ends: Counter[int] = field(default_factory=Counter)
    marked: int = 0
    unknown: int = 0

    @property
    def is_clean(self) -> bool:
        return not (
            self.lost
            or self.unmarked
            or self.out_of_order
            or self.repeated_effects
            or self.misplaced
            or self.given_up
            or self.outlived
            or self.remains
        )

    def report(self) -> str:
        points, faults, ends = (
            ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
            for counts in (self.kills_at, self.database_faults, self.ends)
        )
        rows = {
            "messages": self.jobs,
            "approvals pressed": self.questions,
            "turns steered": self.steered,
            "jumps of the clock": self.jumps,
            "floods and outages": self.troubles,
            "bursts of kills": self.bursts,
            "commands stopped": self.stops,
            "commands killed with Kore": self.met,
            "kills": f"{self.kills} ({points})",
            "faults of the database": faults or 0,
            "workers that ended, by exit code": ends or 0,
            "lost": self.lost or 0,
            "unsafe effects repeated": self.repeated_effects or 0,
            "order violations": self.out_of_order or 0,
            "in the wrong chat": self.misplaced or 0,
            "given up": self.given_up,
            "commands that outlived their Kore or /stop": self.outlived or 0,
            "left over at the end": self.remains or 0,
            "repeats without a mark": self.unmarked or 0,
            "repeats with a mark": self.marked,
            "effects reported to the model as unknown": self.unknown,
        }
        width = max(map(len, rows))
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows.items())


def settle(
    account: Account,
    jobs: Sequence[Job],
    answers: Mapping[int, Sequence[str]],
    effects: Path,
) -> None:
    """Compare the requests with the final content of every chat."""
    by_number = {job.number: job for job in jobs}
    for chat, texts in answers.items():
        seen: list[int] = []
        for text in texts:
            account.given_up += "I gave up" in text
            for number in _finished_numbers(text):
                if number not in by_number or by_number[number].chat != chat:
                    account.misplaced.append(number)
                elif number not in seen:
                    if seen and number < max(seen):
                        account.out_of_order.append(number)
                    seen.append(number)
                elif REPEAT_MARK in text:
                    account.marked += 1
                else:
                    account.unmarked.append(number)
        account.lost += [job.number for job in jobs if job.chat == chat and job.number not in seen]
    for job in jobs:
        if job.tool:
            times = _effects(effects / str(job.number))
            if times > 1:
                account.repeated_effects.append(job.number)
            account.unknown += times == 0


def _finished_numbers(text: str) -> Iterator[int]:
    for line in text.splitlines():
        words = line.split()
        for word, number in pairwise(words):
            if word == "done" and number.isdigit():
                yield int(number)


def _effects(file: Path) -> int:
    return file.read_text().splitlines().count(file.name) if file.exists() else 0
