"""Rewriting a value leaves the rest of the file unchanged and the file never half-written."""

import json
from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.config.editing import change_config, change_secrets


def test_unchanged_keys_are_preserved(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n  "z": 1,   "telegram": {"odd": [1], "token": "x"}\n}\n')
    change_config(path, {("telegram", "token"): "y", ("http", "port"): 1, ("model_list",): []})
    assert path.read_text().startswith('{\n  "z": 1,   "telegram": {"odd": [1], "token": "y"}')
    assert json.loads(path.read_text()) == {
        "z": 1,
        "telegram": {"odd": [1], "token": "y"},
        "http": {"port": 1},
        "model_list": [],
    }
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


def test_new_file_is_private(tmp_path: Path) -> None:
    change_config(tmp_path / "config.json", {("http", "port"): 1})
    assert (tmp_path / "config.json").stat().st_mode & 0o777 == 0o600


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real, link = tmp_path / "dotfiles" / "kore.json", tmp_path / "config.json"
    real.write_text("{}")
    link.symlink_to(real)
    change_config(link, {("http", "port"): 1})
    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"http": {"port": 1}}


@pytest.mark.parametrize("content", ['{"telegram": 3}', "[]", "{"])
def test_unchangeable_file_is_named_and_unchanged(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"config\.json"):
        change_config(path, {("telegram", "token"): "y"})
    assert path.read_text() == content


def test_secrets_are_added_replaced_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "h" / "secrets.json"
    change_secrets(path, {"A": "1", "B": "2"})
    change_secrets(path, {"A": "3", "B": None, "C": None})
    assert json.loads(path.read_text()) == {"A": "3"}
    assert path.stat().st_mode & 0o777 == 0o600
