"""Container sandbox with a fake docker: its arguments, and no leftovers."""

import asyncio
import errno
import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.sandbox.base import Limits, SandboxCommand
from agent.security.sandbox.container import ContainerSandbox, seccomp_profile
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.exec import Exec
from agent.types import ToolCall

# Records its arguments; `run` executes the command, `kill` ends it.
STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" >>"$0.log"; echo -- >>"$0.log"
if [ "$1" = kill ]; then kill -9 "$(cat "$0.pid")"; exit; fi
while [ "$1" != image ]; do shift; done; shift
"$@" & echo $! >"$0.pid"; wait $!
"""


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    program = tmp_path / "docker"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return program


@pytest.fixture
def call(tmp_path: Path) -> CallContext:
    workspace = tmp_path / "workspace"
    (workspace / "sub").mkdir(parents=True)
    memory = workspace / "MEMORY.md"
    return CallContext(
        ToolCall("c", "exec", {}, "{}"),
        ToolEnvironment("s", workspace, memory),
        lambda text, stream: None,
    )


def docker_calls(docker: Path) -> list[list[str]]:
    """Return the arguments of each call."""
    calls = docker.with_name("docker.log").read_text().split("--\n")
    return [words.splitlines() for words in calls if words]


def tool(docker: Path, **more: float) -> Exec:
    sandbox = ContainerSandbox(
        str(docker), "image", Limits(processes=7, file_bytes=1000, memory_bytes=2000)
    )
    return Exec(replace(ToolSettings(), sandbox=sandbox, **more))  # type: ignore[arg-type]


def pairs(words: list[str]) -> set[tuple[str, str]]:
    return set(pairwise(words))


async def test_command_gets_only_its_workspace(docker: Path, call: CallContext) -> None:
    (call.workspace / ".git" / "hooks").mkdir(parents=True)
    result = await tool(docker).run({"command": "echo $0 said", "workdir": "sub"}, call)
    assert "said" in result.for_model
    (words,) = docker_calls(docker)
    image = words.index("image")
    assert words[image + 1 : image + 3] == ["/bin/sh", "-c"]
    options = words[:image]
    assert {"--rm", "--init", "--read-only"} <= set(options)
    workspace = call.workspace
    assert pairs(options) >= {
        ("--pull", "never"), ("--network", "none"), ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--user", f"{os.geteuid()}:{os.getegid()}"),
        ("--pids-limit", "7"), ("--memory", "2000"), ("--ulimit", "fsize=1000"),
        ("--volume", f"{workspace}:{workspace}"), ("--workdir", str(workspace / "sub")),
        ("--tmpfs", f"{workspace / '.git' / 'hooks'}:ro,size=4k"),
    }  # fmt: skip
    assert "--privileged" not in options
    (filtered,) = [word for word in options if word.startswith("seccomp=")]
    assert not Path(filtered.removeprefix("seccomp=")).exists(), "it is gone with the command"
    assert not any("docker.sock" in word for word in options)


async def test_container_is_killed_by_name_after_a_timeout(docker: Path, call: CallContext) -> None:
    result = await tool(docker, exec_timeout_s=0.5).run({"command": "sleep 100"}, call)
    assert result.is_error
    async with asyncio.timeout(20):
        while len(docker_calls(docker)) < 2:
            await asyncio.sleep(0.01)
    run, kill = docker_calls(docker)
    assert kill == ["kill", run[run.index("--name") + 1]]


def test_seccomp_profile_matches_other_sandboxes() -> None:
    rules = json.loads(seccomp_profile())["syscalls"]

    def decided(call: str, *arguments: int) -> int:
        for rule in rules:
            if call in rule["names"] and all(
                arguments[test["index"]] & test["value"] == test["valueTwo"]
                for test in rule.get("args", ())
            ):
                return int(rule["errnoRet"])
        return 0

    for call in ("keyctl", "bpf", "unshare", "mount", "ptrace"):
        assert decided(call) == errno.EPERM
    assert decided("io_uring_setup") == errno.ENOSYS
    assert decided("setxattr") == decided("fremovexattr") == errno.EOPNOTSUPP
    assert decided("chmod", 0, 0o4755) == decided("fchmodat", 0, 0, 0o2755) == errno.EPERM
    assert decided("chmod", 0, 0o1755) == 0
    assert decided("openat", 0, 0, 0o101, 0o4755) == errno.EPERM
    assert decided("openat", 0, 0, 0o1, 0o4755) == 0
    assert decided("socket", 1, 1, 0) == errno.EPERM
    assert decided("socket", 2, 1, 0) == decided("socketpair", 1, 1, 0) == 0
    assert decided("clone", 0x10000011) == errno.EPERM
    assert decided("clone", 0x11) == 0


def test_workspace_with_colon_and_root_folder_are_rejected(tmp_path: Path) -> None:
    container = ContainerSandbox("docker", "image")
    odd = tmp_path / "a:b"
    for job, why in (
        (SandboxCommand("true", odd, odd), "colon"),
        (SandboxCommand("true", Path("/"), Path("/")), "whole file system"),
    ):
        with pytest.raises(ToolError, match=why), container.prepare(job):
            pass
