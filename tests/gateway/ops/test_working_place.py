"""Working folder of `kore agent`, and the repository around it."""

import json
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.config import Settings, load_settings
from gateway.config.sections import SecuritySection
from gateway.core.messages import MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.ops.working_place import WorkingPlace, find_place, limit_to_trust
from gateway.runtime.paths import DataDir
from tests.gateway.parts import opened


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder, which contains Kore's own folder."""
    folder = tmp_path / "person"
    (folder / ".kore" / "workspace").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def part(person: Path) -> Path:
    """Return a folder in a repository."""
    folder = person / "code" / "repo" / "part"
    folder.mkdir(parents=True)
    (folder.parent / ".git").mkdir()
    return folder


@pytest.fixture
def kore_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kore"
    folder.mkdir()
    return folder


def _start(person: Path, here: Path) -> Path | None:
    """Return the workspace of a person in the folder `here`."""
    settings, home = _settings(person), DataDir(person / ".kore")
    place = find_place(settings, home, here.resolve(), is_chosen=False)
    return None if place is None else place.workspace


def _place_of(person: Path, folder: Path) -> WorkingPlace:
    place = find_place(_settings(person), DataDir(person / ".kore"), folder, is_chosen=True)
    assert place is not None
    return place


def _settings(person: Path, trusted: tuple[Path, ...] = ()) -> Settings:
    sections = {
        "agent": {"workspace": str(person / ".kore" / "workspace")},
        "security": {"trusted_folders": list(map(str, trusted))},
    }
    file = person / ".kore" / "config.json"
    file.write_text(json.dumps(sections))
    return load_settings(config=file, home=file.parent, cwd=person, environ={}, overrides={})


def test_root_of_a_repository_is_the_workspace(person: Path, part: Path) -> None:
    assert _start(person, part) == part.parent
    (part.parent / ".git").rmdir()
    assert _start(person, part) == part


def test_relative_paths_start_in_the_folder_of_the_person(person: Path, part: Path) -> None:
    options = _place_of(person, part).apply(MessageOptions())
    assert options.cwd == str(part.parent)
    assert options.start_folder == str(part)
    assert _place_of(person, part.parent).apply(MessageOptions()).start_folder is None


@pytest.mark.parametrize("name", [".", "..", ".kore", ".kore/workspace", "/"])
def test_home_and_kore_folders_are_not_projects(person: Path, name: str) -> None:
    assert _start(person, person / name) is None
    # A home folder that is a repository, of dotfiles for example, does not count as a project
    # either.
    (person / ".git").mkdir()
    assert _start(person, person / name) is None
    (person / "letters").mkdir()
    assert _start(person, person / "letters") == person / "letters"


def test_chosen_folder_does_not_grow_to_the_home_folder(person: Path) -> None:
    (person / ".git").mkdir()
    (person / "letters").mkdir()
    for folder in (person / "letters", person, person / ".kore" / "workspace"):
        assert _place_of(person, folder).workspace == folder


def test_world_writable_folder_is_a_project_only_as_a_repository(person: Path) -> None:
    folder = person / "tmp"
    folder.mkdir()
    folder.chmod(0o777)
    assert _start(person, folder) is None
    (folder / ".git").mkdir()
    assert _start(person, folder) == folder


def test_repository_in_a_world_writable_folder_is_not_the_workspace(
    person: Path, part: Path
) -> None:
    part.parent.chmod(0o777)
    assert _place_of(person, part).workspace == part


@pytest.mark.parametrize("user", ["own", "owner"])
def test_repository_around_an_account_home_folder_is_ignored(
    person: Path, part: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    """HOME names another folder; root works in the home folder of the folder's owner."""
    home = part.parent
    asked_id = os.geteuid() if user == "own" else 65_533
    if user == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        for path in (home, home / ".git", part):
            os.chown(path, asked_id, asked_id)

    def account(user_id: int) -> SimpleNamespace:
        if user_id != asked_id:
            raise KeyError(user_id)
        return SimpleNamespace(pw_dir=str(home))

    assert _place_of(person, part).workspace == home
    monkeypatch.setattr(pwd, "getpwuid", account)
    assert _place_of(person, part).workspace == part
    assert _start(person, home) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_repository_of_another_user_is_not_the_workspace(person: Path, part: Path) -> None:
    os.chown(part.parent / ".git", 65_534, 65_534)
    assert _place_of(person, part).workspace == part
    # Root in a folder of this user works in the user's repository.
    os.chown(part.parent, 65_534, 65_534)
    os.chown(part, 65_534, 65_534)
    assert _place_of(person, part).workspace == part.parent


def test_workspace_does_not_grow_beyond_a_trusted_folder(person: Path, part: Path) -> None:
    place = _place_of(person, part)
    home = DataDir(person / ".kore")
    limited = limit_to_trust(place, _settings(person, (part,)), home, is_chosen=False)
    assert limited == WorkingPlace(part, part, part.parent)
    assert f"kore trust {part.parent}" in limited.remark
    trusting = _settings(person, (part.parent,))
    assert limit_to_trust(place, trusting, home, is_chosen=True) == place


def test_chosen_folder_grows_only_to_a_trusted_repository(person: Path, part: Path) -> None:
    place, settings, home = _place_of(person, part), _settings(person), DataDir(person / ".kore")
    assert limit_to_trust(place, settings, home, is_chosen=True).workspace == part
    # In the shell's folder, an untrusted repository is the workspace, and its files are untrusted.
    assert limit_to_trust(place, settings, home, is_chosen=False) == place


async def test_new_session_in_a_trusted_folder_works_in_the_trusted_repository_around_it(
    kore_folder: Path, part: Path
) -> None:
    trusted = SecuritySection(trusted_folders=(str(part), str(part.parent)))
    async with opened(kore_folder, [], settings={"security": trusted}) as parts:
        folders = await parts.service.list_session_folders()
    root = str(part.parent)
    assert folders == [SessionFolder(root, str(part)), SessionFolder(root)]


async def test_new_session_in_a_trusted_folder_ignores_an_untrusted_repository(
    kore_folder: Path, part: Path
) -> None:
    trusted = SecuritySection(trusted_folders=(str(part),))
    async with opened(kore_folder, [], settings={"security": trusted}) as parts:
        assert await parts.service.list_session_folders() == [SessionFolder(str(part))]
