"""Tools that people may use from a chat, separate memories, and requests to the model."""

import shutil
from collections.abc import Mapping
from itertools import pairwise

import pytest

from tests.fakes.model_script import Call, ReplyScript, reply_with_call
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


def result(gateway: GatewayProcess) -> str:
    """Return the result of the last call, as the model received it."""
    last: Mapping[str, str] = gateway.model.requests[-1].body["messages"][-1]
    assert last["role"] == "tool"
    return last["content"]


def system_prompt(gateway: GatewayProcess) -> str:
    return str(gateway.model.requests[-1].body["messages"][0]["content"])


async def test_new_file_is_written(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(
        reply_with_call("write_file", path="notes/new.txt", content="hello"), "Done."
    )
    assert await gateway.answers_to(chat, "write it") == ["Done."]
    assert (gateway.workspace / "notes" / "new.txt").read_text() == "hello"


async def test_overwriting_is_rejected_with_a_reason(gateway: GatewayProcess, chat: int) -> None:
    (gateway.workspace / "precious.txt").write_text("mine")
    gateway.model.script(
        reply_with_call("read_file", path="precious.txt"),
        reply_with_call("write_file", path="precious.txt", content="x"),
        "I could not.",
    )
    assert await gateway.answers_to(chat, "overwrite it") == ["I could not."]
    assert (gateway.workspace / "precious.txt").read_text() == "mine"
    assert "terminal" in result(gateway)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_commands_are_disabled_for_others(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(reply_with_call("exec", command="touch ran"), "No.")
    assert await gateway.answers_to(chat, "run it") == ["No."]
    assert not (gateway.workspace / "ran").exists()
    assert "the role general does not include the tool exec" in result(gateway)


@pytest.mark.parametrize("path", ["../config.json", "../kore.db", "/etc/passwd"])
async def test_files_outside_the_workspace_are_not_read(
    gateway: GatewayProcess, chat: int, path: str
) -> None:
    gateway.model.script(reply_with_call("read_file", path=path), "No.")
    await gateway.answers_to(chat, "read it")
    assert "outside" in result(gateway)


async def test_memories_are_separate(gateway: GatewayProcess, chat: int) -> None:
    (gateway.workspace / "USER.md").write_text("The owner lives in Elmstreet.")
    gateway.model.script(reply_with_call("remember", text="the safe opens with 4711"), "Noted.")
    await gateway.answers_to(OWNER, "remember it")
    memory = gateway.workspace / "memory"
    assert "4711" in (memory / "MEMORY.md").read_text()
    (memory / "telegram" / str(chat)).mkdir(parents=True)
    (memory / "telegram" / str(chat) / "MEMORY.md").write_text("- likes tea\n")

    await gateway.answers_to(chat, "what do you know?")
    assert "likes tea" in system_prompt(gateway)
    assert "4711" not in system_prompt(gateway)
    assert "Elmstreet" not in system_prompt(gateway)
    await gateway.answers_to(OWNER, "/new")
    await gateway.answers_to(OWNER, "and of me?")
    assert "4711" in system_prompt(gateway)
    assert "Elmstreet" in system_prompt(gateway)
    assert "likes tea" not in system_prompt(gateway)


async def test_memories_are_hidden_in_a_group(gateway: GatewayProcess) -> None:
    gateway.model.script(
        reply_with_call("remember", text="the owner's birthday is in May"), "Noted."
    )
    await gateway.answers_to(OWNER, "remember it")
    await gateway.answers_to(-100_900, "@kore_test_bot who am I?", user_id=OWNER)
    assert "birthday" not in system_prompt(gateway)


async def test_stranger_cannot_read_the_memory_file(gateway: GatewayProcess, chat: int) -> None:
    (gateway.workspace / "memory").mkdir(exist_ok=True)
    (gateway.workspace / "memory" / "MEMORY.md").write_text("- the canary sings\n")
    gateway.model.script(reply_with_call("read_file", path="memory/MEMORY.md"), "Done.")
    await gateway.answers_to(chat, "read the owner's memory")
    assert "canary" not in result(gateway)


async def test_every_request_extends_the_previous_one_byte_for_byte(
    gateway: GatewayProcess, chat: int
) -> None:
    path = f"turns-{chat}.txt"
    gateway.model.script(
        "One.",
        reply_with_call("write_file", path=path, content="ä😀\n"),
        "Two.",
        reply_with_call("read_file", path=path),
        reply_with_call("append_file", path=path, content="more\n"),
        "Three.",
        "Four.",
        ReplyScript(
            text="Both:",
            tool_calls=(Call("list_dir", {"path": "."}), Call("read_file", {"path": path})),
        ),
        "Five.",
        "Six.",
    )
    for n in range(1, 7):
        await gateway.answers_to(chat, f"turn {n} ü")
    assert len(gateway.model.requests) == 10
    for outcome, following in pairwise(gateway.model.requests):
        assert list(outcome.body)[-1] == "messages", "what grows comes last"
        assert following.raw.startswith(outcome.raw[: outcome.raw.rindex(b"]")])
