"""`kore agent` in a folder of a repository: workspace, relative paths, git and instructions."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.cli.chat.long_task_scene import Place
from tests.gateway.cli.chat.starting import run, trust

COMMAND = "pwd && git status --short main.py && cat ../shared.py"


@pytest.fixture
def part(place: Place) -> Path:
    """Return a folder in a repository; both contain instructions."""
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place.work, check=True)
    folder = place.work / "packages" / "api"
    folder.mkdir(parents=True)
    (place.work / "AGENTS.md").write_text("Use tabs everywhere.\n")
    (folder / "AGENTS.md").write_text("Use blanks here.\n")
    (folder / "main.py").write_text("import shared\n")
    (folder.parent / "shared.py").write_text("value = 4711\n")
    return folder


@pytest.mark.parametrize("is_chosen", [False, True], ids=["shell", "cwd"])
async def test_commands_start_in_the_folder_and_git_works(
    place: Place, model_server: ModelServer, part: Path, is_chosen: bool
) -> None:
    trust(place, place.work)
    read = Call("read_file", {"path": "main.py"})
    script = (ReplyScript(tool_calls=(Call("exec", {"command": COMMAND}), read)), "done")
    model_server.script(*script)
    where, words = (place.work.parent, ("--cwd", str(part))) if is_chosen else (part, ())
    code, err = await run(place, where, *words)
    assert code == 0, err
    system = str(model_server.requests[0].body["messages"][0]["content"])
    assert f"The person is in `{part}`, part of the project `{place.work}`" in system
    assert system.index("Use tabs everywhere.") < system.index("Use blanks here.")
    results = [
        str(message["content"])
        for message in model_server.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    assert results[0].startswith(f"{part}\n?? main.py\nvalue = 4711"), results
    assert results[1] == "1\timport shared"


async def test_workspace_is_the_trusted_folder_if_no_question_can_be_asked(
    place: Place, model_server: ModelServer, part: Path
) -> None:
    trust(place, part)
    script = (ReplyScript(tool_calls=(Call("read_file", {"path": "../shared.py"}),)), "done")
    model_server.script(*script)
    code, err = await run(place, part)
    assert code == 0, err
    assert f"kore trust {place.work}" in err
    system = str(model_server.requests[0].body["messages"][0]["content"])
    assert f"Relative paths start at `{part}`." in system
    assert "Use tabs everywhere." not in system
    assert "outside the workspace" in str(model_server.requests[-1].body["messages"][-1])


async def test_continue_takes_the_last_session_of_the_project(
    place: Place, model_server: ModelServer, part: Path
) -> None:
    trust(place, place.work)
    elsewhere = place.work.parent / "elsewhere"
    elsewhere.mkdir()
    model_server.script("first", "second", "third", "fourth")
    for folder in (part, elsewhere):
        code, err = await run(place, folder)
        assert code == 0, err
    # From another folder of the same project.
    code, err = await run(place, place.work, "-c")
    assert code == 0, err
    assert "first" in json.dumps(model_server.requests[-1].body["messages"])
    assert "second" not in json.dumps(model_server.requests[-1].body["messages"])


async def test_session_continues_in_its_own_folder(
    place: Place, model_server: ModelServer, part: Path
) -> None:
    trust(place, place.work)
    elsewhere = place.work.parent / "elsewhere"
    elsewhere.mkdir()
    model_server.script("first", "second", "third")
    code, err = await run(place, part)
    assert code == 0, err
    listed = json.loads((await place.run_verb("sessions", "list", "--json"))[1])
    session = listed[0]["id"]
    code, err = await run(place, elsewhere, "-s", session)
    assert code == 0, err
    assert f"This session continues in its own folder, {part}." in err
    system = str(model_server.requests[-1].body["messages"][0]["content"])
    assert f"The person is in `{part}`, part of the project `{place.work}`" in system
    code, err = await run(place, elsewhere, "-s", session, "--cwd", ".")
    assert code == 0, err
    system = str(model_server.requests[-1].body["messages"][0]["content"])
    assert f"Relative paths start at `{elsewhere}`." in system
