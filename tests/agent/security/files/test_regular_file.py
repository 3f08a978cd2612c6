"""Reading of regular files only; files that could block Kore are rejected immediately."""

import os
import socket
from pathlib import Path

import pytest

from agent.security.files.safe_open import (
    NotRegularFile,
    open_regular,
    open_regular_beneath,
    read_regular,
)


def test_beginning_of_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"0123456789")
    assert read_regular(file, 4) == b"0123"
    assert read_regular(str(file), 100) == b"0123456789"


def test_link_is_followed_if_allowed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "link").symlink_to("a")
    assert read_regular(tmp_path / "link", 10) == b"x"
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(tmp_path / "link", 10, follow_links=False)
    with pytest.raises(OSError, match="symbolic links"):
        open_regular_beneath(tmp_path / "link")


def test_opening_a_pipe_does_not_block(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to("pipe")
    for path in (pipe, tmp_path / "link"):
        with pytest.raises(NotRegularFile):
            open_regular(path)
    with pytest.raises(NotRegularFile):
        open_regular_beneath(pipe)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/tty", "/proc/self/environ", "/"])
def test_devices_folders_and_kernel_views_are_rejected(path: str) -> None:
    with pytest.raises(OSError, match=r"\w"):
        read_regular(path, 10)


def test_socket_is_rejected(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match=r"\w"):
            read_regular(tmp_path / "s", 10)


def test_rejection_leaves_no_descriptor_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(NotRegularFile):
            open_regular(tmp_path / "pipe")
    assert len(os.listdir("/proc/self/fd")) == before
