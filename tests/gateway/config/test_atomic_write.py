"""Atomic file writes, and removal of the temporary files of killed writers."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.config.atomic_write import remove_unfinished, write_atomic
from gateway.config.editing import ConfigEdit
from gateway.config.load import Sources
from gateway.config.references import read_secrets

# Kills itself with SIGKILL once the new file is complete, before the rename.
KILLED = (
    "import os, signal, sys\n"
    "from pathlib import Path\n"
    "from gateway.config.atomic_write import write_atomic\n"
    "def end(event, args):\n"
    "    if event == 'os.rename':\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n"
    "sys.addaudithook(end)\n"
    "write_atomic(Path(sys.argv[1]), 'never')\n"
)


def kill_while_writing(file: Path) -> Path:
    """Return the temporary file that the killed writer leaves behind."""
    before = set(file.parent.iterdir())
    assert subprocess.run([sys.executable, "-c", KILLED, file]).returncode == -signal.SIGKILL
    (left,) = set(file.parent.iterdir()) - before
    return left


def test_next_write_removes_leftovers_of_a_killed_write(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("old")
    left = kill_while_writing(file)
    assert (file.read_text(), left.read_text()) == ("old", "never")
    of_another_file = kill_while_writing(tmp_path / "secrets.json")
    write_atomic(file, "new")
    assert file.read_text() == "new"
    assert set(tmp_path.iterdir()) == {file, of_another_file}
    remove_unfinished(tmp_path)
    assert set(tmp_path.iterdir()) == {file}


def test_links_other_names_and_files_being_written_are_not_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".config.json.0123abcd.new").symlink_to(outside)
    os.mkfifo(folder / ".config.json.1123abcd.new")
    for name in (".config.json.new", "config.json.0123abcd.new", ".config.json.0123abcg.new"):
        (folder / name).write_text("")
    (folder / ".config.json.3123abcd.new").mkdir()
    in_use = folder / ".config.json.2123abcd.new"
    with in_use.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = set(folder.iterdir())
        remove_unfinished(folder)
        assert set(folder.iterdir()) == before
    remove_unfinished(folder)
    assert before - set(folder.iterdir()) == {in_use}
    assert outside.read_text() == "mine"


WRITE = (
    "import sys\n"
    "from pathlib import Path\n"
    "from gateway.config.atomic_write import write_atomic\n"
    "write_atomic(Path(sys.argv[1]), 'new')\n"
)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("root", ["--bind", "--ro-bind"])
def test_bind_mounted_file_is_written(tmp_path: Path, root: str) -> None:
    mounted, file = tmp_path / "mounted.json", tmp_path / "home" / "config.json"
    file.parent.mkdir()
    file.write_text("")
    mounted.write_text("old, and longer")
    mounts = (root, "/", "/", "--dev", "/dev", "--bind", str(mounted), str(file))
    done = subprocess.run(["bwrap", *mounts, sys.executable, "-c", WRITE, str(file)], check=False)
    assert done.returncode == 0
    assert mounted.read_text() == "new"
    assert list(file.parent.iterdir()) == [file]


def test_failed_write_stores_no_secret(tmp_path: Path) -> None:
    sources = Sources(None, tmp_path, tmp_path, {})
    (tmp_path / "secrets.json").write_text('{"OLD": "1"}')
    (tmp_path / "secrets.json").chmod(0o600)
    edit = ConfigEdit(tmp_path / "missing" / "config.json", "{}", {"OLD": "2", "NEW": "3"})
    with pytest.raises(ConfigError):
        edit.write(sources)
    assert read_secrets(tmp_path / "secrets.json") == {"OLD": "1"}
