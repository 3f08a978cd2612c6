import json
import os
from pathlib import Path

import pytest

from tests.gateway.cli.kore import ROOT, kore, kore_here

# Content of each broken file, and the error message after the file's name.
BROKEN = json.loads((Path(__file__).parent / "broken_configs.json").read_text())


@pytest.mark.parametrize("broken", BROKEN, ids=[broken["case"] for broken in BROKEN])
def test_each_configuration_error_is_one_line(tmp_path: Path, broken: dict[str, str]) -> None:
    file = tmp_path / "c.json"
    file.write_text(broken["content"])
    result = kore_here("config", "validate", file, home=tmp_path / "h")
    first, *rest = result.stderr.splitlines()
    assert result.returncode == 2
    assert first.startswith(f"kore: {file}{broken['said']}")
    assert all(line.startswith("      ") for line in rest)
    assert result.stdout == ""


def test_each_mistake_has_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"http": {"port": "x"}, "agnet": {}, "tools": {"exec_timeout_s": null}}')
    result = kore_here("config", "validate", file, home=tmp_path / "h")
    assert len(result.stderr.splitlines()) == 3


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("KORE_AGENT_MODL", "x", "unknown name; did you mean KORE_AGENT_MODEL?"),
        ("KORE_TELEGRM_TOKEN", "x", "unknown name; did you mean KORE_TELEGRAM_TOKEN?"),
        ("KORE_HTTP_PORT", "many", 'http.port: found "many", expected a whole number'),
        ("KORE_MODEL_LIST", "[{]", "model_list: expected JSON such as […]: "),
    ],
)
def test_invalid_variable_is_named(tmp_path: Path, name: str, value: str, expected: str) -> None:
    result = kore_here("config", "validate", home=tmp_path / "h", environ={name: value})
    assert result.returncode == 2
    assert result.stderr.startswith(f"kore: environment variable {name}: {expected}")


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    home = tmp_path / "h"
    (tmp_path / "latin.json").write_bytes(b'{\n"a": "\xe9"}')
    (tmp_path / "big.json").write_bytes(b" " * 2_000_000)
    os.mkfifo(tmp_path / "pipe")
    for name, expected in {
        "none.json": "no such file",
        "": "found a folder, expected a JSON file",
        "latin.json": "line 2: byte 0xe9 is not valid UTF-8; save it as UTF-8",
        "big.json": "larger than the limit of 1,000,000 bytes",
        "pipe": "not a regular file, expected a JSON file",
    }.items():
        result = kore_here("config", "validate", tmp_path / name, home=home)
        assert result.returncode == 2
        assert result.stderr.splitlines()[0] == f"kore: {tmp_path / name}: {expected}"


def test_valid_file_is_accepted(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-canary-1"}
    example = ROOT / "config.example.json"
    result = kore("config", "validate", example, home=tmp_path / "h", environ=environ)
    assert (result.returncode, result.stderr) == (0, "")
    result = kore("config", "validate", example, "--json", home=tmp_path / "h", environ=environ)
    assert json.loads(result.stdout)["valid"] is True
    result = kore("config", "validate", example, "--json", home=tmp_path / "h")
    assert result.returncode == 2
    assert "OPENAI_API_KEY" in json.loads(result.stdout)["errors"][0]


def test_show_hides_secrets(tmp_path: Path) -> None:
    environ = {"KORE_TELEGRAM_TOKEN": "123:canary-token"}
    result = kore("config", "show", home=tmp_path / "h", environ=environ)
    assert result.returncode == 0
    assert "canary" not in result.stdout
    assert json.loads(result.stdout)["telegram"]["token"] == "**********"


def test_unknown_model_is_invalid(tmp_path: Path) -> None:
    environ = {"KORE_AGENT_MODEL": "opnai/gpt-5"}
    result = kore("config", "validate", home=tmp_path / "h", environ=environ)
    assert result.returncode == 2
    assert "did you mean 'openai/gpt-5'?" in result.stderr
