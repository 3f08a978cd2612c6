"""Queries of the workbench outside of conversations, on real parts."""

import json
from pathlib import Path

import pytest

from agent.errors import KoreError
from agent.security.taint.file_marks import is_unseen, mark_tainted
from agent.types import assistant
from tests.gateway.parts import console_message, running, tool_call


async def test_turn_is_counted_in_the_costs_of_its_day(tmp_path: Path) -> None:
    async with running(tmp_path, ["hello"]) as parts:
        message = console_message("hi")
        await parts.service.submit(message)
        await parts.until_answered(message)
        days = await parts.service.list_costs(3)
        assert [day["calls"] for day in days] == [0, 0, 1]
        with pytest.raises(KoreError, match="1 to 366"):
            await parts.service.list_costs(0)


async def test_note_changes_only_from_its_current_text(tmp_path: Path) -> None:
    async with running(tmp_path, []) as parts:
        first = await parts.service.read_note("memory/MEMORY.md")
        assert first["text"] == ""
        result = await parts.service.write_note("memory/MEMORY.md", "tea", first["digest"])
        assert await parts.service.read_note("memory/MEMORY.md") == result
        with pytest.raises(KoreError, match="changed meanwhile"):
            await parts.service.write_note("memory/MEMORY.md", "coffee", first["digest"])
        assert (parts.workspace / "memory/MEMORY.md").read_text() == "tea"


async def test_line_added_to_a_note_keeps_its_mark(tmp_path: Path) -> None:
    async with running(tmp_path, []) as parts:
        memory = parts.workspace / "memory" / "MEMORY.md"
        memory.parent.mkdir(exist_ok=True)
        memory.write_text("theirs")
        mark_tainted(memory, parts.workspace, unseen=True)
        if not is_unseen(memory):
            pytest.skip("this file system keeps no extended attributes")
        read = await parts.service.read_note("memory/MEMORY.md")
        await parts.service.write_note("memory/MEMORY.md", "theirs\nmine", read["digest"])
        assert is_unseen(memory)


@pytest.mark.parametrize("name", ["../kore.db", "/etc/passwd", "config.json", "", "USER.md/.."])
async def test_other_files_are_not_notes(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, []) as parts:
        with pytest.raises(KoreError, match="expected one of"):
            await parts.service.read_note(name)
        with pytest.raises(KoreError, match="expected one of"):
            await parts.service.write_note(name, "x", "")


async def test_linked_note_is_not_followed(tmp_path: Path) -> None:
    async with running(tmp_path, []) as parts:
        (tmp_path / "secret").write_text("sk-1")
        (parts.workspace / "USER.md").symlink_to(tmp_path / "secret")
        with pytest.raises(KoreError):
            await parts.service.read_note("USER.md")


async def test_decisions_and_logs_are_listed_newest_first(tmp_path: Path) -> None:
    call = tool_call("1", "exec", command="true")
    async with running(tmp_path, [assistant("", (call,)), "done"]) as parts:
        message = console_message("go", options={"auto": True})
        await parts.service.submit(message)
        await parts.until_answered(message)
        assert "exec" in json.dumps(await parts.service.list_audit(5))
        logs = tmp_path / "logs"
        logs.mkdir()
        rows = [{"ts": n, "level": "info", "text": f"line {n}"} for n in range(5)]
        text = "\n".join([*map(json.dumps, rows), "cut off {", "[]"])
        (logs / "kore.log").write_text(text)
        lines = await parts.service.read_log(2)
        assert [line["text"] for line in lines] == ["line 3", "line 4"]
        assert await parts.service.read_log(2, "error") == []
