"""Recall of memory_search: rate of correct lines among the first five results.

Usage: python -m bench.recall [EMBEDDINGS]

The baseline is a search for plain substrings. Questions (recall.tsv) over 300 lines of memory and
100 conversations, in English and Chinese: 60 share words with the stored line, 22 are paraphrases
without shared words, and 14 share words with the line and with six distractors each. The other
lines come from a seeded generator. EMBEDDINGS is a model, vendor/model, for an additional search by
meaning.
"""

import asyncio
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

from agent.providers.pool import ModelPool
from agent.settings import ToolSettings
from agent.tools.assistant.memory_search import MemorySearch
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall, user
from bench.figure import Figure
from gateway.access.control import AccessControl
from gateway.core.messages import InboundMessage, Sender
from gateway.sessions.conversation_search import ConversationSearch
from gateway.sessions.similarity import StoredSimilarity
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.sqlite.engine import SqliteStore
from tests.gateway.parts import chat_message

_FACTS, _CONVERSATIONS, _SHOWN = 300, 100, 5
_DATA = Path(__file__).with_name("recall.tsv")
_NAMES = [
    "Anna",
    "Bo",
    "Cem",
    "Dana",
    "Emil",
    "Fritz",
    "Gita",
    "Hugo",
    "Iris",
    "Jonas",
    "Kim",
    "Lena",
    "Milo",
    "Nora",
    "Otto",
]
_DOES = (
    "likes the {} of {}", "asked {} what to do with the {}", "met {} and is to bring a {}",
)  # fmt: skip
_THINGS = [
    "lamp",
    "chair",
    "report",
    "garden",
    "train",
    "book",
    "song",
    "ticket",
    "camera",
    "letter",
    "soup",
    "map",
    "coat",
]
_CHINESE = ("{}喜欢{}", "{}说要买{}", "{}问我什么时候还{}", "跟{}一起去看{}")
_PEOPLE = ["小李", "老张", "小王", "阿明", "小红", "老赵", "阿芳"]
_OBJECTS = ["电影", "台灯", "椅子", "报告", "花园", "火车票", "相机", "地图", "外套", "词典"]


@dataclass(frozen=True)
class Case:
    """Question with its fact and its distractors.

    `hardness`: the question shares words with the fact, shares none (a paraphrase), or shares words
    with `distractors` as well.
    """

    hardness: str
    place: str
    fact: str
    question: str
    distractors: tuple[str, ...]

    @property
    def language(self) -> str:
        return "English" if self.fact.isascii() else "Chinese"


async def measure(command: Sequence[str], embeddings: str | None = None) -> list[Figure]:
    cases = [_case(line) for line in _DATA.read_text("utf-8").splitlines()]
    memory = _texts([case for case in cases if case.place == "memory"], _FACTS, seed=1)
    past = _texts([case for case in cases if case.place == "past"], _CONVERSATIONS, seed=2)
    texts = {"memory": memory, "past": past}
    with tempfile.TemporaryDirectory() as name:
        answers = await _search_all(cases, memory, past, Path(name), embeddings)
    figures = []
    for hardness in dict.fromkeys(case.hardness for case in cases):
        for place, language in product(texts, ("English", "Chinese")):
            here = [
                n
                for n, case in enumerate(cases)
                if (case.hardness, case.place, case.language) == (hardness, place, language)
            ]
            hits = sum(cases[n].fact in answers[n] for n in here)
            plain = sum(
                cases[n].fact in _by_substring(cases[n].question, texts[place]) for n in here
            )
            where = "memory" if place == "memory" else "conversations"
            figures.append(
                Figure(
                    f"recall at {_SHOWN}, {hardness}, {where}, {language}",
                    "",
                    hits / len(here),
                    bare=plain / len(here),
                    note=f"{hits} of {len(here)} questions; plain substrings {plain}",
                )
            )
    return figures


def _case(line: str) -> Case:
    hardness, place, fact, question, distractors = line.split("\t")
    return Case(hardness, place, fact, question, tuple(filter(None, distractors.split("|"))))


async def _search_all(
    cases: Sequence[Case],
    memory: Sequence[str],
    past: Sequence[str],
    folder: Path,
    embeddings: str | None,
) -> list[str]:
    """Return the tool's answer to each question, from memory only or from conversations only."""
    workspace = folder / "workspace"
    file = workspace / "memory" / "MEMORY.md"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"- 2026-01-01: {line}\n" for line in memory), "utf-8")
    database = SqliteStore.open(folder / "kore.db")
    try:
        await database.transact(_store, past)
        models = ModelPool(embeddings or "", environ=os.environ)
        similarity = embeddings and StoredSimilarity(database, lambda: models, embeddings)
        recall = _recall(database, chat_message("x", sender=Sender("7")), similarity or None)
        call = CallContext(
            ToolCall("c", "memory_search", {}, "{}"),
            ToolEnvironment("s", workspace, file, owner=True, similarity=similarity or None),
            lambda text, stream: None,
        )
        tool = MemorySearch(ToolSettings())
        answers = []
        for case in cases:
            if case.place == "memory":
                args = {"query": case.question, "count": _SHOWN}
                answers.append((await tool.run(args, call)).for_model)
            else:
                hits = await recall(case.question, _SHOWN)
                answers.append("\n".join(hit.text for hit in hits))
        return answers
    finally:
        await database.close()


def _recall(
    database: SqliteStore, message: InboundMessage, similarity: StoredSimilarity | None
) -> ConversationSearch:
    access = AccessControl("chat:7", {}, {})
    return ConversationSearch(database, access, TurnClaim(0, 0, "now", [message]), similarity)


def _store(tx: Transaction, past: Sequence[str]) -> None:
    for text in past:
        session = sessions.create_session(tx, "chat:7", time.time(), lane="chat:bot:1")
        sessions.append_messages(tx, session, None, [user(text)], time.time())


def _texts(cases: Sequence[Case], count: int, *, seed: int) -> list[str]:
    """Return each fact once and its distractors among others, up to `count`."""
    chance = random.Random(seed)
    texts = list(dict.fromkeys(text for case in cases for text in (case.fact, *case.distractors)))
    assert len(texts) <= count
    while len(texts) < count:
        if chance.random() < 0.5:
            texts.append(chance.choice(_DOES).format(chance.choice(_NAMES), chance.choice(_THINGS)))
        else:
            texts.append(
                chance.choice(_CHINESE).format(chance.choice(_PEOPLE), chance.choice(_OBJECTS))
            )
    chance.shuffle(texts)
    return texts


def _by_substring(question: str, texts: Sequence[str]) -> list[str]:
    """Return the texts with most of the question's words anywhere in them.

    Chinese is split into pairs of characters, since a question without spaces would be one word.
    """
    words = [
        piece
        for word in re.findall(r"\w+", question.casefold())
        for piece in ([word] if word.isascii() else map("".join, pairwise(word)))
    ]
    counts = [sum(word in text.casefold() for word in words) for text in texts]
    best = sorted(range(len(texts)), key=lambda n: -counts[n])[:_SHOWN]
    return [texts[n] for n in best if counts[n]]


if __name__ == "__main__":
    for figure in asyncio.run(measure((), *sys.argv[1:2])):
        print(f"{figure.name:56}{figure.value:.2f}  {figure.note}")
