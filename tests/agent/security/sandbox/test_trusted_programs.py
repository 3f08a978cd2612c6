"""Programs that Kore starts itself: none that a command could have installed."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program, is_trusted


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kore-helpers-", dir="/var/tmp") as name:
        yield Path(name)


def program(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tool"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_system_program_is_found() -> None:
    assert find_trusted_program("sh", path=SYSTEM_PATH) in ("/usr/bin/sh", "/bin/sh")
    assert find_trusted_program("no such program", path=SYSTEM_PATH) is None


def test_own_program_outside_of_workspaces_is_found(place: Path) -> None:
    file = program(place / "bin")
    assert find_trusted_program("tool", (place / "work",), path=str(place / "bin")) == str(file)


def test_first_trusted_folder_wins(place: Path) -> None:
    program(place / "work" / "bin")
    good = program(place / "bin")
    path = f"{place}/work/bin:work/bin:.::{place}/bin"
    assert find_trusted_program("tool", (place / "work",), path=path) == str(good)


def test_program_in_a_workspace_is_not_trusted_under_any_name(place: Path) -> None:
    inside = program(place / "work" / "bin")
    (place / "bin").mkdir()
    (place / "bin" / "tool").symlink_to(inside)
    (place / "other").symlink_to(place / "work")
    for path in (inside, place / "bin" / "tool", place / "other" / "bin" / "tool"):
        assert not is_trusted(str(path), (place / "work",))
    # A link in the workspace can be redirected, regardless of its current target.
    (place / "work" / "sh").symlink_to("/bin/sh")
    assert not is_trusted(str(place / "work" / "sh"), (place / "work",))


def test_current_folder_and_project_environment_are_not_trusted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = program(place / "here" / "bin")
    monkeypatch.chdir(place / "here")
    assert not is_trusted(str(here))
    venv = program(place / "project" / ".venv" / "bin")
    (place / "project" / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert not is_trusted(str(venv))
    assert not is_trusted(str(program(place / "project" / "node_modules" / ".bin")))


def test_program_replaceable_by_others_is_not_trusted(place: Path) -> None:
    file = program(place / "bin")
    file.chmod(0o777)
    assert not is_trusted(str(file))
    file.chmod(0o755)
    assert is_trusted(str(file))
    (place / "bin").chmod(0o777)
    assert not is_trusted(str(file))


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to give a file away")
def test_program_of_another_user_is_not_trusted(place: Path) -> None:
    file = program(place / "bin")
    os.chown(file, 65534, 65534)
    assert not is_trusted(str(file))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to a group that it is not in")
@pytest.mark.parametrize("at", ["", "bin", "bin/tool"])
def test_group_writable_program_is_not_trusted(place: Path, at: str) -> None:
    file = program(place / "bin")
    assert is_trusted(str(file))
    changed = place / at
    changed.chmod(0o775)
    assert is_trusted(str(file)), "nobody else is in the own group"
    # The members of a group that is not listed are unknown.
    os.chown(changed, -1, 1_987_654_321)
    assert not is_trusted(str(file))
    changed.chmod(0o755)
    assert is_trusted(str(file))


def test_world_writable_file_is_never_trusted(
    place: Path,
) -> None:
    file = program(place / "bin")
    file.chmod(0o1777)
    assert not is_trusted(str(file))
