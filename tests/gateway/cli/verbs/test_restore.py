"""Restoring a backup in place of the current data."""

import json
import os
import pty
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.security.taint.file_marks import (
    SINCE,
    is_marked,
    is_name_marked,
    is_unseen,
    mark_level,
    mark_tainted,
    note_earliest,
)
from gateway.runtime.lock import acquire
from gateway.runtime.paths import DataDir
from tests import postgres_server
from tests.deep_folders import LEVELS, deep_folders, depth_of, remove
from tests.gateway import stored
from tests.gateway.cli.kore import kore
from tests.postgres_server import only_sqlite

OFFLINE = {"KORE_AGENT_MODEL": "offline/echo"}


def say(home: Path, text: str) -> None:
    result = kore("agent", "-m", text, home=home, environ=OFFLINE)
    assert result.returncode == 0, result.stderr


def texts(home: Path) -> str:
    return "".join(text for (text,) in stored.read_file(home / "kore.db", "message", "content"))


def test_backup_in_the_workspace_excludes_itself(tmp_path: Path) -> None:
    home = tmp_path / "h"
    say(home, "hello")
    # The file is packed before the backup's own parts, and does not compress.
    (home / "workspace" / ".a").write_bytes(os.urandom(300_000))
    result = kore("backup", home / "workspace" / "b.zip", home=home)
    assert result.returncode == 0, result.stderr
    with zipfile.ZipFile(home / "workspace" / "b.zip") as archive:
        names = archive.namelist()
    assert "workspace/.a" in names
    assert [name for name in names if "b.zip" in name] == []


