"""`kore hooks`: the list of hooks, and those of the event Setup."""

import json
from pathlib import Path
from typing import Any

from tests.gateway.cli.kore import kore


def configure(home: Path, hooks: dict[str, Any]) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text(json.dumps({"hooks": hooks}))


def test_hooks_are_listed(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    assert "There are no hooks." in kore("hooks", "list", home=home).stdout
    command = {"type": "command", "command": "make check", "async": True}
    prompt = {"type": "prompt", "prompt": "Are the tests green?"}
    configure(home, {"Stop": [{"hooks": [command, prompt]}]})
    lines = kore("hooks", "list", home=home).stdout.splitlines()
    assert lines[1].split()[1:5] == ["command,", "async", "make", "check"]
    assert lines[2].split()[1:4] == ["prompt", "Are", "the"]
    rows = json.loads(kore("hooks", "list", "--json", home=home).stdout)
    assert [row["kind"] for row in rows] == ["command, async", "prompt"]
    assert [row["async"] for row in rows] == [True, False]


def test_setup_runs_the_hooks_of_its_trigger(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    command = """grep -q '"trigger": "init"' && echo '{"systemMessage": "all set"}'"""
    cleaning = """echo '{"systemMessage": "cleaned"}'"""
    matchers = [
        {"matcher": "init", "hooks": [{"command": command}]},
        {"matcher": "maintenance", "hooks": [{"command": cleaning}]},
    ]
    configure(home, {"Setup": matchers})
    first = kore("hooks", "setup", home=home)
    assert first.stderr.strip() == "all set"
    assert first.returncode == 0
    second = kore("hooks", "setup", "--maintenance", home=home)
    assert second.stderr.strip() == "cleaned"
    assert second.returncode == 0


def test_setup_fails_with_its_hook(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    configure(home, {"Setup": [{"hooks": [{"command": "echo no compiler >&2; exit 2"}]}]})
    result = kore("hooks", "setup", home=home)
    assert result.returncode == 1
    assert "no compiler" in result.stderr
