import json
from pathlib import Path

from tests.gateway.cli.kore import kore


def test_first_start_creates_a_private_home_and_a_workspace(tmp_path: Path) -> None:
    home = tmp_path / "h"
    result = kore("init", "--yes", home=home, environ={"ANTHROPIC_API_KEY": "sk-canary-77"})
    assert result.returncode == 0, result.stderr
    config = json.loads((home / "config.json").read_text())
    assert config["model_list"][0]["api_key"] == "${ANTHROPIC_API_KEY}"
    assert (home / "config.json").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "workspace" / "memory" / "MEMORY.md").is_file()
    assert "canary" not in result.stdout + (home / "config.json").read_text()


def test_second_start_overwrites_nothing(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    (home / "workspace" / "SOUL.md").write_text("mine")
    (home / "config.json").write_text('{"http": {"port": 4}}')
    result = kore("init", "--yes", home=home)
    assert result.returncode == 0
    assert result.stdout.count("already exists, unchanged") == 2
    assert (home / "workspace" / "SOUL.md").read_text() == "mine"
    assert (home / "config.json").read_text() == '{"http": {"port": 4}}'


def test_init_writes_a_valid_configuration(tmp_path: Path) -> None:
    home = tmp_path / "h"
    for environ in ({}, {"OPENAI_API_KEY": "k"}):
        kore("init", "--yes", home=home, environ=environ)
        assert kore("config", "validate", home=home, environ=environ).returncode == 0
        (home / "config.json").unlink()


def test_missing_terminal_is_explained(tmp_path: Path) -> None:
    result = kore("init", home=tmp_path / "h")
    assert result.returncode == 2
    assert "kore init --yes" in result.stderr


def test_uncreatable_home_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    impossible = {"KORE_HOME": str(tmp_path / "file" / "h")}
    result = kore("init", "--yes", home=tmp_path / "h", environ=impossible)
    assert result.returncode == 2
    assert result.stderr.startswith(f"kore: {tmp_path / 'file' / 'h'}: cannot be created: ")
