"""Toolchains of version managers in a sandbox."""

from dataclasses import replace
from pathlib import Path

from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.environment import find_toolchains
from agent.tools.shell.process_group import run
from tests.agent.tools.bubblewrap import installed_bubblewrap


async def test_toolchain_runs_and_its_login_is_hidden(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cargo" / "credentials.toml").write_text("token")
    (home / ".rustup").mkdir()
    (home / ".rustup" / "settings.toml").write_text("version")
    program = home / ".cargo" / "bin" / "hello"
    program.write_text('#!/bin/sh\ncat "$RUSTUP_HOME/settings.toml"; ls "$HOME_HERE/.cargo"')
    program.chmod(0o755)
    box = replace(installed_bubblewrap(), toolchains=find_toolchains(home))
    line = f"HOME_HERE={home} {program}; echo x > {program}"
    output = bytearray()
    with box.prepare(SandboxCommand(line, workspace, workspace)) as spawn:
        await run(spawn, 20, output.extend)
    text = output.decode()
    assert "versionbin\n" in text
    assert "Read-only file system" in text


def test_home_without_toolchains_has_none(tmp_path: Path) -> None:
    toolchains = find_toolchains(tmp_path)
    assert toolchains.folders == ()
    assert toolchains.variables == {}
