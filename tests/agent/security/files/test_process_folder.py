"""Folders of processes: a new process removes the folders of killed processes and no others."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.security.files.private_folder import ProcessFolder

OTHER = (
    "import sys\n"
    "from agent.security.files.private_folder import ProcessFolder\n"
    "folder = ProcessFolder('kore-try-')\n"
    "deep = folder.path() / 'a' / 'b'\n"
    "deep.mkdir(parents=True)\n"
    "(deep / 'file').write_text('x')\n"
    "print(folder.path(), flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@contextmanager
def other_process() -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        yield Path(process.stdout.readline().strip()), process


def test_folder_of_a_killed_process_is_removed_and_of_a_live_one_kept(
    temporary: Path,
) -> None:
    with other_process() as (dead, killed), other_process() as (alive, _):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        own = ProcessFolder("kore-try-")
        assert dead.is_dir()
        own.path()
        assert sorted(temporary.iterdir()) == sorted([alive, own.path()])
        assert (alive / "a" / "b" / "file").read_text() == "x"
    # The other process has ended normally.
    assert list(temporary.iterdir()) == [own.path()]
    own.close()
    assert list(temporary.iterdir()) == []
    assert own.path().is_dir()
    own.close()


def test_foreign_and_shared_folders_are_kept(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    (temporary / "kore-try-link").symlink_to(elsewhere)
    (temporary / "kore-try-file").write_text("x")
    shared = temporary / "kore-try-shared"
    shared.mkdir()
    shared.chmod(0o777)
    (temporary / "kore-other-1").mkdir(mode=0o700)
    abandoned = temporary / "kore-try-old"
    abandoned.mkdir(mode=0o700)
    (abandoned / "link").symlink_to(elsewhere)
    own = ProcessFolder("kore-try-")
    own.path()
    assert not abandoned.exists()
    names = {"elsewhere", "kore-try-link", "kore-try-file", "kore-try-shared", "kore-other-1"}
    assert set(os.listdir(temporary)) == {*names, own.path().name}
    assert (elsewhere / "mine").read_text() == "x"
    own.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_folder_of_another_user_is_kept(temporary: Path) -> None:
    foreign = temporary / "kore-try-foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 65534, 65534)
    own = ProcessFolder("kore-try-")
    own.path()
    assert foreign.exists()
    own.close()
