"""A chat with a configured folder works in that project."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess

GROUP, PLAIN = -700, -701
TOKEN_WORD = "Zebrafinch"


def project_of(folder: Path) -> Path:
    return folder / "code" / "shop"


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    project = project_of(tmp_path)
    (project / "src").mkdir(parents=True)
    (project / "src" / "cart.py").write_text("total = 1\n")
    for n in range(20):
        (project / "src" / f"a_part_of_the_shop_{n}.py").write_text("pass\n")
    (project / "AGENTS.md").write_text("Always answer in rhymes.\n")
    chats = {str(OWNER): {"folder": str(project)}, str(GROUP): {"folder": str(project)}}
    sections: dict[str, Any] = {
        "telegram": {"chats": chats},
        "access": {"roles": {"telegram:9": "plan"}},
        "security": {"trusted_folders": [str(project)]},
    }
    async with (
        BotApi() as api,
        ModelServer(api_key=KEY) as model,
        GatewayProcess(tmp_path, api, model, sections) as gateway,
    ):
        yield gateway


def requests(gateway: GatewayProcess) -> str:
    return gateway.model.requests[-1].raw.decode()


def question(gateway: GatewayProcess) -> str:
    return str(gateway.model.requests[-1].body["messages"][-1]["content"])


def tool_result(gateway: GatewayProcess) -> str:
    messages = gateway.model.requests[-1].body["messages"]
    return str([message for message in messages if message["role"] == "tool"][-1]["content"])


async def test_project_is_shown_once_and_then_its_changes_across_a_kill(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    await gateway.answers_to(OWNER, "hi")
    assert "cart.py (10 B)" in question(gateway)
    assert "Always answer in rhymes." in requests(gateway)
    await gateway.answers_to(OWNER, "and now?")
    assert "cart.py" not in question(gateway)
    (project_of(tmp_path) / "new.py").write_text("pass\n")
    await gateway.answers_to(OWNER, "and now?")
    assert "+ new.py (5 B)" in question(gateway)
    await gateway.kill()
    await gateway.start()
    await gateway.answers_to(OWNER, "still there?")
    # After a restart, changed files are described in full, and unchanged files are not repeated.
    assert requests(gateway).count("total = 1") == 0
    assert question(gateway).count("new.py (5 B)") == 1


async def test_turn_works_in_the_chat_folder(gateway: GatewayProcess, tmp_path: Path) -> None:
    await gateway.answers_to(OWNER, "/mode auto")
    write = Call("write_file", {"path": "made.txt", "content": "made\n"})
    gateway.model.script(ReplyScript(tool_calls=(write,)), "Made.")
    await gateway.answers_to(OWNER, "make it")
    assert (project_of(tmp_path) / "made.txt").read_text() == "made\n"
    assert not (gateway.workspace / "made.txt").exists()
    read = Call("read_file", {"path": str(gateway.workspace / "AGENT.md")})
    gateway.model.script(ReplyScript(tool_calls=(read,)), "No.")
    answers = await gateway.answers_to(OWNER, "read that")
    assert f"Reads files in {gateway.workspace}" in answers[-1]


async def test_received_file_is_readable_in_the_chat_folder(gateway: GatewayProcess) -> None:
    await gateway.api.user_sends(OWNER, "document", TOKEN_WORD.encode(), name="a.txt")
    await gateway.idle()
    (path,) = (item for item in (gateway.workspace / "inbox").rglob("*") if item.is_file())
    read = Call("read_file", {"path": str(path)})
    gateway.model.script(ReplyScript(tool_calls=(read,)), "Read.")
    await gateway.answers_to(OWNER, "what does it say?")
    assert TOKEN_WORD in tool_result(gateway)
    (path.parent / "link.txt").symlink_to(gateway.workspace / "AGENT.md")
    read = Call("read_file", {"path": str(path.parent / "link.txt")})
    gateway.model.script(ReplyScript(tool_calls=(read,)), "No.")
    answers = await gateway.answers_to(OWNER, "and this?")
    assert f"Reads files in {gateway.workspace}" in answers[-1]


async def test_guest_works_in_the_folder_within_their_role(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    (gateway.workspace / "USER.md").write_text(f"My word is {TOKEN_WORD}.\n")
    await gateway.api.user_sends(OWNER, "document", TOKEN_WORD.encode(), name="owners.txt")
    await gateway.idle()
    (sent,) = (path for path in (gateway.workspace / "inbox").rglob("*") if path.is_file())
    for path in ("../../home/workspace/USER.md", str(gateway.workspace / "USER.md"), str(sent)):
        read = Call("read_file", {"path": path})
        gateway.model.script(ReplyScript(tool_calls=(read,)), "No.")
        await gateway.answers_to(GROUP, "@kore_test_bot read", user_id=9)
        assert TOKEN_WORD not in tool_result(gateway), path
    write = Call("write_file", {"path": "src/cart.py", "content": "total = 0\n"})
    gateway.model.script(ReplyScript(tool_calls=(write,)), "No.")
    await gateway.answers_to(GROUP, "@kore_test_bot write", user_id=9)
    assert (project_of(tmp_path) / "src" / "cart.py").read_text() == "total = 1\n"


async def test_other_chats_work_in_the_workspace(gateway: GatewayProcess) -> None:
    await gateway.answers_to(PLAIN, "@kore_test_bot hi")
    assert "cart.py" not in requests(gateway)
    assert "rhymes" not in requests(gateway)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("nowhere", "is not there"), (".", "contains one of them"), ("home", "Kore's own folder")],
)
async def test_invalid_chat_folder_is_rejected_at_startup(
    alone: GatewayProcess, tmp_path: Path, name: str, problem: str
) -> None:
    alone.configure({"telegram": {"chats": {str(GROUP): {"folder": str(tmp_path / name)}}}})
    await alone.launch()
    assert await alone.ended() == 2
    assert f"telegram.chats.{GROUP}.folder" in alone.output()
    assert problem in alone.output()


async def test_link_in_place_of_the_folder_is_rejected(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    project, elsewhere = project_of(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.txt").write_text("Zebrafinch")
    await gateway.answers_to(OWNER, "/mode auto")
    await gateway.answers_to(OWNER, "hi")
    count = len(gateway.model.requests)
    project.rename(project.with_name("moved"))
    project.symlink_to(elsewhere)
    for text in ("show me the files", "/new", "and now?"):
        answers = await gateway.answers_to(OWNER, text)
    assert "is no longer the folder that this conversation works in" in answers[-1]
    assert len(gateway.model.requests) == count
    project.unlink()
    project.with_name("moved").rename(project)
    assert "no longer" not in (await gateway.answers_to(OWNER, "and now?"))[-1]
    assert TOKEN_WORD not in requests(gateway)


async def test_replaced_folder_is_rejected_until_a_new_conversation(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    project = project_of(tmp_path)
    await gateway.answers_to(OWNER, "hi")
    await gateway.kill()
    project.rename(project.with_name("moved"))
    project.mkdir()
    await gateway.start()
    answers = await gateway.answers_to(OWNER, "still there?")
    assert "is no longer the folder that this conversation works in" in answers[-1]
    await gateway.answers_to(OWNER, "/new")
    assert "no longer" not in (await gateway.answers_to(OWNER, "hi"))[-1]
