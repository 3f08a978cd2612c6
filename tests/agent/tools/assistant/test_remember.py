import asyncio
import codecs
import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.taint.file_marks import is_unseen, mark_tainted
from agent.security.taint.prompt_file import MAX_CHARS
from agent.settings import ToolSettings
from agent.tools.assistant.remember import FILE_LIMIT_CHARS, Remember
from agent.tools.base import CallContext
from agent.tools.files.read_write import ReadFile


async def remember(call: CallContext, text: str, replaces: str = "") -> str:
    args = {"text": text, "replaces": replaces} if replaces else {"text": text}
    return (await Remember(ToolSettings()).run(args, call)).for_model


async def change(call: CallContext, *changes: dict[str, str]) -> str:
    return (await Remember(ToolSettings()).run({"more": list(changes)}, call)).for_model


def facts(call: CallContext) -> list[str]:
    return [
        re.sub(r"^- \d{4}-\d\d-\d\d: ", "", line) for line in call.memory.read_text().split("\n")
    ]


async def test_fact_is_one_dated_line_in_the_file_of_the_speaker(
    call: CallContext, guest: CallContext
) -> None:
    await remember(call, "likes\n  tea ")
    await remember(guest, "likes coffee")
    assert re.fullmatch(r"- \d{4}-\d\d-\d\d: likes tea\n", call.memory.read_text())
    assert guest.memory.read_text().endswith(": likes coffee\n")


async def test_same_text_is_stored_once(call: CallContext) -> None:
    call.memory.parent.mkdir()
    call.memory.write_text("# Memory\n- 2024-01-01: likes tea")
    assert "already" in await remember(call, "likes  tea")
    await remember(call, "likes te")
    assert len(call.memory.read_text().splitlines()) == 3


async def test_added_line_keeps_the_mark_of_the_file(call: CallContext) -> None:
    call.memory.parent.mkdir(parents=True, exist_ok=True)
    call.memory.write_text("- 2026-01-01: pwned\n")
    mark_tainted(call.memory, call.workspace, unseen=True)
    if not is_unseen(call.memory):
        pytest.skip("this file system keeps no extended attributes")
    await remember(call, "The cat is called Mia.")
    assert "Mia" in call.memory.read_text()
    assert is_unseen(call.memory)


async def test_control_characters_are_removed(call: CallContext) -> None:
    await remember(call, "likes\0tea\x1b[1m")
    await remember(call, "likes 👩‍🍳")
    assert call.memory.read_text().endswith(": likes 👩‍🍳\n")
    assert ": likes tea [1m\n" in call.memory.read_text()


@pytest.mark.parametrize("text", ["\0", "\x1b"])
async def test_text_of_control_characters_is_rejected(call: CallContext, text: str) -> None:
    with pytest.raises(ToolError):
        await remember(call, text)


async def test_concurrent_facts_are_all_stored(call: CallContext) -> None:
    other = replace(call, environment=replace(call.environment, session="s2"))
    await asyncio.gather(*(remember(c, f"fact {i}") for i in range(10) for c in (call, other)))
    assert len(call.memory.read_text().splitlines()) == 10


@pytest.mark.parametrize("text", ["", " \n ", "x" * 2001, "half \ud800"])
async def test_impossible_facts_are_rejected(call: CallContext, text: str) -> None:
    with pytest.raises(ToolError):
        await remember(call, text)
    assert not call.memory.exists()


async def test_full_memory_is_reported_and_unchanged(call: CallContext) -> None:
    call.memory.parent.mkdir()
    call.memory.write_text("日" * FILE_LIMIT_CHARS)
    with pytest.raises(ToolError, match="full"):
        await remember(call, "one more")
    assert call.memory.read_text() == "日" * FILE_LIMIT_CHARS


def test_memory_file_limit_fits_into_the_prompt() -> None:
    assert FILE_LIMIT_CHARS <= MAX_CHARS


