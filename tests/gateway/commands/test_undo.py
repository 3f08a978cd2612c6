"""`/undo`, `/redo` and `/diff` in a chat."""

from pathlib import Path
from typing import Any

from agent.providers.scripted import ScriptedProvider
from agent.types import ToolCall, assistant
from gateway.core.messages import Sender
from gateway.store.repositories.execution import turns
from tests.gateway.commands.writing import OWNER, write_contents, writing
from tests.gateway.parts import answer_to, chat_message, running


async def test_file_changes_are_undone_and_redone(tmp_path: Path) -> None:
    provider = ScriptedProvider([*writing("one"), *writing("two")])
    async with running(tmp_path, provider, **OWNER) as parts:
        file = await write_contents(parts, "one", "two")
        assert await answer_to(parts, chat_message("/undo")) == "Restored a.txt."
        assert file.read_text() == "one"
        assert await answer_to(parts, chat_message("/undo")) == "Removed a.txt."
        assert not file.exists()
        assert "nothing to undo" in await answer_to(parts, chat_message("/undo"))
        assert "a\\_b.txt" in await answer_to(parts, chat_message("/undo a_b.txt"))
        assert "No changes to a\\_b.txt" in await answer_to(parts, chat_message("/diff a_b.txt"))
        assert await answer_to(parts, chat_message("/redo 2")) == "Restored a.txt."
        assert file.read_text() == "two"


async def test_last_turn_is_undone_and_step_undoes_a_single_call(tmp_path: Path) -> None:
    calls = [
        ToolCall(str(n), "write_file", {"path": path, "content": "new"}, "")
        for n, path in enumerate(("b.txt", "c.txt"))
    ]
    provider = ScriptedProvider([*writing("one"), assistant("", tuple(calls)), "Done."])
    async with running(tmp_path, provider, **OWNER) as parts:
        await write_contents(parts, "one", "two")
        names = {path.name for path in parts.workspace.glob("?.txt")}
        assert names == {"a.txt", "b.txt", "c.txt"}
        answer = await answer_to(parts, chat_message("/undo step"))
        assert answer == "Removed c.txt.\nStill changed by this conversation: a.txt, b.txt."
        assert await answer_to(parts, chat_message("/redo step")) == "Restored c.txt."
        answer = await answer_to(parts, chat_message("/undo"))
        assert answer == "Removed c.txt, b.txt.\nStill changed by this conversation: a.txt."
        assert "expected at least 1" in await answer_to(parts, chat_message("/undo step 0"))
        assert await answer_to(parts, chat_message("/undo")) == "Removed a.txt."


async def test_repeated_undo_command_undoes_once(tmp_path: Path) -> None:
    provider = ScriptedProvider([*writing("one"), *writing("two"), *writing("three")])
    async with running(tmp_path, provider, **OWNER) as parts:
        file = await write_contents(parts, "one", "two", "three")
        first = await answer_to(parts, chat_message("/undo"))
        ((seq,),) = await parts.stored("inbox", "max(seq)")
        lane = await parts.database.transact(turns.replay, seq)
        before = len(parts.platform.chats["1"])
        parts.bus.wake(lane)
        await parts.platform.until(lambda: len(parts.platform.chats["1"]) > before)
        assert parts.platform.chats["1"][-1].text == first
        assert file.read_text() == "two"


async def test_undo_skips_foreign_changes_unless_forced(tmp_path: Path) -> None:
    provider = ScriptedProvider([*writing("one"), *writing("two")])
    async with running(tmp_path, provider, **OWNER) as parts:
        file = await write_contents(parts, "one", "two")
        file.write_text("theirs")
        answer = await answer_to(parts, chat_message("/undo"))
        assert "Skipped a.txt: someone else has changed it since" in answer
        assert "/undo force" in answer
        assert file.read_text() == "theirs"
        assert await answer_to(parts, chat_message("/undo force a.txt")) == "Restored a.txt."
        assert file.read_text() == "one"


async def test_others_cannot_undo_changes_of_the_owner(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(writing("one")), **OWNER) as parts:
        group: dict[str, Any] = {"chat": "-5", "private": False}
        await answer_to(parts, chat_message("/auto", **group))
        await answer_to(parts, chat_message("write", **group))
        answer = await answer_to(parts, chat_message("/undo", sender=Sender("8"), **group))
        assert "your role does not allow this: only the owner can undo here" in answer
        assert (parts.workspace / "a.txt").read_text() == "one"


