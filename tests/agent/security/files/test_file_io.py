import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.files import file_io


def test_folder_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    outside.mkdir()
    (outside / "f").write_text("secret")
    inside.symlink_to(outside)
    for work in (
        lambda: file_io.read(inside / "f", 100),
        lambda: file_io.write_atomic(inside / "f", b"x"),
        lambda: file_io.append(inside / "f", b"x"),
    ):
        with pytest.raises(ToolError):
            work()
    assert (outside / "f").read_text() == "secret"
    assert os.listdir(outside) == ["f"]


def test_file_replaced_by_a_link_or_pipe_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(ToolError):
            file_io.read(tmp_path / name, 100)
        with pytest.raises(ToolError):
            file_io.write_atomic(tmp_path / name, b"x")
        with pytest.raises(ToolError):
            file_io.append(tmp_path / name, b"x")
    assert (tmp_path / "target").read_text() == "secret"


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ToolError):
        file_io.write_atomic(tmp_path / "folder", b"x")
    assert os.listdir(tmp_path) == ["folder"]


async def test_cancelled_work_finishes_before_the_caller_continues() -> None:
    started, release = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        started.set()
        assert release.wait(10)
        done.append("written")

    task = asyncio.create_task(file_io.in_thread(work))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["written"]


def test_file_with_several_names_is_never_changed_in_place(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("old")
    os.link(tmp_path / "outside", tmp_path / "inside")
    with pytest.raises(ToolError, match="several names"):
        file_io.append(tmp_path / "inside", b"x")
    file_io.write_atomic(tmp_path / "inside", b"new")
    assert (tmp_path / "outside").read_text() == "old"
    assert (tmp_path / "inside").read_text() == "new"


def test_private_file_with_several_names_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    os.link(tmp_path / "outside", tmp_path / "inside")
    (tmp_path / "outside").chmod(0o644)
    assert file_io.read(tmp_path / "inside", 100) == b"secret"
    (tmp_path / "outside").chmod(0o600)
    with pytest.raises(ToolError, match="several names"):
        file_io.read(tmp_path / "inside", 100)


def test_atomic_write_drops_set_id_bits(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("old")
    (tmp_path / "tool").chmod(0o6755)
    file_io.write_atomic(tmp_path / "tool", b"new")
    assert (tmp_path / "tool").stat().st_mode & 0o7777 == 0o755


def test_concurrent_processes_lose_no_write(tmp_path: Path) -> None:
    file = tmp_path / "MEMORY.md"
    file.write_text("")
    script = (
        "import pathlib, sys\n"
        "from agent.security.files.file_io import exclusive_file, write_atomic\n"
        "path, name = pathlib.Path(sys.argv[1]), sys.argv[2]\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "for number in range(300):\n"
        "    with exclusive_file(path):\n"
        "        write_atomic(path, path.read_bytes() + f'{name} {number}\\n'.encode())\n"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", script, file, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("one", "other")
    ]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
    for other in others:
        assert other.stdin is not None
        other.stdin.write(b"\n")
        other.stdin.flush()
    for other in others:
        other.communicate(timeout=60)
    assert len(file.read_text().splitlines()) == 600


def test_file_locked_by_a_command_is_written(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    with file.open() as wrapper:
        fcntl.flock(wrapper, fcntl.LOCK_EX)
        with file_io.exclusive_file(file, timeout_s=0.05):
            file.write_text("new")
    assert file.read_text() == "new"