@pytest.mark.parametrize(
    "stored",
    [b"caf\xe9\n", "日本\n".encode("shift_jis"), "café\n".encode("utf-16"), b"a\0b\n"],
    ids=["latin-1", "unknown", "utf-16", "binary"],
)
async def test_unreadable_memory_is_rejected_and_unchanged(
    call: CallContext, stored: bytes
) -> None:
    call.memory.parent.mkdir()
    call.memory.write_bytes(stored)
    with pytest.raises(ToolError):
        await remember(call, "likes café")
    assert call.memory.read_bytes() == stored


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["no mark", "mark"])
async def test_existing_bytes_of_a_memory_are_kept(call: CallContext, mark: bytes) -> None:
    stored = mark + "# Memory\r\n- naïve, 日本\r\n".encode()
    call.memory.parent.mkdir()
    call.memory.write_bytes(stored)
    await remember(call, "likes café")
    whole = call.memory.read_bytes()
    assert whole.startswith(stored)
    assert whole[len(stored) :].decode().endswith(": likes café\n")


async def test_memory_replaced_by_a_link_is_neither_written_nor_read(
    call: CallContext, guest: CallContext, workspace: Path
) -> None:
    outside = workspace.parent / "outside.md"
    outside.write_text("kept\n")
    owners = workspace / "memory" / "MEMORY.md"
    for speaker, target in ((call, outside), (guest, outside), (guest, owners)):
        owners.unlink(missing_ok=True)
        speaker.memory.parent.mkdir(parents=True, exist_ok=True)
        speaker.memory.unlink(missing_ok=True)
        if target == owners:
            owners.write_text("kept\n")
        speaker.memory.symlink_to(target)
        with pytest.raises(ToolError):
            await remember(speaker, "a fact")
        assert target.read_text() == "kept\n"


async def test_linked_memory_does_not_grant_owner_access(
    call: CallContext, guest: CallContext, workspace: Path
) -> None:
    call.memory.parent.mkdir(parents=True)
    call.memory.write_text("the owner's")
    guest.memory.parent.mkdir(parents=True)
    guest.memory.symlink_to(call.memory)
    for path in ("memory/MEMORY.md", "memory/telegram/7/MEMORY.md"):
        with pytest.raises(ToolError):
            await ReadFile(ToolSettings()).run({"path": path}, guest)


@pytest.fixture
def three(call: CallContext) -> CallContext:
    call.memory.parent.mkdir()
    call.memory.write_text(
        "# Memory\nlikes tea, written by hand\n- 2026-01-01: Lives in Lisbon.\n"
        "- 2026-01-02: works at Acme in Lisbon\n- 2026-01-03: 喜欢喝绿茶。\n"
    )
    return call


@pytest.mark.parametrize("line", ["Lives in Lisbon.", "- 2026-01-01: lives in  lisbon", "LIVES in"])
async def test_outdated_line_is_replaced_in_place(three: CallContext, line: str) -> None:
    assert await remember(three, "lives in Porto", line) == "Replaced: Lives in Lisbon."
    assert facts(three)[2:4] == ["lives in Porto", "works at Acme in Lisbon"]
    # A repeated call, as after a crash, changes nothing.
    assert "already" in await remember(three, "lives in Porto", line)


@pytest.mark.parametrize(("line", "place"), [("works at acme", 3), ("喜欢喝绿茶", 4)])
async def test_empty_text_removes_the_line(three: CallContext, line: str, place: int) -> None:
    before = facts(three)
    assert (await remember(three, "", line)).startswith("Forgotten: ")
    assert facts(three) == before[:place] + before[place + 1 :]