async def test_diff_is_shown(tmp_path: Path) -> None:
    provider = ScriptedProvider([*writing("one\n"), *writing("two\n")])
    async with running(tmp_path, provider, **OWNER) as parts:
        await write_contents(parts, "one\n", "two\n")
        whole = await answer_to(parts, chat_message("/diff"))
        assert "1 file changed: a.txt" in whole
        assert "+two" in whole
        assert "one" not in whole
        last = await answer_to(parts, chat_message("/diff last"))
        assert "-one" in last
        assert "+two" in last


async def test_long_diff_is_cut(tmp_path: Path) -> None:
    content = "".join(f"line {n}\n" for n in range(5_000))
    async with running(tmp_path, ScriptedProvider(writing(content)), **OWNER) as parts:
        await write_contents(parts, content)
        await answer_to(parts, chat_message("/diff"))
        messages = parts.platform.chats["1"]
        await parts.platform.until(lambda: "more lines)" in messages[-1].text)
        assert sum(len(message.text) for message in messages) < 9_000


async def test_new_conversation_has_nothing_to_undo(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider([]), **OWNER) as parts:
        for command in ("/undo", "/redo", "/diff"):
            assert "has no changes yet" in await answer_to(parts, chat_message(command))


async def test_rewind_previews_its_changes(tmp_path: Path) -> None:
    provider = ScriptedProvider([*writing("one"), *writing("two"), *writing("new", "b.txt")])
    async with running(tmp_path, provider, **OWNER) as parts:
        file = await write_contents(parts, "one", "two", "new")
        listed = await answer_to(parts, chat_message("/rewind"))
        assert listed.count("1 file changed: write") == 3
        preview = await answer_to(parts, chat_message("/rewind 2"))
        assert "Would restore a.txt." in preview
        assert "Would remove b.txt." in preview
        assert file.read_text() == "two"
        assert "Restored a.txt." in await answer_to(parts, chat_message("/rewind 2 files"))
        assert file.read_text() == "one"
        assert not (parts.workspace / "b.txt").exists()


async def test_file_names_are_shown_escaped(tmp_path: Path) -> None:
    names = ("Restored one.txt", "Removed `two`.txt")
    provider = ScriptedProvider([*writing("one", names[0]), *writing("two", names[1])])
    async with running(tmp_path, provider, **OWNER) as parts:
        await write_contents(parts, "one", "two")
        preview = await answer_to(parts, chat_message("/rewind 1"))
        assert "Would remove Removed \\`two\\`.txt, Restored one.txt." in preview
        undone = await answer_to(parts, chat_message("/rewind 1 files"))
        assert undone == "Removed Removed \\`two\\`.txt, Restored one.txt."


async def test_repeated_rewind_applies_once(tmp_path: Path) -> None:
    provider = ScriptedProvider([*writing("one"), *writing("two"), "After it."])
    async with running(tmp_path, provider, **OWNER) as parts:
        file = await write_contents(parts, "one", "two")
        ((session,),) = await parts.stored("binding", "session")
        answer = await answer_to(parts, chat_message("/rewind 2 both"))
        assert f"/resume {session}" in answer
        ((seq,),) = await parts.stored("inbox", "max(seq)")
        lane = await parts.database.transact(turns.replay, seq)
        before = len(parts.platform.chats["1"])
        parts.bus.wake(lane)
        await parts.platform.until(lambda: len(parts.platform.chats["1"]) > before)
        ((fork,),) = await parts.stored("binding", "session")
        assert fork != session
        assert fork in parts.platform.chats["1"][-1].text
        assert await parts.count("session") == 2
        # The fork contains the first turn up to its answer, and its change can still be undone.
        assert await parts.count("message", session=fork) == 4
        assert "a copy does not include the original's" in await answer_to(
            parts, chat_message("/rewind")
        )
        assert await answer_to(parts, chat_message("and now?")) == "After it."
        assert file.read_text() == "one"
        assert await answer_to(parts, chat_message("/undo")) == "Removed a.txt."
        await answer_to(parts, chat_message("/new"))
        assert "no message to go back to yet" in await answer_to(parts, chat_message("/rewind"))


async def test_invalid_rewind_target_is_explained(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(writing("one")), **OWNER) as parts:
        await write_contents(parts, "one")
        assert "expected the number of a message, 1 to 1" in await answer_to(
            parts, chat_message("/rewind 7")
        )
        assert "expected \\`files\\` or \\`both\\`" in await answer_to(
            parts, chat_message("/rewind 1 all")
        )
