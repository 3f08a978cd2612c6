"""Identity check of a conversation's folder: links and replaced folders are detected."""

from pathlib import Path

import pytest

from agent.security.files.folder_identity import (
    FolderIdentity,
    FolderReplaced,
    open_folder,
    real_start_folder,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "above" / "project").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "above" / "project"


def test_folder_identity_ignores_its_contents(folder: Path) -> None:
    identity = FolderIdentity.of(folder)
    (folder / "a").write_text("x")
    identity.check()
    assert identity == FolderIdentity.of(folder)


def test_link_in_its_place_is_rejected(folder: Path, tmp_path: Path) -> None:
    identity = FolderIdentity.of(folder)
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderReplaced, match="no longer the folder"):
        identity.check()
    with pytest.raises(FolderReplaced):
        FolderIdentity.of(folder)


def test_link_to_the_folder_itself_is_rejected(folder: Path) -> None:
    identity = FolderIdentity.of(folder)
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.with_name("moved"))
    with pytest.raises(FolderReplaced):
        identity.check()


def test_link_above_it_is_rejected(folder: Path, tmp_path: Path) -> None:
    identity = FolderIdentity.of(folder)
    folder.parent.rename(tmp_path / "moved")
    folder.parent.symlink_to(tmp_path / "moved")
    with pytest.raises(FolderReplaced):
        identity.check()


def test_other_folder_in_its_place_is_rejected(folder: Path) -> None:
    identity = FolderIdentity.of(folder)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    with pytest.raises(FolderReplaced):
        identity.check()
    FolderIdentity.of(folder).check()


@pytest.mark.parametrize("what", ["nothing", "a file"])
def test_missing_folder_is_rejected(folder: Path, what: str) -> None:
    identity = FolderIdentity.of(folder)
    folder.rmdir()
    if what == "a file":
        folder.write_text("x")
    with pytest.raises(FolderReplaced):
        identity.check()


def test_descriptor_stays_with_the_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "inside").write_text("x")
    with open_folder(folder, FolderIdentity.of(folder)) as descriptor:
        folder.rename(folder.with_name("moved"))
        folder.symlink_to(tmp_path / "elsewhere")
        assert (Path(f"/proc/self/fd/{descriptor}") / "inside").exists()


def test_start_folder_is_inside_the_root(folder: Path, tmp_path: Path) -> None:
    root = folder.parent
    assert real_start_folder(root, folder) == folder
    for other in (None, root, tmp_path / "elsewhere", root / ".." / "elsewhere", root / "gone"):
        assert real_start_folder(root, other) is None


@pytest.mark.parametrize("name", ["project", "project/inner"])
def test_link_on_the_way_to_the_start_folder_leads_nowhere(
    folder: Path, tmp_path: Path, name: str
) -> None:
    start_folder = folder.parent / name
    start_folder.mkdir(exist_ok=True)
    (tmp_path / "elsewhere" / "inner").mkdir()
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(tmp_path / "elsewhere")
    assert real_start_folder(folder.parent, start_folder) is None
