"""A project folder, from the command line to the model."""

import json
from pathlib import Path

import pytest

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("Use tabs, always.")
    (folder / "README.md").write_text("It counts sheep.")
    (folder / "sheep.py").write_text("print(1)")
    return folder


async def test_tree_and_files_of_an_untrusted_folder_reach_the_model(
    alone: GatewayProcess, project: Path
) -> None:
    alone.model.script("First.", "Second.")
    await alone.start()
    where = ("--cwd", project, "-f", "sheep.py")
    ran = await alone.kore("agent", "-m", "hi", *where, "--output-format", "json")
    assert ran.code == 0, ran.err
    system, result = (message["content"] for message in alone.model.requests[-1].body["messages"])
    assert "Use tabs" not in system
    for shown in ("sheep.py (8 B)", "print(1)", "It counts sheep."):
        assert shown in str(result)
    (outcome,) = json.loads((await alone.kore("sessions", "list", "--json")).out)
    assert outcome["taint"] == "private,untrusted"


async def test_instructions_of_a_trusted_folder_are_in_the_system_prompt(
    alone: GatewayProcess, project: Path
) -> None:
    alone.configure({"security": {"trusted_folders": [str(project.parent)]}})
    alone.model.script("First.", "Second.")
    await alone.start()
    ran = await alone.kore("agent", "-m", "hi", "--cwd", project)
    assert (ran.code, ran.err) == (0, "")
    assert "Use tabs, always." in alone.model.requests[-1].body["messages"][0]["content"]
    (result,) = json.loads((await alone.kore("sessions", "list", "--json")).out)
    assert result["taint"] == "private"
    (project / "AGENTS.md").write_text("Use blanks, always.")
    ran = await alone.kore("agent", "-c", "-m", "and now?", "--cwd", project)
    assert ran.code == 0, ran.err
    system = alone.model.requests[-1].body["messages"][0]["content"]
    assert "Use blanks, always." in system
    assert "Use tabs" not in system


async def test_folder_is_described_once_per_conversation(
    alone: GatewayProcess, project: Path
) -> None:
    await alone.start()

    async def ask(text: str) -> str:
        """Return the last message as it was sent."""
        ran = await alone.kore("agent", "-c", "-m", text, "--cwd", project)
        assert ran.code == 0, ran.err
        return str(alone.model.requests[-1].body["messages"][-1]["content"])

    first = await ask("hi")
    assert "sheep.py (8 B)" in first
    assert "It counts sheep." in first
    again = await ask("and now?")
    assert "and now?" in again
    assert "sheep" not in again
    await alone.kill()
    await alone.start()
    (project / "goat.py").write_text("")
    changed = await ask("what is new?")
    assert "goat.py" in changed
    assert "It counts sheep." not in changed
    alone.model.script(*(f"{n} " + "word " * 8_000 for n in range(8)))
    for n in range(8):
        assert "sheep" not in await ask(f"number {n}")
    assert "nothing" not in (await alone.kore("agent", "-c", "-m", "/compact")).out
    assert "It counts sheep." in await ask("after the summary")


async def test_nested_instructions_are_added_to_read_files(
    alone: GatewayProcess, project: Path
) -> None:
    (project / "barn").mkdir()
    (project / "barn" / "AGENTS.md").write_text("Close the door.")
    (project / "barn" / "hay.py").write_text("print(2)")
    reading = ReplyScript(tool_calls=(Call("read_file", {"path": "barn/hay.py"}),))

    async def result() -> str:
        """Return the file's content as the model sees it."""
        alone.model.script(reading, "Read.")
        ran = await alone.kore("agent", "-m", "look", "--cwd", project)
        assert ran.code == 0, ran.err
        (tool,) = (
            message
            for message in alone.model.requests[-1].body["messages"]
            if message["role"] == "tool" and "print(2)" in str(message["content"])
        )
        return str(tool["content"])

    await alone.start()
    assert "Close the door." not in await result()
    await alone.kill()
    alone.configure({"security": {"trusted_folders": [str(project.parent)]}})
    await alone.start()
    assert "Close the door." in await result()
