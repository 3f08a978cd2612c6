import os
import stat
from pathlib import Path

import pytest

from agent.security.files import safe_open
from agent.security.files.safe_open import LISTED, has_openat2, open_folder_beneath, open_subfolder

linux_only = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")


def where(path: Path) -> os.stat_result:
    with open_folder_beneath(path) as fd:
        return os.fstat(fd)


def test_folder_is_opened_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert os.path.samestat(where(tmp_path / "a" / "b"), (tmp_path / "a" / "b").stat())
    assert os.path.samestat(where(Path("/")), Path("/").stat())


@pytest.mark.parametrize("path", ["link", "link/inner", "up/../real", "file", "none"])
def test_links_dots_and_files_are_not_opened(tmp_path: Path, path: str) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "up").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    with pytest.raises(OSError):  # noqa: PT011 - the number differs between kernels
        where(tmp_path / path)


def test_missing_folders_are_created_but_never_behind_a_link(tmp_path: Path) -> None:
    with open_folder_beneath(tmp_path / "a" / "b" / "c", create=True) as fd:
        assert os.path.samestat(os.fstat(fd), (tmp_path / "a/b/c").stat())
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(OSError), open_folder_beneath(tmp_path / "link" / "new", create=True):  # noqa: PT011
        pass
    assert os.listdir(tmp_path / "a") == ["b"]


@linux_only
@pytest.mark.parametrize("path", ["/proc", "/proc/1", "/proc/self/root/etc", "/proc/self/cwd"])
def test_kernel_views_and_their_links_are_rejected(path: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        where(Path(path))


@linux_only
def test_openat2_and_its_fallback_agree(tmp_path: Path) -> None:
    """Compare `openat2`, where available, with the walk that replaces it."""
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    root = os.open(tmp_path, LISTED)
    openers = [lambda path: safe_open._walk(root, tuple(path.split("/")), False, LISTED)]
    if (opener := safe_open._opener()) is not None:
        openers.append(lambda path: opener(root, path, LISTED))
    assert len(openers) == 1 + has_openat2()
    try:
        for opened in openers:
            fd = opened("real/inner")
            assert stat.S_ISDIR(os.fstat(fd).st_mode)
            os.close(fd)
            for path in ("link", "link/inner", "none", "../" + tmp_path.name + "/link"):
                with pytest.raises(OSError):  # noqa: PT011
                    opened(path)
    finally:
        os.close(root)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    before = len(os.listdir("/dev/fd"))
    for path in ("a", "link", "none", "none/x"):
        try:
            with open_folder_beneath(tmp_path / path) as fd:
                os.close(open_subfolder(".", fd))
        except OSError:
            continue
    assert len(os.listdir("/dev/fd")) == before
