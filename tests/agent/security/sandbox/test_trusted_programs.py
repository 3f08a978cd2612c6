"""Which programs Kore starts itself: none that a command can have put there."""

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


def test_a_program_of_the_system_is_found() -> None:
    assert find_trusted_program("sh", path=SYSTEM_PATH) in ("/usr/bin/sh", "/bin/sh")
    assert find_trusted_program("no such program", path=SYSTEM_PATH) is None


def test_an_own_program_outside_of_any_workspace_is_found(place: Path) -> None:
    file = program(place / "bin")
    assert find_trusted_program("tool", (place / "work",), path=str(place / "bin")) == str(file)


def test_the_first_folder_that_can_be_trusted_counts(place: Path) -> None:
    program(place / "work" / "bin")
    good = program(place / "bin")
    path = f"{place}/work/bin:work/bin:.::{place}/bin"
    assert find_trusted_program("tool", (place / "work",), path=path) == str(good)


def test_nothing_in_a_workspace_is_trusted_by_whatever_name(place: Path) -> None:
    inside = program(place / "work" / "bin")
    (place / "bin").mkdir()
    (place / "bin" / "tool").symlink_to(inside)
    (place / "other").symlink_to(place / "work")
    for path in (inside, place / "bin" / "tool", place / "other" / "bin" / "tool"):
        assert not is_trusted(str(path), (place / "work",))
    # A link in the workspace can be turned, wherever it leads now.
    (place / "work" / "sh").symlink_to("/bin/sh")
    assert not is_trusted(str(place / "work" / "sh"), (place / "work",))


def test_the_current_folder_and_a_projects_environment_are_not_trusted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = program(place / "here" / "bin")
    monkeypatch.chdir(place / "here")
    assert not is_trusted(str(here))
    venv = program(place / "project" / ".venv" / "bin")
    (place / "project" / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert not is_trusted(str(venv))
    assert not is_trusted(str(program(place / "project" / "node_modules" / ".bin")))


def test_what_others_may_replace_is_not_trusted(place: Path) -> None:
    file = program(place / "bin")
    file.chmod(0o777)
    assert not is_trusted(str(file))
    file.chmod(0o755)
    assert is_trusted(str(file))
    (place / "bin").chmod(0o777)
    assert not is_trusted(str(file))


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to give a file away")
def test_what_belongs_to_somebody_else_is_not_trusted(place: Path) -> None:
    file = program(place / "bin")
    os.chown(file, 65534, 65534)
    assert not is_trusted(str(file))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to a group that it is not in")
@pytest.mark.parametrize("at", ["", "bin", "bin/tool"])
def test_what_a_group_of_others_can_write_is_not_trusted(place: Path, at: str) -> None:
    file = program(place / "bin")
    assert is_trusted(str(file))
    changed = place / at
    changed.chmod(0o775)
    assert is_trusted(str(file)), "nobody else is in the own group"
    # A group that no list of groups knows: who is in it cannot be told.
    os.chown(changed, -1, 1_987_654_321)
    assert not is_trusted(str(file))
    changed.chmod(0o755)
    assert is_trusted(str(file))


def test_a_file_that_everybody_may_write_is_not_trusted_whatever_its_other_bits(
    place: Path,
) -> None:
    file = program(place / "bin")
    file.chmod(0o1777)
    assert not is_trusted(str(file))
