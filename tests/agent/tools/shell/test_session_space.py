"""Space shared by the commands of one conversation only."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.shell.exec import Exec
from agent.tools.shell.session_space import MAX_IDLE_S, SessionSpaces

SERVER = "python3 -m http.server 8765 --bind 127.0.0.1"
ASK = "curl -s --retry 40 --retry-connrefused --retry-delay 0 -o /dev/null -w '%{http_code}'"
URL = "http://127.0.0.1:8765/"


def new_exec(box: Bubblewrap, folder: Path | None = None) -> Exec:
    return Exec(replace(ToolSettings(), sandbox=box, temporary_folder=folder))


def of_session(call: CallContext, name: str) -> CallContext:
    return replace(call, environment=replace(call.environment, session=name))


async def run_exec(tool: Exec, call: CallContext, command: str, **more: object) -> str:
    return (await tool.run({"command": command, **more}, call)).for_model


async def test_tmp_lasts_as_long_as_the_conversation(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    tool = new_exec(box, tmp_path / "tmp")
    await run_exec(tool, call, "echo kept > /tmp/note; git config --global user.name Ada")
    assert (await run_exec(tool, call, "cat /tmp/note")).startswith("kept\n")
    assert "No such file" in await run_exec(tool, of_session(call, "other"), "cat /tmp/note")
    await tool.aclose()
    # Kore restarts.
    tool = new_exec(box, tmp_path / "tmp")
    text = await run_exec(tool, call, "cat /tmp/note; git config --global user.name")
    assert text.startswith("kept\nAda\n")
    await tool.end(call.session)
    assert "No such file" in await run_exec(tool, call, "cat /tmp/note")
    await tool.aclose()


async def test_close_removes_the_session_folder(box: Bubblewrap, call: CallContext) -> None:
    tool = new_exec(box)
    await run_exec(tool, call, "echo x > /tmp/note")
    folder = tool.processes.spaces.folder(call.session)
    assert (folder / "tmp" / "note").exists()
    assert folder.stat().st_mode & 0o077 == 0
    await tool.aclose()
    assert not folder.exists()


async def test_background_server_is_reachable_only_in_its_conversation(
    box: Bubblewrap, call: CallContext
) -> None:
    tool = new_exec(box)
    text = await run_exec(tool, call, SERVER, background=True)
    assert "Other commands of this conversation can reach its ports" in text
    assert (await run_exec(tool, call, f"{ASK} {URL}")).startswith("200")
    assert (await run_exec(tool, call, f"{ASK} {URL}", background=True)).startswith("200")
    once = "curl -s -o /dev/null -w '%{http_code}' " + URL
    assert (await run_exec(tool, of_session(call, "other"), once)).startswith("000")
    assert "[exit code 0]" not in await run_exec(tool, call, "curl -sm 2 http://1.1.1.1/")
    await tool.aclose()


async def test_server_of_the_conversation_is_reached_without_approval(
    box: Bubblewrap, call: CallContext
) -> None:
    role = built_in_roles()["build"]
    policy = RolePolicy(PrincipalContext(role, "accept-edits", is_confined=True))
    tool = new_exec(box)

    async def verdict(call: CallContext, **more: object) -> str:
        args = {"command": f"{ASK} {URL}", **more}
        plan = await tool.plan(args, call)
        return policy.decide(plan.request(tool, args, call.workspace)).verdict

    await run_exec(tool, call, SERVER, background=True)
    assert await verdict(call) == "allow"
    # In other conversations, the same address belongs to the command's own network.
    assert await verdict(of_session(call, "other")) == "allow"
    assert await verdict(call, network="example.org") == "ask"
    owner = replace(call, environment=replace(call.environment, owner=True))
    assert await verdict(owner, outside=True, reason="to see") == "ask"
    await tool.aclose()


async def test_network_namespace_ends_with_its_conversation(
    box: Bubblewrap, call: CallContext
) -> None:
    tool = new_exec(box)
    await run_exec(tool, call, "sleep 100", background=True)
    network = tool.processes.spaces.network(call.session)
    assert network is not None
    namespace = Path(network.enter[1].removeprefix("--net="))
    assert os.readlink(namespace) != os.readlink("/proc/self/ns/net")
    await tool.end(call.session)
    assert not os.path.lexists(namespace)
    await tool.aclose()


def test_unused_session_folder_is_removed(tmp_path: Path) -> None:
    old = SessionSpaces(tmp_path).folder("old")
    (old / "file").write_text("x")
    long_ago = time.time() - MAX_IDLE_S - 60
    os.utime(old, (long_ago, long_ago))
    new = SessionSpaces(tmp_path).folder("new")
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("line", ["ls > /tmp/list", "cat /tmp/a"])
async def test_read_only_commands_share_the_session_tmp(
    box: Bubblewrap, call: CallContext, line: str
) -> None:
    tool = new_exec(box)
    await run_exec(tool, call, "echo x > /tmp/a")
    looking = replace(call, plan=EffectPlan(read_only=True))
    assert (await run_exec(tool, looking, line)).endswith("[exit code 0]")
    await tool.aclose()


async def test_write_outside_the_workspace_fails(
    box: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    """The write must not end in a sandbox folder that looks like the real one."""
    tool = new_exec(box)
    for folder in [*workspace.parents][:-2]:
        text = await run_exec(tool, call, f"echo x > {folder}/vanished")
        shared = str(folder) in ("/tmp", "/dev/shm")
        assert text.endswith("[exit code 0]") == shared, text
    await tool.aclose()
    assert not any((folder / "vanished").exists() for folder in workspace.parents)


async def test_link_in_tmp_is_not_followed(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    """A link in /tmp must not decide which files the next command sees."""
    (tmp_path / "secret").mkdir()
    tool = new_exec(box)
    plant = f"rm -rf /tmp/home; ln -s {tmp_path}/secret /tmp/home; ln -s {tmp_path}/secret /tmp/shm"
    await run_exec(tool, call, plant)
    text = await run_exec(tool, call, "echo x > /tmp/home/y; echo x > /dev/shm/z; ls -l /tmp/")
    await tool.aclose()
    assert list((tmp_path / "secret").iterdir()) == [], text
