import asyncio
import os
import threading
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.files import file_io


def test_a_folder_that_became_a_link_leads_nowhere(tmp_path: Path) -> None:
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


def test_a_file_that_became_a_link_or_a_pipe_is_refused(tmp_path: Path) -> None:
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


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ToolError):
        file_io.write_atomic(tmp_path / "folder", b"x")
    assert os.listdir(tmp_path) == ["folder"]


async def test_cancelled_work_is_settled_before_the_caller_goes_on() -> None:
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


def test_a_file_with_several_names_is_never_changed_in_place(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("old")
    os.link(tmp_path / "outside", tmp_path / "inside")
    with pytest.raises(ToolError, match="several names"):
        file_io.append(tmp_path / "inside", b"x")
    file_io.write_atomic(tmp_path / "inside", b"new")
    assert (tmp_path / "outside").read_text() == "old"
    assert (tmp_path / "inside").read_text() == "new"


def test_a_private_file_with_several_names_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    os.link(tmp_path / "outside", tmp_path / "inside")
    (tmp_path / "outside").chmod(0o644)
    assert file_io.read(tmp_path / "inside", 100) == b"secret"
    (tmp_path / "outside").chmod(0o600)
    with pytest.raises(ToolError, match="several names"):
        file_io.read(tmp_path / "inside", 100)


def test_new_content_gets_no_other_rights(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("old")
    (tmp_path / "tool").chmod(0o6755)
    file_io.write_atomic(tmp_path / "tool", b"new")
    assert (tmp_path / "tool").stat().st_mode & 0o7777 == 0o755
