"""Settings that a command leaves in its home are named in questions, and bind their answers."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from agent.tools.shell.home_settings import home_settings


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


def test_an_empty_home_has_no_settings(home: Path, tmp_path: Path) -> None:
    write(home, "notes.txt")
    write(home, "go/pkg/x")
    write(home, ".cache/pip/x")
    write(home, ".npm/_cacache/index/x")
    (home / ".config").mkdir()
    nothing = home_settings(tmp_path / "missing")
    assert home_settings(home) == home_settings(tmp_path / "a" / "b") == nothing
    assert (nothing.names, nothing.digest, nothing.unbound) == ((), "", None)


@pytest.mark.parametrize(
    "path",
    [
        *(".curlrc", ".gitconfig", ".npmrc", ".netrc", ".a-program-that-nobody-knows"),
        *(".config/git/config", ".config/pip/pip.conf", ".pip/pip.conf", ".ssh/config"),
        *(".gradle/init.d/x.gradle", ".local/lib/python3.12/site-packages/x.pth"),
    ],
)
def test_each_change_of_a_setting_changes_the_digest(home: Path, path: str) -> None:
    file = write(home, path)
    first = home_settings(home)
    assert first.names == (path,)
    assert first.unbound is None
    times = file.stat()
    write(home, path, "y")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = home_settings(home)
    file.unlink()
    assert len({first.digest, second.digest, home_settings(home).digest}) == 3
    assert home_settings(home).names == ()


def test_a_large_file_is_bound_by_its_times(home: Path) -> None:
    file = write(home, ".big", "x" * 300_000)
    first, times = home_settings(home), file.stat()
    file.write_text("y" * 300_000)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert home_settings(home).digest != first.digest


def test_what_cannot_be_bound_is_named(home: Path, tmp_path: Path) -> None:
    secret = write(tmp_path, "outside/secret")
    (home / ".curlrc").symlink_to(secret)
    settings = home_settings(home)
    assert settings.names[0].startswith(".curlrc (→ /")
    assert settings.unbound == ".curlrc"
    (home / ".curlrc").unlink()
    os.mkfifo(home / ".netrc")
    assert home_settings(home).unbound == ".netrc"
    (home / ".netrc").unlink()
    (home / ".config").symlink_to(secret.parent)
    assert home_settings(home).unbound == ".config"
    (home / ".config").unlink()
    home.rmdir()
    home.symlink_to(secret.parent)
    assert home_settings(home).unbound == "~"


def test_a_crowded_home_is_looked_at_in_part_and_bound_to_nothing(home: Path) -> None:
    for number in range(2100):
        write(home, f"x{number}")
    assert home_settings(home).unbound is None
    for number in range(2100):
        (home / f".x{number}").touch()
    settings = home_settings(home)
    assert settings.unbound == "…"
    assert len(settings.names) == 31
    assert settings.names[-1].startswith("… (+")


async def plan_of(tool: Exec, call: CallContext, command: str) -> tuple[object, ...]:
    plan = await tool.plan({"command": command}, call)
    return plan.home_settings, plan.confinement, plan.unbound, plan.prefix is not None


async def test_a_command_changes_the_plan_of_a_later_one(
    box: Bubblewrap, call: CallContext
) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    empty = ((), "bwrap", None, True)
    assert await plan_of(tool, call, "mkdir x") == empty
    await tool.run({"command": "true"}, call)
    assert await plan_of(tool, call, "mkdir x") == empty
    await tool.run({"command": "echo proxy=evil.example > ~/.curlrc"}, call)
    names, confinement, unbound, has_prefix = await plan_of(tool, call, "mkdir x")
    assert (names, unbound, has_prefix) == ((".curlrc",), None, True)
    assert str(confinement).startswith("bwrap home=")
    await tool.run({"command": "echo proxy=worse.example > ~/.curlrc"}, call)
    assert (await plan_of(tool, call, "mkdir x"))[1] != confinement
    other = replace(call, environment=replace(call.environment, session="other"))
    assert await plan_of(tool, other, "mkdir x") == empty
    outside = {"command": "mkdir x", "outside": True, "reason": "why"}
    assert (await tool.plan(outside, call)).home_settings == ()
    await tool.run({"command": "mv ~/.curlrc ~/x; ln -s ~/x ~/.curlrc"}, call)
    names, _, unbound, has_prefix = await plan_of(tool, call, "mkdir x")
    assert (names, unbound, has_prefix) == ((".curlrc (→ /tmp/home/x)",), ".curlrc", False)
    await tool.aclose()


async def test_the_home_under_landlock_is_the_temporary_folder(call: CallContext) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=Landlock(5)))
    assert await plan_of(tool, call, "make") == ((), "landlock", None, False)
    folder = tool.processes.spaces.folder(call.session)
    assert await plan_of(tool, call, "make") == ((), "landlock", None, False)
    write(folder, "tmp/.npmrc")
    names, confinement, _, _ = await plan_of(tool, call, "make")
    assert names == (".npmrc",)
    assert str(confinement).startswith("landlock home=")
    await tool.aclose()
