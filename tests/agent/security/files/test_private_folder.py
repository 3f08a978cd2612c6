"""Private folders: intermediate folders are closed to other users as well."""

import os
import stat
from pathlib import Path

from agent.security.files.private_folder import make_private_folder


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_new_parent_folders_are_private_and_existing_ones_unchanged(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        (tmp_path / "there").mkdir(mode=0o755)
        make_private_folder(tmp_path / "there" / "a" / "b")
        make_private_folder(tmp_path / "there" / "a" / "b")
    finally:
        os.umask(before)
    assert mode(tmp_path / "there") == 0o755
    assert (mode(tmp_path / "there/a"), mode(tmp_path / "there/a/b")) == (0o700, 0o700)
