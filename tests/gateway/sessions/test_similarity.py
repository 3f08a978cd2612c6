"""Search by meaning in memory and conversations, if an embedding model is configured."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import KoreError, ProviderError
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.settings import ToolSettings
from agent.tools.assistant.memory_search import MemorySearch
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall
from gateway.access.control import AccessControl
from gateway.core.messages import Sender
from gateway.sessions.conversation_search import ConversationSearch
from gateway.sessions.similarity import MAX_NEW_TEXTS, UNKNOWN, StoredSimilarity
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import search
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.sqlite.engine import SqliteStore
from tests.fakes.model import ModelServer
from tests.gateway import stored
from tests.gateway.parts import chat_message
from tests.gateway.store.repositories.conversations import talk

THEMES = (("cat", "pet", "kitten", "猫"), ("car", "vehicle", "drive"), ("tea", "drink"))


def meaning(text: str) -> list[float]:
    """Return a vector: a constant for texts without a theme, then a number for each theme."""
    return [0.1, *(float(any(word in text.casefold() for word in words)) for words in THEMES)]


@pytest.fixture
def similarity(database: SqliteStore, model_server: ModelServer) -> StoredSimilarity:
    model_server.meaning = meaning
    entry = ModelConfig("mean", "openai/mean", api_base=model_server.base_url, api_key="k")
    models = ModelPool("mean", known=[entry])
    return StoredSimilarity(database, lambda: models, "mean")


def call(folder: Path, similarity: StoredSimilarity | None) -> CallContext:
    memory = folder / "workspace" / "memory" / "MEMORY.md"
    memory.parent.mkdir(parents=True, exist_ok=True)
    environment = ToolEnvironment(
        "s", folder / "workspace", memory, owner=True, similarity=similarity
    )
    tool_call = ToolCall("c", "memory_search", {}, "{}")
    return CallContext(tool_call, environment, lambda text, stream: None)


def recall(database: SqliteStore, similarity: StoredSimilarity) -> ConversationSearch:
    claim = TurnClaim(0, 0, "now", [chat_message("x", sender=Sender("7"))])
    return ConversationSearch(database, AccessControl("chat:7", {}, {}), claim, similarity)


async def test_each_text_is_embedded_once(
    database: SqliteStore, model_server: ModelServer, similarity: StoredSimilarity
) -> None:
    first = await similarity("a pet", ["my cat", "my car", "my cat"])
    assert first[0] == first[2] > 0.9 > 0.5 > first[1]
    assert model_server.embedded == [["a pet", "my cat", "my car"]]
    assert await similarity("a pet", ["my car", "a drink"]) == [first[1], pytest.approx(0.01, 1)]
    assert model_server.embedded[1:] == [["a drink"]]


async def test_new_texts_per_search_are_limited(
    model_server: ModelServer, similarity: StoredSimilarity
) -> None:
    texts = [f"cat {n}" for n in range(MAX_NEW_TEXTS + 10)]
    cosines = await similarity("pet", texts)
    assert cosines.count(UNKNOWN) == 11
    assert UNKNOWN not in await similarity("pet", texts)
    assert sum(map(len, model_server.embedded)) == MAX_NEW_TEXTS + 11


async def test_memory_line_is_found_by_a_synonym(
    tmp_path: Path, similarity: StoredSimilarity
) -> None:
    memory = call(tmp_path, similarity).memory
    memory.write_text(
        "- 2026-01-01: The kitten is called Momo\n- 2026-01-02: Owns a bakery\n"
        "- 2026-01-03: Drinks oolong\n"
    )
    args = {"query": "which pet do they have"}
    words = await MemorySearch(ToolSettings()).run(args, call(tmp_path, None))
    assert "Momo" not in words.for_model
    both = await MemorySearch(ToolSettings()).run(args, call(tmp_path, similarity))
    assert both.for_model.split("\n")[0].endswith("Momo")


async def test_hit_of_both_rankings_comes_first(
    tmp_path: Path, similarity: StoredSimilarity
) -> None:
    memory = call(tmp_path, similarity).memory
    memory.write_text(
        "- 2026-01-01: A cat named Momo\n- 2026-01-02: Momo is a place\n- 2026-01-03: A kitten\n"
    )
    result = await MemorySearch(ToolSettings()).run(
        {"query": "pet Momo"}, call(tmp_path, similarity)
    )
    first, *rest = result.for_model.split("\n")
    assert first.endswith("A cat named Momo")
    assert len(rest) == 2


async def test_message_is_found_by_a_synonym_within_its_scope(
    database: SqliteStore, similarity: StoredSimilarity
) -> None:
    def store(tx: Transaction) -> None:
        talk(tx, "The kitten sleeps all day", "nothing " * 100)
        talk(tx, "The kitten of eight", principal="chat:8", home="chat:bot:2")

    await database.transact(store)
    find = recall(database, similarity)
    assert [hit.text for hit in await find("the pet", 1)] == ["The kitten sleeps all day"]
    without = replace(find, similarity=None)
    assert list(await without("the pet", 5)) == []
    assert not any("eight" in hit.text for hit in await find("the pet", 10))


async def test_person_joining_during_the_search_is_considered(
    database: SqliteStore, similarity: StoredSimilarity
) -> None:
    await database.transact(talk, "The kitten sleeps")
    find = recall(database, similarity)

    async def slow(query: str, texts: Sequence[str]) -> list[float]:
        find.claim.messages.append(chat_message("y", sender=Sender("8")))
        return await similarity(query, texts)

    with pytest.raises(KoreError, match="several people"):
        await replace(find, similarity=slow)("the pet", 5)


async def test_search_by_words_works_without_the_model(
    database: SqliteStore,
    model_server: ModelServer,
    similarity: StoredSimilarity,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model_server.embeddings_status = 400
    memory = call(tmp_path, similarity).memory
    memory.write_text("- 2026-01-01: A cat named Momo\n")
    result = await MemorySearch(ToolSettings()).run({"query": "momo"}, call(tmp_path, similarity))
    assert result.for_model.startswith(
        "- MEMORY.md:1: - 2026-01-01: A cat named Momo\n(searched by"
    )
    await database.transact(talk, "Momo is here")
    with caplog.at_level(logging.WARNING):
        hits = await recall(database, similarity)("momo", 5)
    assert [hit.text for hit in hits] == ["Momo is here"]
    assert "by words alone" in caplog.text
    with pytest.raises(ProviderError):
        await similarity("x", ["y"])


async def test_oldest_vectors_are_evicted(database: SqliteStore) -> None:
    def store(tx: Transaction) -> set[bytes]:
        for n in range(3):
            search.save_embeddings(tx, {bytes([n]): b"v"}, float(n), max_count=3)
        # Used a day later, the first entry is no longer the oldest.
        search.load_embeddings(tx, [bytes([0])], 90_000.0)
        search.save_embeddings(tx, {bytes([3]): b"v"}, 90_001.0, max_count=3)
        return set(search.load_embeddings(tx, [bytes([n]) for n in range(4)], 90_002.0))

    assert await database.transact(store) == {b"\0", b"\2", b"\3"}


async def test_vectors_are_deleted_with_the_data_of_a_person(
    database: SqliteStore, similarity: StoredSimilarity
) -> None:
    await similarity("pet", ["cat"])
    await database.transact(search.forget_all)
    assert await database.transact(stored.count, "embedding") == 0
