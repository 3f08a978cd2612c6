"""Folders that a server's sandbox shows so that its program can run."""

import os
from pathlib import Path

import pytest

from agent.mcp.settings import ArgumentReach, McpServerSettings
from agent.mcp.stdio import program_folders
from agent.tools.shell.program_folders import (
    folders_of_command,
    folders_of_program,
    interpreter_of,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home folder with an interpreter and a virtual environment.

    The interpreter has its library next to it, as under pyenv and uv. The environment contains a
    script that it runs.
    """
    home = tmp_path / "home"
    for name in ("versions/3/bin", "versions/3/lib", "versions/3/share", "tools/bin", "notes"):
        (home / name).mkdir(parents=True)
    (home / "versions/3/bin/python3").touch(0o755)
    (home / "tools/pyvenv.cfg").touch()
    (home / "tools/bin/python").symlink_to(home / "versions/3/bin/python3")
    (home / "tools/bin/server").write_text(f"#!{home}/tools/bin/python\n")
    (home / "tools/bin/server").chmod(0o755)
    return home


def test_interpreter_includes_its_library(home: Path) -> None:
    """The interpreter is a link out of its environment and needs the folders next to its target."""
    folders = folders_of_program(home / "tools/bin/python", [home])
    assert folders == [home / "tools", home / "versions/3/bin", home / "versions/3/lib"]


def test_script_includes_its_interpreter(home: Path) -> None:
    folders = folders_of_command((str(home / "tools/bin/server"),), [home], lambda path: True)
    assert folders == (home / "tools", home / "versions/3/bin", home / "versions/3/lib")


def test_library_with_a_protected_folder_is_excluded(home: Path) -> None:
    closed = home / "versions/3/lib/private"
    assert home / "versions/3/lib" not in folders_of_program(home / "tools/bin/python", [closed])


def test_lib_in_the_home_folder_is_excluded(home: Path) -> None:
    for name in ("bin", "lib"):
        (home / name).mkdir()
    (home / "bin/tool").touch(0o755)
    assert folders_of_program(home / "bin/tool", [home]) == [home / "bin"]


def test_script_in_the_home_folder_is_shown_alone(home: Path) -> None:
    script, key, own = home / "server.py", home / ".netrc", home / "config.json"
    for path in (script, key, own, home / "other.txt"):
        path.touch()
    words = tuple(map(str, (script, key, own)))
    server = McpServerSettings("x", "/usr/bin/env", words)
    shown = [path for path in program_folders(server, home, [own]) if path.is_relative_to(home)]
    assert shown == [script]


def test_interpreter_of_an_untrusted_script_is_excluded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "notes/diary").touch(0o755)
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "server").write_text(f"#!{home}/notes/diary\n")
    (plugin / "server").chmod(0o755)
    reach = ArgumentReach(plugin)
    theirs = McpServerSettings("x", str(plugin / "server"), reach=reach)
    assert program_folders(theirs, home) == (plugin,)
    # A script installed on the machine is trusted.
    monkeypatch.setenv("PATH", str(home / "tools/bin"))
    folders = program_folders(McpServerSettings("x", "server", reach=reach), home)
    assert folders == (plugin, home / "tools", home / "versions/3/bin", home / "versions/3/lib")


def test_pipe_as_a_program_has_no_interpreter(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "program")
    assert interpreter_of(str(tmp_path / "program")) is None


def test_interpreter_of_the_machine_adds_no_folder(tmp_path: Path) -> None:
    """The folder /bin is a link on many machines, and already visible."""
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\n")
    folders = folders_of_command([str(script)], [], lambda path: True)
    assert Path("/bin") not in folders
    assert folders[0] == tmp_path
