"""`kore agent --trust`: a project is trusted for one run."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import postgres_server
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import echo
from tests.fork_server import start_piped
from tests.gateway.cli.chat.long_task_scene import Place


@pytest.fixture
def project(place: Place, model_server: ModelServer) -> Path:
    """Return a folder of a repository with instructions."""
    model_server.mind = echo
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place.work, check=True)
    (place.work / "AGENTS.md").write_text("Use tabs everywhere.\n")
    part = place.work / "part"
    part.mkdir()
    return part


async def run(place: Place, folder: Path, *words: str) -> tuple[int, str]:
    """Run `kore agent` in the folder, and return its exit code and its stderr."""
    own = {"KORE_HOME": str(place.home), **postgres_server.environ_of(place.home)}
    environ = {"PATH": os.environ["PATH"], "HOME": str(place.home)} | own
    process = await start_piped(("agent", *words), cwd=folder, env=environ)
    async with asyncio.timeout(120):
        _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err.decode()


async def test_project_is_trusted_for_one_run(
    place: Place, model_server: ModelServer, project: Path
) -> None:
    stored = {path: path.read_bytes() for path in place.home.iterdir() if path.is_file()}
    code, err = await run(place, project, "--trust", "-m", "look")
    assert code == 0, err
    assert "Use tabs everywhere." in str(model_server.requests[-1].body["messages"][0])
    assert "kore trust" not in err
    assert "untrusted" not in (await place.run_verb("sessions", "list", "--json"))[1]
    assert all(path.read_bytes() == content for path, content in stored.items())
    assert not (place.home / "trust.json").exists()
    code, err = await run(place, project, "-m", "look")
    assert code == 0, err
    assert "kore trust" in err
    assert "untrusted" in (await place.run_verb("sessions", "list", "--json"))[1]


async def test_configuration_of_the_project_applies_to_the_run(
    place: Place, model_server: ModelServer, project: Path
) -> None:
    """Only a trusted project may set the language servers and the hooks of Kore."""
    (project / ".kore").mkdir()
    hook = {"type": "command", "command": "echo words-of-the-hook"}
    config = {"lsp": {"enabled": False}, "hooks": {"SessionStart": [{"hooks": [hook]}]}}
    (project / ".kore" / "config.json").write_text(json.dumps(config))
    code, err = await run(place, project, "-m", "look")
    assert code == 2, err
    code, err = await run(place, project, "--trust", "-m", "look")
    assert code == 0, err
    assert "words-of-the-hook" in str(model_server.requests[-1].body["messages"])


async def test_configuration_outside_of_the_trusted_folder_is_ignored(
    place: Place, model_server: ModelServer, project: Path
) -> None:
    elsewhere = place.work.parent / "elsewhere"
    (elsewhere / ".kore").mkdir(parents=True)
    (elsewhere / ".kore" / "config.json").write_text(json.dumps({"lsp": {"enabled": False}}))
    code, err = await run(place, elsewhere, "--trust", "--cwd", str(project), "-m", "look")
    assert code == 2
    assert "a project's own file cannot set this" in err
    assert model_server.requests == []


async def test_folder_of_kore_cannot_be_trusted(place: Place, model_server: ModelServer) -> None:
    folder = place.home.parent
    code, err = await run(place, folder, "--trust", "--cwd", str(folder), "-m", "look")
    assert code == 2
    assert "cannot be trusted as a whole" in err
    code, err = await run(place, place.home, "--trust", "-m", "look")
    assert code == 2
    assert "--trust: no project here" in err
    assert model_server.requests == []


async def test_running_kore_keeps_its_own_rules(
    place: Place, model_server: ModelServer, project: Path
) -> None:
    gateway = await place.serve()
    try:
        code, err = await run(place, project, "--trust", "-m", "look")
    finally:
        gateway.terminate()
        await gateway.wait()
    assert code == 2
    assert "--trust: Kore is already running and keeps its own rules" in err
    assert model_server.requests == []
