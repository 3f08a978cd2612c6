"""`kore eval` with the real program: the cases that ship, and cases that must fail."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from gateway.ops.evals.case import load_cases
from tests.gateway.cli.kore import ROOT, kore
from tests.house.pages import blocks, page

# Without bubblewrap root runs no command at all, unless it is told to.
LOOSE = {} if shutil.which("bwrap") else {"KORE_SECURITY_SANDBOX": "none"}

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
    ran = kore(
        "eval",
        "--scripted",
        "-j",
        "4",
        "--json",
        ROOT / "evals",
        home=tmp_path / "kore",
        environ=LOOSE,
    )
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
        ({"script": []}, "the script ended"),
    ],
)
def test_a_case_that_does_not_hold_says_why(
    tmp_path: Path, more: dict[str, Any], fault: str
) -> None:
    ran = kore(
        "eval",
        "--scripted",
        "--json",
        case(tmp_path, **more),
        home=tmp_path / "kore",
        environ=LOOSE,
    )
    assert ran.returncode == 1
    (one,) = runs(ran)
    assert not one["passed"]
    assert fault in " ".join(one["faults"])


def test_a_case_that_the_machine_fails_is_told_and_the_others_are_judged(tmp_path: Path) -> None:
    # No file system takes so long a name.
    broken = case(tmp_path, name="broken", workspace={"x" * 300: ""}).rename(tmp_path / "a.json")
    sound = case(tmp_path, script=[WRITE, "Done."])
    ran = kore("eval", "--scripted", "--json", broken, sound, home=tmp_path / "kore")
    assert ran.returncode == 1, ran.stderr
    assert [one["passed"] for one in runs(ran)] == [False, True]
    assert "it could not be run" in runs(ran)[0]["faults"][0]
    assert "too long" in runs(ran)[0]["faults"][0]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
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
        ({"checks": [{"file": "a", "absent": True, "at_least": 1}]}, "at_least says nothing"),
        ({"checks": [{"file": "a", "unchanged": True}]}, "workspace lacks it"),
        ({"checks": [{"answer_matches": "("}]}, "no regular expression"),
        ({"checks": [{"file": "a", "matches": "["}]}, "no regular expression"),
        ({"name": "No Name"}, "name"),
        ({"tasks": "go"}, "tasks: there is no such key; expected one of name, about, task"),
        ({"checks": [{"fle": "a"}]}, r"checks\.0\.fle: there is no such key; expected one of file"),
        ({"script": [{"calls": [{"arguments": {}}]}]}, r"calls\.0\.name is missing"),
    ],
)
def test_a_broken_case_is_named(tmp_path: Path, more: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError, match=f"one.json.*{where}"):
        list(load_cases([case(tmp_path, **more)]))


def test_two_cases_cannot_share_a_name(tmp_path: Path) -> None:
    first = case(tmp_path)
    (tmp_path / "two.json").write_text(first.read_text())
    with pytest.raises(ConfigError, match=r"two.json.*one.json"):
        list(load_cases([tmp_path]))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ((), "no model to evaluate"),
        (("--model", "nobody/x"), "unknown vendor or model"),
        (("--model", "openai/gpt-5"), "needs an API key"),
    ],
)
def test_a_model_that_cannot_be_tried_is_said_before_any_case_runs(
    tmp_path: Path, model: tuple[str, ...], said: str
) -> None:
    ran = kore("eval", *model, case(tmp_path), home=tmp_path / "kore")
    assert ran.returncode == 2
    assert said in ran.stderr
    assert ran.stdout == ""


def test_what_was_tried_is_said(tmp_path: Path) -> None:
    words = 'say "!tool write_file" to nobody'
    file = case(tmp_path, task=words, checks=[{"answer_contains": words}])
    ran = kore("eval", "--model", "offline/echo", file, home=tmp_path / "kore")
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.startswith("1 run with offline/echo\npass  one")
    ran = kore("eval", "--scripted", "--json", file, home=tmp_path / "kore")
    assert json.loads(ran.stdout)["with"] == "scripts"


def test_the_case_that_the_page_shows_passes_by_its_script(tmp_path: Path) -> None:
    (shown,) = blocks(page("evaluation"), "json")
    (tmp_path / "shown.json").write_text(shown)
    ran = kore("eval", "--scripted", tmp_path / "shown.json", home=tmp_path / "kore", environ=LOOSE)
    assert ran.returncode == 0, ran.stdout


def test_a_case_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    file = case(tmp_path, workspace={"../out.txt": "x"}, script=["x"])
    ran = kore("eval", "--scripted", file, home=tmp_path / "kore")
    assert ran.returncode == 2
    assert "outside its workspace" in ran.stderr
    assert not (tmp_path / "out.txt").exists()


def test_repeating_the_question_passes_no_case_that_ships(tmp_path: Path) -> None:
    ran = kore(
        *("eval", "--model", "offline/echo", "-j", "4", "--json", ROOT / "evals"),
        home=tmp_path / "kore",
    )
    assert [one["case"] for one in runs(ran) if one["passed"]] == []
