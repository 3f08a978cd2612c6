"""Files outside the workspace that root can read, but not the user of its commands."""

import os
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.approvals import FolderAccess
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.unprivileged_user import USER
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.glob import Glob
from agent.tools.files.grep import Grep
from tests.agent.tools.files.workbench import Workbench

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="is about root's commands")

NO_RIGHT = "no right to read it"
_OTHER_USER = 1000


@pytest.fixture
def bench(box: Bubblewrap, call: CallContext, tmp_path: Path) -> Workbench:
    return Workbench(box, call, tmp_path / "kore")


@pytest.fixture
def service() -> Iterator[Path]:
    """Return a folder of /opt with an open file, a closed one, and an open one in closed folders.

    /opt is one of the folders of programs that every command can read.
    """
    folder = Path(tempfile.mkdtemp(prefix="kore-test-", dir="/opt"))
    try:
        _fill(folder)
        yield folder
    finally:
        shutil.rmtree(folder)


def _fill(folder: Path) -> None:
    folder.chmod(0o755)
    files = {"open.conf": 0o644, "closed.conf": 0o600, "group.conf": 0o640}
    for name, mode in files.items():
        (folder / name).write_text(f"password={name}\n")
        (folder / name).chmod(mode)
    for name, mode in {"closed": 0o700, "unlisted": 0o711}.items():
        (folder / name).mkdir()
        (folder / name / "inner.conf").write_text("password=inner\n")
        (folder / name).chmod(mode)


def _list_that_denies(user: int) -> bytes:
    """Return an access control list by which everybody can read, except this user.

    The format is that of linux/posix_acl_xattr.h: entries of a tag, rights and an ID.
    """
    nobody = 0xFFFF_FFFF
    entries = [(1, 6, nobody), (2, 0, user), (4, 4, nobody), (16, 4, nobody), (32, 4, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


async def _result_text(bench: Workbench, name: str, **args: object) -> str:
    return (await bench.run_allowed(name, **args)).for_model


@pytest.mark.parametrize("name", ["closed.conf", "group.conf", "closed/inner.conf"])
async def test_file_closed_to_commands_is_not_read(
    bench: Workbench, service: Path, name: str
) -> None:
    path = str(service / name)
    assert "Permission denied" in await bench.run("exec", command=f"cat {path}")
    assert NO_RIGHT in await _result_text(bench, "read_file", path=path)
    assert "password=" not in await _result_text(bench, "grep", pattern="password", path=path)


@pytest.mark.parametrize("name", ["open.conf", "unlisted/inner.conf"])
async def test_file_open_to_commands_is_read(bench: Workbench, service: Path, name: str) -> None:
    path = str(service / name)
    assert "password=" in await bench.run("exec", command=f"cat {path}")
    assert "password=" in await _result_text(bench, "read_file", path=path)
    assert "password=" in await _result_text(bench, "grep", pattern="password", path=path)


@pytest.mark.parametrize("program", ["rg", None])
async def test_search_skips_files_closed_to_commands(
    bench: Workbench, service: Path, program: str | None
) -> None:
    args = {"pattern": "password", "path": str(service)}
    result = await Grep(ToolSettings(), program).run(args, bench.call)
    assert "open.conf" in result.for_model
    assert "closed" not in result.for_model
    assert "group" not in result.for_model
    assert "inner" not in result.for_model


@pytest.mark.parametrize("program", ["rg", None])
async def test_glob_skips_folders_closed_to_commands(
    bench: Workbench, service: Path, program: str | None
) -> None:
    args = {"pattern": "**/*.conf", "path": str(service)}
    result = await Glob(ToolSettings(), program).run(args, bench.call)
    assert "open.conf" in result.for_model
    # As in a listing by a command.
    assert "/closed.conf" in result.for_model
    assert "inner.conf" not in result.for_model
    assert result.for_user == "3 files"


@pytest.mark.parametrize("name", ["closed", "unlisted"])
async def test_folder_closed_to_commands_is_not_listed(
    bench: Workbench, service: Path, name: str
) -> None:
    assert NO_RIGHT in await _result_text(bench, "list_dir", path=str(service / name))
    tree = await _result_text(bench, "list_dir", path=str(service), depth=3)
    assert f"{name}/" in tree
    assert "inner.conf" not in tree


@pytest.mark.parametrize("name", ["closed", "unlisted"])
async def test_missing_file_names_nothing_of_a_closed_folder(
    bench: Workbench, service: Path, name: str
) -> None:
    shown = await _result_text(bench, "read_file", path=str(service / name / "iner.conf"))
    assert "inner.conf" not in shown


async def test_picture_closed_to_commands_is_not_shown(bench: Workbench, service: Path) -> None:
    picture = service / "closed.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    picture.chmod(0o600)
    result = await bench.run_allowed("read_file", path=str(picture))
    assert not result.images
    assert NO_RIGHT in result.for_model


async def test_link_to_a_closed_file_is_judged_by_its_target(
    bench: Workbench, service: Path
) -> None:
    (service / "link").symlink_to("closed.conf")
    assert NO_RIGHT in await _result_text(bench, "read_file", path=str(service / "link"))


async def test_file_with_an_access_control_list_is_not_read(
    bench: Workbench, service: Path
) -> None:
    path = service / "open.conf"
    try:
        os.setxattr(path, "system.posix_acl_access", _list_that_denies(USER))
    except OSError as exc:
        pytest.skip(f"no access control lists: {exc.strerror}")
    assert path.stat().st_mode & stat.S_IROTH
    assert "Permission denied" in await bench.run("exec", command=f"cat {path}")
    assert NO_RIGHT in await _result_text(bench, "read_file", path=str(path))


async def test_folder_added_by_a_person_is_read_with_the_rights_of_kore(
    bench: Workbench, service: Path
) -> None:
    bench.call.environment.folders.add(FolderAccess(service))
    assert "password=" in await bench.run("read_file", path=str(service / "closed.conf"))
    assert "inner.conf" in await bench.run("list_dir", path=str(service / "closed"))


async def test_readable_folder_of_the_settings_shows_the_files_of_root(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    _fill(folder)
    os.chown(folder / "group.conf", _OTHER_USER, _OTHER_USER)
    bench = Workbench(box.showing((folder,)), call, tmp_path / "kore")
    for name, is_readable in {
        "closed.conf": True,
        "closed/inner.conf": True,
        "group.conf": False,
    }.items():
        path = str(folder / name)
        by_command = await bench.run("exec", command=f"cat {path}")
        assert ("password=" in by_command) is is_readable, name
        by_tool = await _result_text(bench, "read_file", path=path)
        assert ("password=" in by_tool) is is_readable, name


async def test_file_of_another_user_in_tmp_is_not_read(bench: Workbench) -> None:
    await bench.run("exec", command="umask 077; echo mine > /tmp/mine; echo other > /tmp/other")
    temporary = bench.call.shared_files
    assert temporary is not None
    os.chown(temporary.real_path("/tmp/other"), _OTHER_USER, _OTHER_USER)
    assert "mine" in await _result_text(bench, "read_file", path="/tmp/mine")
    assert NO_RIGHT in await _result_text(bench, "read_file", path="/tmp/other")


async def test_command_that_runs_as_the_user_of_kore_limits_nothing(
    box: Bubblewrap, call: CallContext, tmp_path: Path, service: Path
) -> None:
    bench = Workbench(replace(box, runs_as_root=False), call, tmp_path / "kore")
    assert "password=" in await bench.run("read_file", path=str(service / "closed.conf"))
