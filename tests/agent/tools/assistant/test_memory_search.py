from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import KoreError, ToolError
from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.assistant.memory_search import MemorySearch
from agent.tools.base import CallContext, MemoryHit


@pytest.fixture
def memory(workspace: Path) -> Path:
    for name, text in {
        "MEMORY.md": "# Memory\n- 2026-01-02: likes green tea\n- 2026-02-03: tea at five\n",
        "plans.md": "Green house in May\n",
        "telegram/7/MEMORY.md": "- 2026-03-04: green bike\n",
        "telegram/8/MEMORY.md": "- 2026-03-05: green secret\n",
    }.items():
        path = workspace / "memory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (workspace / "memory" / "link.md").symlink_to("telegram/8/MEMORY.md")
    return workspace / "memory"


async def search_text(call: CallContext, query: str) -> str:
    return (await MemorySearch(ToolSettings()).run({"query": query}, call)).for_model


async def test_owner_finds_only_their_own_memory(call: CallContext, memory: Path) -> None:
    assert (await search_text(call, "GREEN")).split("\n") == [
        "- plans.md:1: Green house in May",
        "- MEMORY.md:2: - 2026-01-02: likes green tea",
    ]


async def test_other_person_finds_only_their_own_memory(guest: CallContext, memory: Path) -> None:
    assert await search_text(guest, "green") == "- MEMORY.md:1: - 2026-03-04: green bike"
    assert (await search_text(guest, "secret")).startswith("Nothing was found")


async def test_lines_with_more_matches_come_first_and_noise_is_omitted(
    call: CallContext, memory: Path
) -> None:
    assert (await search_text(call, "green tea please")).split("\n")[0].endswith("likes green tea")
    assert "house" in await search_text(call, "green tea")
    assert "five" not in await search_text(call, "likes green tea")


async def test_word_forms_and_whole_questions_match(call: CallContext, memory: Path) -> None:
    (memory / "MEMORY.md").write_text(
        "- 2026-01-01: The sister's wedding is in June\n- 2026-01-02: what to do: the dishes\n"
        "- 2026-01-03: 下周去北京出差\n- 2026-01-04: keeps what he has in a fotobook\n"
    )
    assert (await search_text(call, "What weddings is he going to?")).endswith("in June")
    assert (await search_text(call, "我什么时候去北京？")).endswith("下周去北京出差")
    assert (await search_text(call, "book")).endswith("in a fotobook")


@pytest.mark.parametrize("query", ["zurich", "ZÜRICH?", '"Zürich trip"', "東京", "zu\u0308rich"])
async def test_case_accents_and_punctuation_are_ignored(
    call: CallContext, memory: Path, query: str
) -> None:
    (memory / "MEMORY.md").write_text("- the Zürich trip goes on to 東京タワー\n")
    assert "東京タワー" in await search_text(call, query)


async def test_conversations_follow_with_their_taint(call: CallContext, memory: Path) -> None:
    results: list[tuple[str, int]] = []

    async def recall(words: str, most: int) -> Sequence[MemoryHit]:
        results.append((words, most))
        return [MemoryHit("2026-01-01, the person in session s9", "tea?", UNTRUSTED)]

    with_past = replace(call, environment=replace(call.environment, recall=recall))
    result = await MemorySearch(ToolSettings()).run({"query": "five", "count": 3}, with_past)
    assert result.for_model.split("\n")[1] == "- 2026-01-01, the person in session s9: tea?"
    assert (results, result.taint) == ([("five", 3)], UNTRUSTED)


async def test_failed_source_is_noted_next_to_the_hits(call: CallContext, memory: Path) -> None:
    async def recall(words: str, most: int) -> Sequence[MemoryHit]:
        raise KoreError("messages cannot be searched")

    text = await search_text(
        replace(call, environment=replace(call.environment, recall=recall)), "five"
    )
    assert "tea at five" in text
    assert text.endswith("(messages cannot be searched)")


async def test_marked_memory_taints_the_result(call: CallContext, memory: Path) -> None:
    tool = MemorySearch(ToolSettings())
    assert (await tool.run({"query": "house"}, call)).taint == NOTHING
    mark_tainted(memory / "plans.md", memory)
    if is_marked(memory / "plans.md"):
        assert (await tool.run({"query": "house"}, call)).taint == UNTRUSTED


async def test_context_of_a_matching_line_can_be_read(call: CallContext, memory: Path) -> None:
    (memory / "plans.md").write_text("".join(f"step {n}\n\n" for n in range(1, 31)))
    assert await search_text(call, "step 15") != ""
    shown = (await search_text(call, "plans.md:29")).split("\n")
    assert shown[0] == "- plans.md:19: step 10"
    assert shown[-1] == "- plans.md:39: step 20"
    # Models copy the reference from the list with its brackets.
    assert await search_text(call, "- [plans.md:29]") == "\n".join(shown)


async def test_lines_of_another_person_cannot_be_opened(guest: CallContext, memory: Path) -> None:
    assert "likes green" not in await search_text(guest, "MEMORY.md:2")
    assert (await search_text(guest, "plans.md:1")).startswith("Nothing was found")


async def test_context_of_a_matching_message_can_be_read(call: CallContext, memory: Path) -> None:
    results: list[tuple[str, int]] = []

    async def around(session: str, n: int) -> Sequence[MemoryHit]:
        results.append((session, n))
        if session != "20260101_101010":
            return []
        return [MemoryHit(f"{session}:{k}, 2026-01-01, you", f"{k}?", UNTRUSTED) for k in (3, 4)]

    with_past = replace(call, environment=replace(call.environment, recall_around=around))
    result = await MemorySearch(ToolSettings()).run({"query": "20260101_101010:4"}, with_past)
    assert result.for_model.split("\n")[1] == "- 20260101_101010:4, 2026-01-01, you: 4?"
    assert result.taint == UNTRUSTED
    # Text that only looks like an id is searched for.
    (memory / "plans.md").write_text("the server is at localhost:8080\n")
    assert "the server is" in await search_text(with_past, "localhost:8080")
    assert results == [("20260101_101010", 4), ("localhost", 8080)]


@pytest.mark.parametrize("query", ["", " ", "?!"])
async def test_query_without_words_is_rejected(call: CallContext, query: str) -> None:
    with pytest.raises(ToolError, match="no word"):
        await MemorySearch(ToolSettings()).run({"query": query}, call)