async def test_line_replaced_by_an_existing_line_is_removed(three: CallContext) -> None:
    await remember(three, "works at Acme in Lisbon", "lives in Lisbon")
    assert [fact for fact in facts(three) if "Lisbon" in fact] == ["works at Acme in Lisbon"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Lisbon", r"2 remembered lines match(.|\n)*Lives in Lisbon.\n- works at Acme"),
        ("works for Acme, Lisbon", r"No remembered line(.|\n)*- works at Acme in Lisbon"),
        ("zzz", "None is close"),
        ("likes tea, written by hand", "edit_file"),
        ("?", "No remembered line"),
    ],
)
async def test_ambiguous_line_changes_nothing_and_lists_similar_lines(
    three: CallContext, line: str, said: str
) -> None:
    before = three.memory.read_bytes()
    with pytest.raises(ToolError, match=said):
        await remember(three, "", line)
    assert three.memory.read_bytes() == before


async def test_full_memory_can_be_cleaned_up(call: CallContext) -> None:
    call.memory.parent.mkdir()
    call.memory.write_text("日" * (FILE_LIMIT_CHARS - 20) + "\n- 2026-01-01: tea\n")
    await remember(call, "", "tea")
    await remember(call, "x")
    assert facts(call)[1:] == ["x", ""]


async def test_lines_are_merged_in_one_call(three: CallContext) -> None:
    merge = (
        {"text": "lives in Lisbon, works at Acme there", "replaces": "lives in Lisbon."},
        {"text": "", "replaces": "works at acme"},
        {"text": "has a cat"},
    )
    said = await change(three, *merge)
    assert said.split("\n") == [
        "Replaced: Lives in Lisbon.",
        "Forgotten: works at Acme in Lisbon",
        "Remembered.",
    ]
    assert facts(three)[2:] == [
        "lives in Lisbon, works at Acme there",
        "喜欢喝绿茶。",
        "has a cat",
        "",
    ]
    # A repeated call, as after a crash, changes nothing.
    before = three.memory.read_bytes()
    assert "no longer in the memory" in await change(three, *merge)
    assert three.memory.read_bytes() == before


async def test_own_text_comes_before_further_changes(call: CallContext) -> None:
    args = {"text": "one", "more": [{"text": "two"}]}
    await Remember(ToolSettings()).run(args, call)
    assert facts(call) == ["one", "two", ""]


async def test_failing_change_leaves_the_memory_unchanged(three: CallContext) -> None:
    before = three.memory.read_bytes()
    with pytest.raises(ToolError, match=r"Change 2 of 2: No remembered line"):
        await change(three, {"text": "has a cat"}, {"replaces": "zzz"})
    assert three.memory.read_bytes() == before


async def test_line_is_replaced_once_in_a_call(three: CallContext) -> None:
    with pytest.raises(ToolError, match="Another change already replaces this line"):
        await change(three, {"replaces": "喜欢喝绿茶"}, {"text": "x", "replaces": "喜欢喝绿茶"})


async def test_limit_applies_to_the_result_of_all_changes(call: CallContext) -> None:
    call.memory.parent.mkdir()
    line = "- 2026-01-01: tea\n"
    call.memory.write_text("日" * (FILE_LIMIT_CHARS - 20) + f"\n{line}")
    await change(call, {"text": "cha"}, {"replaces": "tea"})
    assert facts(call)[1:] == ["cha", ""]


async def test_memory_over_the_limit_may_shrink(call: CallContext) -> None:
    call.memory.parent.mkdir()
    call.memory.write_text("日" * (FILE_LIMIT_CHARS + 500) + "\n- 2026-01-01: tea\n")
    await remember(call, "", "tea")
    assert facts(call)[1:] == [""]


async def test_nearly_full_memory_asks_to_merge_lines(call: CallContext) -> None:
    request = "[memory is at 16,000 of 20,000 characters: merge lines"
    line = "- 2026-01-01: x\n"
    call.memory.parent.mkdir()
    call.memory.write_text("y" * (16_000 - 2 - 2 * len(line)) + "\n")
    assert await remember(call, "x") == "Remembered."
    assert request in await remember(call, "zz")