@contextmanager
def in_use(home: Path) -> Iterator[None]:
    with acquire(DataDir(home).lock, "kore gateway"):
        yield


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a home that was used after its backup, and that backup."""
    folder = tmp_path_factory.mktemp("kore")
    home, target = folder / "h", folder / "all.zip"
    say(home, "before the backup")
    kore("config", "set", "http.port", "0", home=home)
    (home / "workspace" / "run.sh").write_text("#!/bin/sh\n")
    (home / "workspace" / "run.sh").chmod(0o755)
    (home / "channels" / "matrix" / "keys").mkdir(parents=True)
    (home / "channels" / "matrix" / "keys" / "device").write_text("of the backup")
    result = kore("backup", target, "--json", home=home)
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["counts"]["conversations"] == 1
    assert facts["counts"]["messages"] == 2
    assert target.stat().st_mode & 0o777 == 0o600
    return home, target


@only_sqlite
def test_everything_is_restored_and_previous_files_are_kept(
    backed_up: tuple[Path, Path], tmp_path: Path
) -> None:
    home, target = tmp_path / "h", backed_up[1]
    say(home, "something else")
    kore("config", "set", "http.port", "99", home=home)
    (home / "workspace" / "AGENT.md").write_text("changed")
    result = kore("restore", target, "--yes", "--json", home=home)
    assert result.returncode == 0, result.stderr
    assert "before the backup" in texts(home)
    assert "something else" not in texts(home)
    assert json.loads((home / "config.json").read_text()) == {"http": {"port": 0}}
    assert os.access(home / "workspace" / "run.sh", os.X_OK)
    previous_paths = [Path(path) for path in json.loads(result.stdout)["kept"]]
    assert all(path.exists() for path in previous_paths)
    (old,) = (path for path in previous_paths if path.suffix == ".db")
    assert "something else" in str(stored.read_file(old, "message", "content"))
    (workspace,) = (path for path in previous_paths if path.is_dir())
    assert (workspace / "AGENT.md").read_text() == "changed"
    say(home, "and on")
    assert not list(home.glob(".restore-*"))


@only_sqlite
def test_channel_files_are_restored_and_previous_ones_kept(
    backed_up: tuple[Path, Path], tmp_path: Path
) -> None:
    home, target = tmp_path / "h", backed_up[1]
    for round_number in range(2):
        result = kore("restore", target, "--yes", "--json", home=home)
        assert result.returncode == 0, result.stderr
        previous_paths = [Path(path) for path in json.loads(result.stdout)["kept"]]
        asides = [path for path in previous_paths if path.name.startswith("channels.")]
        assert len(asides) == round_number
        device = home / "channels" / "matrix" / "keys" / "device"
        assert device.read_text() == "of the backup"
        assert (home / "channels").stat().st_mode & 0o777 == 0o700
        device.write_text("used")
    assert (asides[0] / "matrix" / "keys" / "device").read_text() == "used"


@only_sqlite
def test_partly_copied_channel_files_are_removed_at_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "h"
    say(home, "here")
    (home / "channels").mkdir()
    (home / ".channels.restore-1" / "matrix").mkdir(parents=True)
    say(home, "and on")
    assert not (home / ".channels.restore-1").exists()
    assert list((home / "channels").iterdir()) == []


@pytest.fixture(scope="module")
def marked_backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a backup of a workspace with every kind of taint mark."""
    folder = tmp_path_factory.mktemp("kore")
    home = folder / "h"
    say(home, "hello")
    workspace = home / "workspace"
    for name in ("mine.md", "clean/mine.md", "notes/page.md", "obey me/mine.md"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(name)
    mark_tainted(workspace / "notes" / "page.md", workspace)
    mark_tainted(workspace / "AGENT.md", workspace, unseen=True)
    mark_tainted(workspace / "obey me", workspace, unseen=True)
    if not is_marked(workspace):
        pytest.skip("this file system keeps no extended attributes")
    # As after a killed command: every later change counts as tainted.
    (workspace / "later.md").write_text("later")
    (workspace / "clean" / "mine.md").chmod(0o640)
    note_earliest(workspace, SINCE, (workspace / "later.md").lstat().st_ctime)
    result = kore("backup", folder / "all.zip", home=home)
    assert result.returncode == 0, result.stderr
    return folder / "all.zip"


@only_sqlite
def test_restored_files_have_their_marks(marked_backup: Path, tmp_path: Path) -> None:
    home = tmp_path / "h"
    result = kore("restore", marked_backup, "--yes", home=home)
    assert result.returncode == 0, result.stderr
    assert "untrusted" not in result.stderr
    workspace = home / "workspace"
    names = ("mine.md", "notes/page.md", "AGENT.md", "later.md", "clean/mine.md", "obey me/mine.md")
    levels = {name: mark_level(workspace / name) for name in names}
    assert levels == {
        "mine.md": "none",
        "notes/page.md": "seen",
        "AGENT.md": "unseen",
        "later.md": "unseen",
        "clean/mine.md": "unseen",
        "obey me/mine.md": "none",
    }
    assert is_name_marked(workspace / "obey me")
    assert is_marked(workspace)


@only_sqlite
def test_backup_without_marks_is_untrusted(marked_backup: Path, tmp_path: Path) -> None:
    home, other = tmp_path / "h", tmp_path / "other.zip"
    with zipfile.ZipFile(marked_backup) as archive, zipfile.ZipFile(other, "w") as repacked:
        for entry in archive.infolist():
            repacked.writestr(entry.filename, archive.read(entry))
    result = kore("restore", other, "--yes", home=home)
    assert result.returncode == 0, result.stderr
    workspace = home / "workspace"
    assert f"kore trust {workspace}" in result.stderr
    assert is_unseen(workspace / "mine.md")
    assert is_marked(workspace)
    assert kore("trust", workspace, "--yes", home=home).returncode == 0
    assert not is_marked(workspace / "mine.md")


@only_sqlite
def test_single_file_restores_only_the_database(tmp_path: Path) -> None:
    home = tmp_path / "h"
    say(home, "first")
    copy = tmp_path / "copy.db"
    result = kore("backup", copy, home=home)
    assert "verified: 1 conversation, 2 messages" in result.stdout
    say(home, "second")
    (home / "workspace" / "mine.txt").write_text("kept")
    assert kore("restore", copy, "--yes", home=home).returncode == 0
    assert "second" not in texts(home)
    assert (home / "workspace" / "mine.txt").read_text() == "kept"


def test_restore_is_rejected_while_kore_runs(backed_up: tuple[Path, Path], tmp_path: Path) -> None:
    home = tmp_path / "h"
    say(home, "here")
    with in_use(home):
        result = kore("restore", backed_up[1], "--yes", home=home)
    assert result.returncode == 75
    assert "in use by kore gateway" in result.stderr
    assert "here" in texts(home)


@only_sqlite
def test_unconfirmed_restore_changes_nothing(backed_up: tuple[Path, Path], tmp_path: Path) -> None:
    home = tmp_path / "h"
    say(home, "here")
    result = kore("restore", backed_up[1], home=home)
    assert (result.returncode, "nothing was restored" in result.stderr) == (1, True)
    assert "here" in texts(home)


def test_damaged_database_is_rejected_before_anything_is_replaced(
    backed_up: tuple[Path, Path], tmp_path: Path
) -> None:
    home, environ = tmp_path / "h", {"KORE_STORE_URL": postgres_server.create_database()}
    assert kore("agent", "-m", "here", home=home, environ=OFFLINE | environ).returncode == 0
    kore("config", "set", "http.port", "99", home=home)
    result = kore("restore", backed_up[1], "--yes", home=home, environ=environ)
    assert (result.returncode, "is not empty" in result.stderr) == (1, True)
    assert json.loads((home / "config.json").read_text()) == {"http": {"port": 99}}
    assert not (home / "backups").exists()


@pytest.mark.parametrize("harm", ["cut", "other", "newer", "climbing"])
def test_incomplete_backup_is_rejected_and_changes_nothing(
    backed_up: tuple[Path, Path], tmp_path: Path, harm: str
) -> None:
    home, bad = tmp_path / "h", tmp_path / "bad.db"
    say(home, "here")
    with zipfile.ZipFile(backed_up[1]) as archive:
        whole = archive.read("kore.db")
    if harm == "cut":
        bad.write_bytes(whole[: len(whole) // 2])
    elif harm == "other":
        with closing(sqlite3.connect(bad)) as connection:
            connection.execute("CREATE TABLE cat (name TEXT)")
    elif harm == "newer":
        bad.write_bytes(whole)
        with closing(sqlite3.connect(bad)) as connection:
            connection.execute("PRAGMA user_version = 9999")
    else:
        with zipfile.ZipFile(bad, "w") as archive:
            archive.writestr("kore.db", whole)
            archive.writestr("workspace/../../x", "out")
    result = kore("restore", bad, "--yes", home=home)
    assert result.returncode == 1, result.stderr
    assert "here" in texts(home)
    assert not (tmp_path / "x").exists()


def test_error_names_the_backup_path_as_given(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database")
    result = kore("restore", tmp_path / "notes.txt", "--yes", home=tmp_path / "h")
    assert result.returncode == 1
    assert result.stderr.startswith(f"kore: {tmp_path}/notes.txt is not a complete database")


@only_sqlite
def test_invalid_configuration_is_rejected_before_anything_is_replaced(
    backed_up: tuple[Path, Path], tmp_path: Path
) -> None:
    home, bad = tmp_path / "h", tmp_path / "bad.zip"
    say(home, "here")
    (home / "config.json").write_text("{}")
    with zipfile.ZipFile(backed_up[1]) as archive, zipfile.ZipFile(bad, "w") as copy:
        copy.writestr("kore.db", archive.read("kore.db"))
        copy.writestr("config.json", '{"http": {"port": "none"}}')
    result = kore("restore", bad, "--yes", home=home)
    assert result.returncode == 2
    assert "http.port" in result.stderr
    assert "nothing was restored" in result.stderr
    assert (home / "config.json").read_text() == "{}"
    assert "here" in texts(home)
    assert kore("restore", bad, "--yes", "--database-only", home=home).returncode == 0


@only_sqlite
@pytest.mark.parametrize("by", ["variable", "flag"])
def test_selected_configuration_is_backed_up(tmp_path: Path, by: str) -> None:
    home, mine, target = tmp_path / "h", tmp_path / "mine.json", tmp_path / "all.zip"
    environ = {"KORE_CONFIG": str(mine)} if by == "variable" else {}
    flags = [] if by == "variable" else ["--config", str(mine)]
    say(home, "hello")
    (home / "config.json").write_text('{"http": {"port": 1}}')
    mine.write_text('{"http": {"port": 2}}')
    result = kore(*flags, "backup", target, home=home, environ=environ)
    assert f"config.json ({mine})" in result.stdout, result.stderr
    mine.write_text('{"http": {"port": 3}}')
    result = kore(*flags, "restore", target, "--yes", home=home, environ=environ)
    assert result.returncode == 0, result.stderr
    assert json.loads(mine.read_text()) == {"http": {"port": 2}}
    assert json.loads((home / "config.json").read_text()) == {"http": {"port": 1}}
    (aside,) = (home / "backups").glob("before-restore-*-config.json")
    assert json.loads(aside.read_text()) == {"http": {"port": 3}}
    assert f"the previous {mine} is saved as {aside}" in result.stderr


@only_sqlite
def test_leftovers_of_a_killed_restore_are_removed_at_start(
    backed_up: tuple[Path, Path], tmp_path: Path
) -> None:
    home = tmp_path / "h"
    say(home, "here")
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "gateway", "restore", str(backed_up[1])]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KORE_HOME": str(home)}
    restoring = subprocess.Popen(command, stdin=inside, stderr=subprocess.PIPE, env=environ)
    assert restoring.stderr is not None
    try:
        # The question appears once everything is unpacked.
        restoring.stderr.readline()
        assert list(home.glob(".restore-*/kore.db"))
    finally:
        restoring.kill()
        restoring.communicate()
        os.close(terminal)
        os.close(inside)
    (home / "kore.db.restore").write_bytes(b"half of a copy")
    with deep_folders(home / ".workspace.restore-1"):
        say(home, "and on")
        assert not [path.name for path in home.iterdir() if "restore" in path.name]
    assert (home / "workspace").is_dir()


@only_sqlite
def test_workspace_set_aside_by_a_killed_restore_is_put_back(tmp_path: Path) -> None:
    home = tmp_path / "h"
    say(home, "here")
    (home / "workspace" / "mine.txt").write_text("restored")
    (home / "workspace").rename(home / ".workspace.restore-1")
    say(home, "and on")
    assert (home / "workspace" / "mine.txt").read_text() == "restored"
    assert not (home / ".workspace.restore-1").exists()


@only_sqlite
def test_deep_tree_is_backed_up_as_far_as_paths_reach(
    tmp_path: Path,
) -> None:
    """The deep tree does not obstruct a restore, neither in the workspace nor in the backup."""
    home, target = tmp_path / "h", tmp_path / "all.zip"
    say(home, "hello")
    try:
        with deep_folders(home / "workspace"):
            result = kore("backup", target, home=home)
            assert result.returncode == 0, result.stderr
            assert "skipped: 1 file or folder" in result.stdout
            with zipfile.ZipFile(target, "a") as archive:
                assert "workspace/first.txt" in archive.namelist()
                # The deepest path that the format allows.
                archive.writestr(
                    "workspace/" + "d" * 19 + f"/{'d' * 19}" * (LEVELS - 1) + "/a", "x"
                )
            result = kore("restore", target, "--yes", "--json", home=home)
            assert result.returncode == 0, result.stderr
            assert (home / "workspace" / "first.txt").read_text() == "first"
            assert depth_of(home / "workspace", "d" * 19) == LEVELS
            (aside,) = (
                Path(name) for name in json.loads(result.stdout)["kept"] if "workspace" in name
            )
            assert depth_of(aside) == LEVELS
    finally:
        for folder in home.glob("*workspace*"):
            remove(folder)


def pack(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return path


def patch_file(path: Path, mark: bytes, offset: int, number: int) -> Path:
    """Overwrite four bytes at an offset from each `mark` with another number."""
    data = bytearray(path.read_bytes())
    at = data.find(mark)
    while at >= 0:
        data[at + offset : at + offset + 4] = number.to_bytes(4, "little")
        at = data.find(mark, at + 1)
    path.write_bytes(data)
    return path


def test_bomb_is_rejected_before_anything_is_unpacked(tmp_path: Path) -> None:
    home = tmp_path / "h"
    names = ["kore.db", *(f"workspace/{n}" for n in range(2_000))]
    # The archive's directory claims eight terabytes.
    bomb = patch_file(pack(tmp_path / "bomb.zip", names), b"PK\1\2", 24, 0xFFFFFFF0)
    result = kore("restore", bomb, "--yes", home=home)
    assert result.returncode != 0
    assert "is available" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in home.glob(".restore-*")] == []
    assert not (home / "workspace").exists()


def test_archive_with_too_many_entries_is_rejected(tmp_path: Path) -> None:
    many = patch_file(pack(tmp_path / "many.zip", ["kore.db"]), b"PK\5\6", 12, 0xFFFFFFF0)
    result = kore("restore", many, "--yes", home=tmp_path / "h")
    assert result.returncode != 0
    assert "contains too many files" in result.stderr


def test_too_large_configuration_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kore.db", b"x")
        archive.writestr("config.json", b" " * 20_000_000)
    result = kore("restore", path, "--yes", home=tmp_path / "h")
    assert result.returncode != 0
    assert "config.json" in result.stderr
    assert "too large" in result.stderr
