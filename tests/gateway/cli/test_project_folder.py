"""Working folder of `kore agent` without `--cwd`."""

import json
from pathlib import Path

import pytest

from gateway.cli.project_folder import start_folder
from gateway.config import Settings, load_settings
from gateway.runtime.paths import DataDir


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder, which contains Kore's own folder."""
    folder = tmp_path / "person"
    (folder / ".kore" / "workspace").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    return folder


def _start(person: Path, here: Path, monkeypatch: pytest.MonkeyPatch, **agent: str) -> Path | None:
    monkeypatch.chdir(here)
    return start_folder(_settings(person, **agent), DataDir(person / ".kore"))


def _settings(person: Path, **agent: str) -> Settings:
    own = {"workspace": str(person / ".kore" / "workspace"), **agent}
    file = person / ".kore" / "config.json"
    file.write_text(json.dumps({"agent": own}))
    return load_settings(config=file, home=file.parent, cwd=person, environ={}, overrides={})


def test_root_of_a_repository_is_the_project(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = person / "code" / "repo" / "part"
    part.mkdir(parents=True)
    assert _start(person, part, monkeypatch) == part
    (part.parent / ".git").mkdir()
    assert _start(person, part, monkeypatch) == part.parent
    assert _start(person, part, monkeypatch, start_in="workspace") is None


@pytest.mark.parametrize("name", [".", "..", ".kore", ".kore/workspace", "/"])
def test_home_and_kore_folders_are_not_projects(
    person: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert _start(person, person / name, monkeypatch) is None
    # A home folder that is a repository, of dotfiles for example, does not count as a project
    # either.
    (person / ".git").mkdir()
    assert _start(person, person / name, monkeypatch) is None
    (person / "letters").mkdir()
    assert _start(person, person / "letters", monkeypatch) == person / "letters"


def test_world_writable_folder_is_a_project_only_as_a_repository(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = person / "tmp"
    folder.mkdir()
    folder.chmod(0o777)
    assert _start(person, folder, monkeypatch) is None
    (folder / ".git").mkdir()
    assert _start(person, folder, monkeypatch) == folder
