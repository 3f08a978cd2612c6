"""Settings in a command's home: approval requests name them, and answers are bound to them."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.approvals import ApprovalRequest
from agent.security.policy.base import Answered, PermissionMode
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.base import Limits
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.container import ContainerSandbox
from agent.security.sandbox.environment import Toolchains
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.tools.shell.exec import Exec
from agent.tools.shell.home_settings import HomeSettings, home_settings
from agent.types import ToolCall


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def write(home: Path, path: str, text: str = "x") -> Path:
    file = home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def scan(home: Path) -> HomeSettings:
    return home_settings(home, "/tmp/home")


def test_empty_home_has_no_files(home: Path, tmp_path: Path) -> None:
    (home / ".config").mkdir()
    nothing = scan(tmp_path / "missing")
    assert scan(home) == scan(tmp_path / "a" / "b") == nothing
    assert (nothing.names, nothing.digest, nothing.unbound) == ((), "", None)


PLACES = (
    *(".curlrc", ".gitconfig", ".npmrc", ".netrc", ".a-program-that-nobody-knows", "notes.txt"),
    *(".config/git/config", ".config/pip/pip.conf", ".pip/pip.conf", ".ssh/config"),
    *(".gradle/init.d/x.gradle", ".local/lib/python3.12/site-packages/x.pth"),
    *(".local/lib/python3.11/site-packages/requests/__init__.py", ".config/fish/conf.d/x.fish"),
    *(".ipython/profile_default/startup/00.py", ".vim/pack/a/start/b/plugin/c.vim"),
    *(".local/bin/make", ".cargo/bin/cargo", ".rustup/toolchains/stable/bin/rustc"),
    *(".cache/go-build/00/x-d", "node_modules/x/index.js", "go/bin/x", ".npm/_cacache/index/x"),
    *(".nvm/versions/node/v20/bin/node", ".docker/cli-plugins/docker-compose", ".npm/x/_logs"),
    "a/" * 30 + "deep",
)


@pytest.mark.parametrize("path", PLACES)
def test_every_change_of_a_file_changes_the_digest(home: Path, path: str) -> None:
    file = write(home, path)
    first = scan(home)
    assert first.names == (path,)
    assert first.unbound is None
    times = file.stat()
    write(home, path, "y")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = scan(home)
    file.unlink()
    assert len({first.digest, second.digest, scan(home).digest}) == 3
    assert scan(home).names == ()


def test_large_file_is_bound_by_its_times(home: Path) -> None:
    file = write(home, ".big", "x" * 300_000)
    first, times = scan(home), file.stat()
    file.write_text("y" * 300_000)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert scan(home).digest != first.digest


def test_rewritten_small_file_has_the_same_digest(home: Path) -> None:
    file = write(home, ".config/gh/hosts.yml")
    first = scan(home)
    file.unlink()
    write(home, ".config/gh/hosts.yml")
    assert scan(home) == first
    file.chmod(0o755)
    assert scan(home) != first


EMPTY = (".npm/_update-notifier-last-checked", ".cargo/.package-cache")


@pytest.mark.parametrize(
    "path",
    [
        *(".npm/_logs/2026-debug-0.log", ".cargo/.global-cache", *EMPTY),
    ],
)
def test_volatile_files_are_ignored(home: Path, path: str) -> None:
    write(home, path, "" if path in EMPTY else "x")
    assert scan(home) == HomeSettings()


@pytest.mark.parametrize("path", EMPTY)
def test_only_an_empty_file_is_ignored(home: Path, path: str) -> None:
    file = write(home, path)
    first = scan(home)
    assert first.names == (path,)
    write(home, path, "y")
    assert scan(home).digest != first.digest
    file.unlink()
    file.symlink_to("x")
    assert scan(home).names == (f"{path} (→ x)",)
    file.unlink()
    file.mkdir()
    write(home, f"{path}/x")
    assert scan(home).names == (f"{path}/x",)


@pytest.mark.parametrize("path", [".npm/_logs", ".cargo/.global-cache"])
def test_link_at_an_ignored_path_counts(home: Path, path: str) -> None:
    write(home, "planted")
    (home / path).parent.mkdir()
    (home / path).symlink_to("../planted")
    assert scan(home).names == ("planted", f"{path} (→ ../planted)")


@pytest.mark.parametrize(
    "target",
    [
        *(".npm/_logs", ".npm/_logs/r", "./.npm//_logs/./r/x.py", "/tmp/home/.npm/_logs/r"),
        *("/tmp/home//.npm/./_logs", ".npm/_update-notifier-last-checked", ".cargo/.package-cache"),
        *("/tmp/home/.cargo/.global-cache", ".npm", ".cargo/", "/tmp/home/.npm", "/tmp/home", "."),
    ],
)
def test_link_to_an_ignored_path_is_not_bound(home: Path, target: str) -> None:
    (home / "link").symlink_to(target)
    assert scan(home).unbound == "link"
    (home / "link").unlink()
    below = home / ".local/lib/python3.11/site-packages"
    below.mkdir(parents=True)
    (below / "requests").symlink_to(target if target.startswith("/") else f"../../../../{target}")
    assert scan(home).unbound == ".local/lib/python3.11/site-packages/requests"


def test_unbound_link_is_named(home: Path, tmp_path: Path) -> None:
    secret = write(tmp_path, "outside/secret")
    (home / ".curlrc").symlink_to(secret)
    settings = scan(home)
    assert settings.names[0].startswith(".curlrc (→ /")
    assert settings.unbound == ".curlrc"
    (home / ".curlrc").unlink()
    write(home, "a/b/c/d/e")
    os.mkfifo(home / "a/b/c/d/f")
    assert scan(home).unbound == "a/b/c/d/f"
    (home / "a/b/c/d/f").unlink()
    (home / ".config").symlink_to(secret.parent)
    assert scan(home).unbound == ".config"
    (home / ".config").unlink()
    assert scan(home).unbound is None
    home.rename(tmp_path / "moved")
    home.symlink_to(secret.parent)
    assert scan(home).unbound == "~"


@pytest.mark.parametrize(
    ("target", "is_bound"),
    [
        *(("/usr/bin/python3", True), ("/tmp/home/x", True), ("../lib/x", True), ("x", True)),
        *(("../../x", False), ("x/../../y", False), ("/usr/../tmp/x", False), ("/tmp/x", False)),
        *(("/tmp/homes", False), ("/proc/self/cwd/x", False), ("//usr/x", False), ("..", False)),
        *((".", True), ("../.npmrc", True), ("../.npm/_cacache", True), ("../.cargo/bin/x", True)),
    ],
)
def test_link_is_bound_if_its_target_is(home: Path, target: str, is_bound: bool) -> None:
    write(home, "bin/x")
    (home / "bin/link").symlink_to(target)
    assert (scan(home).unbound is None) is is_bound


def test_closed_folder_is_not_bound(home: Path) -> None:
    write(home, "a/b/c")
    (home / "a/b").chmod(0)
    unbound = scan(home).unbound
    (home / "a/b").chmod(0o700)
    assert unbound == (None if os.geteuid() == 0 else "a/b")


def test_crowded_home_is_scanned_partly_and_unbound(home: Path) -> None:
    for number in range(100):
        write(home, f"x/y{number % 10}/{number}")
    assert home_settings(home, "/tmp/home", max_entries=111).unbound is None
    settings = home_settings(home, "/tmp/home", max_entries=110)
    assert settings.unbound == "…"
    assert settings.digest == "unknown"


def test_names_cover_all_files_and_expand_top_folders(home: Path) -> None:
    write(home, ".curlrc")
    write(home, ".local/lib/python3.11/site-packages/requests/__init__.py")
    for number in range(40):
        write(home, f".npm/_cacache/content/{number}")
    assert scan(home).names == (
        ".curlrc",
        ".local/lib/python3.11/site-packages/requests/__init__.py",
        ".npm/_cacache/content/* (40)",
    )
    for number in range(100):
        write(home, f".x{number}")
    names = scan(home).names
    assert len(names) == 31
    assert names[-1].startswith("… (+")


def test_home_of_30_000_files_is_scanned_completely(home: Path) -> None:
    for number in range(1500):
        folder = home / f".local/lib/python3.11/site-packages/p{number // 10}/m{number % 10}"
        folder.mkdir(parents=True)
        for name in range(20):
            (folder / f"{name}.py").touch()
    settings = scan(home)
    assert settings.unbound is None
    assert settings.names == (".local/lib/python3.11/site-packages/* (30,000)",)


async def plan_of(tool: Exec, call: CallContext, command: str) -> tuple[object, ...]:
    args = {"command": command}
    plan = await tool.bind(await tool.plan(args, call), args, call)
    return plan.home_settings, plan.confinement, plan.unbound, bool(plan.prefixes)


async def confinement_of(tool: Exec, call: CallContext) -> str:
    return str((await plan_of(tool, call, "mkdir x"))[1])


async def test_command_that_changes_the_home_changes_the_next_binding(
    box: Bubblewrap, call: CallContext
) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    empty = await plan_of(tool, call, "mkdir x")
    names, confinement, unbound, has_prefix = empty
    assert (names, unbound, has_prefix) == ((), None, True)
    assert "home=" not in str(confinement)
    await tool.run({"command": "true"}, call)
    assert await plan_of(tool, call, "mkdir x") == empty
    await tool.run({"command": "echo proxy=evil.example > ~/.curlrc"}, call)
    names, confinement, unbound, has_prefix = await plan_of(tool, call, "mkdir x")
    assert (names, unbound, has_prefix) == ((".curlrc",), None, True)
    assert " home=" in str(confinement)
    await tool.run({"command": "echo proxy=worse.example > ~/.curlrc"}, call)
    assert (await plan_of(tool, call, "mkdir x"))[1] != confinement
    other = replace(call, environment=replace(call.environment, session="other"))
    assert await plan_of(tool, other, "mkdir x") == empty
    outside = {"command": "mkdir x", "outside": True, "reason": "why"}
    assert (await tool.bind(await tool.plan(outside, call), outside, call)).home_settings == ()
    await tool.run({"command": "mv ~/.curlrc ~/x; ln -s /proc/self/x ~/.curlrc"}, call)
    names, _, unbound, has_prefix = await plan_of(tool, call, "mkdir x")
    assert (names, unbound, has_prefix) == ((".curlrc (→ /proc/self/x)", "x"), ".curlrc", False)
    await tool.aclose()


async def test_home_is_not_scanned_without_an_approval(box: Bubblewrap, call: CallContext) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    await tool.run({"command": "mkfifo ~/.curlrc"}, call)
    plan = await tool.plan({"command": "mkdir x"}, call)
    assert (plan.home_settings, plan.confinement, plan.unbound) == ((), None, None)
    await tool.aclose()


async def test_changes_by_an_allowed_command_keep_the_approval(
    box: Bubblewrap, call: CallContext
) -> None:
    tool, allowed = Exec(replace(ToolSettings(), sandbox=box)), replace(call, is_allowed=True)
    empty = await confinement_of(tool, call)
    for number in range(3):
        build = f"mkdir -p ~/.cache/go-build/{number}/a/b; touch ~/.cache/go-build/{number}/a/b/x"
        await tool.run({"command": build}, allowed)
        assert await confinement_of(tool, call) == empty
    names = (await plan_of(tool, call, "mkdir x"))[0]
    assert names == tuple(f".cache/go-build/{number}/a/b/x" for number in range(3))
    await tool.run({"command": "touch ~/.cache/go-build/1/a/b/x"}, call)
    planted = await confinement_of(tool, call)
    assert planted != empty
    await tool.run({"command": "touch ~/.cache/go-build/1/a/b/y"}, allowed)
    assert await confinement_of(tool, call) == planted
    await tool.aclose()


async def test_changes_by_another_command_invalidate_the_approval(
    box: Bubblewrap, call: CallContext
) -> None:
    tool, allowed = Exec(replace(ToolSettings(), sandbox=box)), replace(call, is_allowed=True)
    empty = await confinement_of(tool, call)
    wait = "touch begun; while [ ! -e planted ]; do sleep 0.01; done"
    running = asyncio.create_task(tool.run({"command": wait}, allowed))
    async with asyncio.timeout(30):
        while not (call.workspace / "begun").exists():
            await asyncio.sleep(0.01)
    await tool.run({"command": "touch ~/.curlrc planted"}, call)
    await running
    assert await confinement_of(tool, call) != empty
    await tool.aclose()


async def test_home_is_scanned_once_between_two_commands(
    box: Bubblewrap, call: CallContext
) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    await tool.run({"command": "touch ~/.curlrc"}, call)
    earlier = await plan_of(tool, call, "mkdir x")
    spaces = tool.processes.spaces
    home, _ = box.home(spaces.folder(call.session))
    # Only commands change a home.
    write(home, ".npmrc")
    assert await plan_of(tool, call, "mkdir x") == earlier
    await tool.run({"command": "true"}, call)
    assert (await plan_of(tool, call, "mkdir x"))[0] == (".curlrc", ".npmrc")
    with spaces.command(call.session, creates_space=False):
        write(home, ".a")
        assert (await plan_of(tool, call, "mkdir x"))[0] == (".a", ".curlrc", ".npmrc")
        write(home, ".b")
        assert (await plan_of(tool, call, "mkdir x"))[0] == (".a", ".b", ".curlrc", ".npmrc")
    await tool.aclose()


async def test_commands_of_other_processes_count(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    settings = ToolSettings(sandbox=box, temporary_folder=tmp_path / "temporary")
    tool, other, allowed = Exec(settings), Exec(settings), replace(call, is_allowed=True)
    empty = await confinement_of(tool, call)
    await other.run({"command": "touch ~/.curlrc"}, call)
    planted = await confinement_of(tool, call)
    assert planted != empty
    await tool.run({"command": "touch ~/.cache"}, allowed)
    assert await confinement_of(tool, call) == planted
    with other.processes.spaces.command(call.session, creates_space=False):
        await tool.run({"command": "touch ~/.npmrc"}, allowed)
    assert await confinement_of(tool, call) != planted
    await asyncio.gather(tool.aclose(), other.aclose())


async def test_wider_sandbox_invalidates_the_approval(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    toolchains = Toolchains((tmp_path,), {"CARGO_HOME": str(tmp_path)})
    settings = replace(ToolSettings(), sandbox=box, limits=Limits())
    different = [
        settings,
        replace(settings, sandbox=replace(box, readable_folders=(tmp_path,))),
        replace(settings, sandbox=replace(box, limits=Limits(processes=9999))),
        replace(settings, sandbox=replace(box, toolchains=toolchains)),
        replace(settings, sandbox=ContainerSandbox("/usr/bin/docker", "image")),
        replace(settings, sandbox=ContainerSandbox("/usr/bin/docker", "other")),
        replace(settings, limits=None),
        replace(settings, limits=Limits(disk_bytes=1)),
        replace(settings, blocked_paths=()),
        replace(settings, off_limits=(tmp_path / "closed",)),
    ]
    confinements = {await confinement_of(Exec(settings), call) for settings in different}
    assert len(confinements) == len(different)
    # The path of the control group differs after each start.
    moved = replace(settings, sandbox=replace(box, groups=(tmp_path,)))
    assert await confinement_of(Exec(moved), call) in confinements


def test_sandbox_description_is_the_same_in_every_process() -> None:
    code = (
        "from agent.records import stable_repr; from agent.security.sandbox.bubblewrap import *; "
        "print(stable_repr(Bubblewrap('bwrap', frozenset(FEATURES), groups=())))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(outputs) == 1


async def test_landlock_home_is_in_the_temporary_folder(call: CallContext) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=Landlock(5)))
    empty = await plan_of(tool, call, "make")
    assert empty[0] == ()
    spaces = tool.processes.spaces
    folder = spaces.folder(call.session)
    with spaces.command(call.session, creates_space=False):
        write(folder, "tmp/leftover")
    assert await plan_of(tool, call, "make") == empty
    with spaces.command(call.session, creates_space=False):
        write(folder, "tmp/home/.npmrc")
    names, confinement, _, _ = await plan_of(tool, call, "make")
    assert names == (".npmrc",)
    assert str(confinement).startswith("landlock ")
    assert " home=" in str(confinement)
    await tool.aclose()


class Person:
    """A person who answers every question alike."""

    def __init__(self, answer: Answered) -> None:
        self._answer = answer

    async def ask(self, request: ApprovalRequest) -> Answered:
        return self._answer


@pytest.mark.parametrize(
    ("answer", "mode", "is_allowed"),
    [
        (Answered("once", "yes"), "ask", True),
        (Answered("always", "yes", scope="prefix"), "ask", True),
        (Answered("always", "hosts only", scope="network"), "auto", False),
    ],
)
async def test_command_counts_as_allowed_after_an_approval(
    answer: Answered, mode: PermissionMode, is_allowed: bool, box: Bubblewrap, call: CallContext
) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    empty = await confinement_of(tool, call)
    principal = PrincipalContext(built_in_roles()["build"], mode, is_confined=True)
    permissions = Permissions(RolePolicy(principal), Person(answer))
    runner = ToolRunner(ToolRegistry([tool]), permissions, timeout_s=60)
    args = {"command": "touch ~/.curlrc"}
    if answer.scope == "network":
        args["network"] = "example.org"
    owned = replace(call, environment=replace(call.environment, owner=True))
    context = replace(owned, call=ToolCall("c", "exec", args, "{}"))
    assert "exit code 0" in (await runner.run(context, _start)).for_model
    assert (await confinement_of(tool, call) == empty) is is_allowed
    await tool.aclose()


async def _start() -> None:
    pass
