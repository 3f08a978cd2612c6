"""Shell commands that the person runs by hand: output on screen and in the model's context."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from agent.security.redaction import Redactor
from agent.security.taint.file_marks import mark_tainted
from gateway.cli.console.chat.local_commands import shell_command_in
from gateway.cli.console.chat.shell_escape import Shell, UserCommand
from tests.processes import lasting_command, processes

DEADLINE_S = 30


def begin_command(
    folder: Path, line: str, *secrets: str, limit_bytes: int = 10_000
) -> tuple[UserCommand, list[str]]:
    seen: list[str] = []
    shell = Shell(folder, folder, limit_bytes, Redactor(frozenset(secrets)))
    return UserCommand(shell, line, seen.append), seen


async def test_output_and_exit_code_reach_person_and_model(tmp_path: Path) -> None:
    command, seen = begin_command(tmp_path, "pwd; echo wrong >&2; exit 3")
    await command.run()
    assert "".join(seen) == f"{tmp_path}\nwrong\n"
    assert (command.ending or "").startswith("exit code 3")
    assert command.context["text"].split("\n")[1:] == [
        "$ pwd; echo wrong >&2; exit 3",
        str(tmp_path),
        "wrong",
        "exit code 3",
    ]


async def test_command_inherits_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "of course")
    command, seen = begin_command(tmp_path, "echo $MINE")
    await command.run()
    assert seen == ["of course\n"]


async def test_secrets_are_redacted_for_person_and_model(tmp_path: Path) -> None:
    command, seen = begin_command(tmp_path, "echo sk-very4f9Qx2z7", "sk-very4f9Qx2z7")
    await command.run()
    assert "sk-very4f9Qx2z7" not in "".join(seen) + str(command.context)


async def test_long_output_is_cut_for_the_model_and_saved(tmp_path: Path) -> None:
    command, seen = begin_command(tmp_path, "seq 100000")
    await command.run()
    assert "".join(seen).endswith("99999\n100000\n")
    text = command.context["text"]
    assert len(text) < 12_000
    (spilled,) = (tmp_path / ".kore" / "spill").glob("*.txt")
    assert str(spilled) in text


async def test_stop_kills_the_process_group_and_is_reported(tmp_path: Path) -> None:
    lasts = lasting_command()
    command, seen = begin_command(tmp_path, f"{lasts} & echo begun; wait")
    work = asyncio.create_task(command.run())
    async with asyncio.timeout(DEADLINE_S):
        while not seen:
            await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.wait({work})
        while processes(lasts):
            await asyncio.sleep(0.01)
    assert work.cancelled()
    assert "stopped by the person" in command.context["text"]


@pytest.mark.parametrize(
    ("line", "marked", "taint"),
    [
        ("ls", False, ["private"]),
        ("ls", True, ["private", "untrusted"]),
        ("sh ./fetch", False, ["private", "untrusted"]),
    ],
)
async def test_output_of_networked_commands_is_untrusted(
    tmp_path: Path, line: str, marked: bool, taint: list[str]
) -> None:
    if marked:
        try:
            os.setxattr(tmp_path, "user.kore.try", b"1")
        except OSError:
            pytest.skip("this file system keeps no marks")
        mark_tainted(tmp_path, tmp_path)
    command, _ = begin_command(tmp_path, line)
    await command.run()
    assert command.context["taint"] == taint


async def test_missing_folder_is_reported(tmp_path: Path) -> None:
    command, _ = begin_command(tmp_path / "gone", "ls")
    await command.run()
    assert "could not be started" in (command.ending or "")


async def test_command_does_not_run_in_a_link_that_replaced_the_folder(tmp_path: Path) -> None:
    workspace, private = tmp_path / "repo", tmp_path / "private"
    for folder in (workspace / "sub", private):
        folder.mkdir(parents=True)
    shell = Shell(workspace, workspace / "sub", 10_000, Redactor())
    await UserCommand(shell, "touch here", print).run()
    assert (workspace / "sub" / "here").exists()
    (workspace / "sub").rename(workspace / "moved")
    (workspace / "sub").symlink_to(private)
    command = UserCommand(shell, "touch build", print)
    await command.run()
    assert "no longer the folder that was chosen" in (command.ending or "")
    assert not list(private.iterdir())
    assert not (workspace / "build").exists()


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("!ls -la", "ls -la"),
        ("! ls", "ls"),
        ("!", None),
        ("ls", None),
        ("!tool exec {}", None),
        ("!toolbox", "toolbox"),
        ("![picture](x.png)", None),
    ],
)
def test_shell_escape_lines_are_recognized(line: str, command: str | None) -> None:
    assert shell_command_in(line) == command


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_person_may_delete_repositories(tmp_path: Path) -> None:
    command, _ = begin_command(tmp_path, "git init -q . && test -e .git/HEAD")
    await command.run()
    command, _ = begin_command(tmp_path, "folder=.git; rm -rf $folder")
    await command.run()
    assert not (tmp_path / ".git").exists()
