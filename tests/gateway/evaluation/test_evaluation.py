"""`kore eval` with the real program: the cases that ship, and cases that must fail."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from gateway.evaluation.case import load_cases
from tests.gateway.cli.kore import ROOT, kore

WRITE = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "new"}}]}


def case(folder: Path, **more: Any) -> Path:
    told = {"name": "one", "task": "go", "checks": [{"file": "a.txt", "equals": "new"}], **more}
    file = folder / "one.json"
    file.write_text(json.dumps(told))
    return file


def runs(ran: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran.stdout)["runs"]
    return found


def test_the_cases_that_ship_pass_by_their_scripts(tmp_path: Path) -> None:
    ran = kore("eval", "--scripted", "-j", "4", "--json", ROOT / "evals", home=tmp_path / "kore")
    assert ran.returncode == 0, ran.stdout
    assert len(runs(ran)) == len(list((ROOT / "evals").glob("*.json"))) >= 8
    assert all(one["passed"] and one["usage"]["input"] > 0 for one in runs(ran))


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"script": ["Done."]}, "a.txt is not there"),
        ({"script": [WRITE, "Done."], "checks": [{"file": "a.txt", "equals": "old"}]}, "expected"),
        ({"script": [WRITE, "Done."], "checks": [{"file": "a.txt", "absent": True}]}, "is there"),
        ({"script": ["No."], "checks": [{"answer_contains": "yes"}]}, "lacks 'yes'"),
        ({"script": ["No."], "checks": [{"command": "exit 3"}]}, "ended with 3"),
        ({"script": ["No."], "checks": [{"max_tokens": 1}]}, "tokens"),
        (
            {"script": [WRITE, "x"], "checks": [{"tool": "write_file", "at_most": 0}]},
            "was called 1 times",
        ),
        ({"script": []}, "the script is over"),
    ],
)
def test_a_case_that_does_not_hold_says_why(
    tmp_path: Path, more: dict[str, Any], fault: str
) -> None:
    ran = kore("eval", "--scripted", "--json", case(tmp_path, **more), home=tmp_path / "kore")
    assert ran.returncode == 1
    (one,) = runs(ran)
    assert not one["passed"]
    assert fault in " ".join(one["faults"])


def test_a_command_that_checks_is_held_like_the_models_own(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    checks = [{"command": f"touch {outside} 2>/dev/null; env"}, {"command": "env | grep -c KORE"}]
    file = case(tmp_path, script=["No."], checks=checks)
    ran = kore(
        "eval", "--scripted", file, home=tmp_path / "kore", environ={"KORE_LOGGING_LEVEL": "error"}
    )
    assert "grep -c KORE` ended with 1" in ran.stdout
    status = kore("doctor", "--json", home=tmp_path / "kore").stdout
    if "bwrap" in status or "landlock" in status:
        assert not outside.exists()


def test_each_run_begins_with_fresh_files(tmp_path: Path) -> None:
    append = {"name": "append_file", "arguments": {"path": "a.txt", "content": "x"}}
    checks = [{"file": "a.txt", "equals": "x"}]
    file = case(tmp_path, script=[{"calls": [append]}, "Done."], checks=checks)
    ran = kore("eval", "--scripted", "--repeat", "3", file, home=tmp_path / "kore")
    assert ran.returncode == 0, ran.stdout
    assert "1 of 1 cases passed every time, 3 of 3 runs" in ran.stdout


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"checks": []}, "checks"),
        ({"checks": [{"file": "a"}]}, r"checks\.0"),
        ({"checks": [{"file": "a", "absent": True, "tool": "exec"}]}, "exactly one"),
        ({"name": "No Name"}, "name"),
        ({"tasks": "go"}, "tasks"),
    ],
)
def test_a_broken_case_is_named(tmp_path: Path, more: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError, match=f"one.json.*{where}"):
        list(load_cases([case(tmp_path, **more)]))


def test_a_case_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    file = case(tmp_path, workspace={"../out.txt": "x"}, script=["x"])
    ran = kore("eval", "--scripted", file, home=tmp_path / "kore")
    assert ran.returncode == 2
    assert "outside its workspace" in ran.stderr
    assert not (tmp_path / "out.txt").exists()
