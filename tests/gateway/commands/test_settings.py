"""Approval mode chosen from a chat and from the terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.providers.scripted import ScriptedProvider
from agent.security.policy.base import MODES
from agent.types import Message, ToolCall, assistant
from tests.gateway.commands.people import other
from tests.gateway.parts import answer_to, chat_message, console_message, running

GROUP: dict[str, Any] = {"chat": "-5", "private": False}


async def test_mode_is_shown_and_set(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."], owner="chat:7") as parts:
        answer = await answer_to(parts, chat_message("/mode"))
        assert answer.startswith("Mode: `ask`")
        assert all(f"`{mode}`" in answer for mode in ("plan", "ask", "accept-edits", "auto"))
        assert "`plan`" in await answer_to(parts, chat_message("/plan"))
        assert (await answer_to(parts, chat_message("/mode"))).startswith("Mode: `plan`")
        assert "`accept-edits`" in await answer_to(parts, chat_message("/mode accept-edits"))
        assert "`auto`" in await answer_to(parts, chat_message("/auto"))
        assert "Unknown mode; choose one of" in await answer_to(
            parts, chat_message("/mode everything")
        )
        assert (await answer_to(parts, chat_message("/mode"))).startswith("Mode: `auto`")


async def test_model_is_informed_of_a_new_mode_with_the_next_message(tmp_path: Path) -> None:
    provider = ScriptedProvider(["One.", "Two."])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        await answer_to(parts, chat_message("first"))
        await answer_to(parts, chat_message("/plan"))
        await answer_to(parts, chat_message("second"))
    before, after = provider.requests
    assert "permission mode ask" in str(before.messages[-1].content)
    assert "permission mode plan" in str(after.messages[-1].content)
    assert after.system == before.system
    assert after.messages[: len(before.messages)] == before.messages


async def test_new_conversation_has_the_default_mode_of_its_channel(tmp_path: Path) -> None:
    modes: Mapping[str, Any] = {"chat": "plan"}
    async with running(tmp_path, ["Hello."], owner="chat:7", modes=modes) as parts:
        await answer_to(parts, chat_message("/auto"))
        await answer_to(parts, chat_message("/new"))
        assert (await answer_to(parts, chat_message("/mode"))).startswith("Mode: `plan`")


async def test_others_may_only_restrict_the_mode(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."], owner="chat:7") as parts:
        assert "Only the owner" in await answer_to(parts, other("/auto"))
        assert "Only the owner" in await answer_to(parts, other("/mode accept-edits"))
        assert "Mode of this conversation: `plan`" in await answer_to(parts, other("/plan"))
        assert "Mode of this conversation: `ask`" in await answer_to(parts, other("/mode ask"))


async def test_stricter_group_mode_applies_to_others(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."], owner="chat:7") as parts:
        await answer_to(parts, chat_message("/plan", **GROUP))
        assert "Only the owner" in await answer_to(parts, other("/mode ask", **GROUP))
        await answer_to(parts, chat_message("/auto", **GROUP))
        assert (await answer_to(parts, other("/mode", **GROUP))).startswith("Mode: `ask`")
        assert "Mode of this conversation: `plan`" in await answer_to(
            parts, other("/plan", **GROUP)
        )


def overwriting() -> list[Message | str]:
    arguments = {"path": "a.txt", "old_string": "old", "new_string": "new"}
    return [assistant("", (ToolCall("1", "edit_file", arguments, ""),)), "Done."]


async def test_turn_runs_in_the_mode_of_its_conversation(tmp_path: Path) -> None:
    provider = ScriptedProvider([*overwriting(), *overwriting()])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        file = parts.workspace / "a.txt"
        file.write_text("old")
        await answer_to(parts, chat_message("/plan"))
        assert await answer_to(parts, chat_message("overwrite it")) == "Done."
        assert file.read_text() == "old"
        await answer_to(parts, chat_message("/mode accept-edits"))
        assert await answer_to(parts, chat_message("overwrite it")) == "Done."
        assert file.read_text() == "new"


async def test_one_shot_run_overrides_the_mode_of_the_conversation(tmp_path: Path) -> None:
    provider = ScriptedProvider([*overwriting(), *overwriting()])
    async with running(tmp_path, provider) as parts:
        file = parts.workspace / "a.txt"
        file.write_text("old")
        session = await parts.service.create_session()
        await parts.service.choose_mode(session, "ask")
        for mode, content in (("plan", "old"), ("accept-edits", "new")):
            message = console_message("overwrite it", "once-1", options={"mode": mode})
            await parts.service.bind_session(message.session_key, session)
            await parts.bus.submit(message)
            await parts.until_answered(message)
            assert file.read_text() == content
        assert await parts.service.session_mode(session) == "ask"


async def test_first_mode_of_a_terminal_is_stored_until_another_one_is_chosen(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider([*overwriting(), *overwriting()])
    async with running(tmp_path, provider) as parts:
        file = parts.workspace / "a.txt"
        file.write_text("old")
        first = console_message("overwrite it", options={"mode": "plan"})
        await parts.bus.submit(first)
        await parts.until_answered(first)
        assert file.read_text() == "old"
        session = await parts.service.bound_session(first.session_key)
        assert session is not None
        assert await parts.service.session_mode(session) == "plan"
        await parts.service.choose_mode(session, "accept-edits")
        second = console_message("overwrite it", options={"mode": "plan"})
        await parts.bus.submit(second)
        await parts.until_answered(second)
        assert file.read_text() == "new"


async def test_repeated_message_does_not_choose_its_mode_again(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."]) as parts:
        session = await parts.service.create_session()
        await parts.service.send_message(session, "hi", "e1", mode="auto")
        assert await parts.service.session_mode(session) == "auto"
        await parts.service.choose_mode(session, "ask")
        await parts.service.send_message(session, "hi", "e1", mode="auto")
        assert await parts.service.session_mode(session) == "ask"


async def test_modes_that_a_person_may_not_choose_are_not_offered(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."], owner="chat:7") as parts:
        answer = await answer_to(parts, other("/mode"))
        assert [mode for mode in MODES if f"`{mode}`" in answer] == ["plan", "ask"]
        unknown = await answer_to(parts, other("/mode everything"))
        assert [mode for mode in MODES if f"`{mode}`" in unknown] == ["plan", "ask"]
