"""`kore eval` with the real program: bundled cases, and cases that must fail."""

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from gateway.ops.evals.case import load_cases
from gateway.ops.evals.repository import repository_files
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.cli.kore import ROOT, kore
from tests.house.pages import blocks, page

# Without bubblewrap, root runs commands only if the sandbox is switched off.
LOOSE = {} if shutil.which("bwrap") else {"KORE_SECURITY_SANDBOX": "none"}

SHIPPED = list(load_cases([ROOT / "evals"]))
WRITE = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "new"}}]}


def case(folder: Path, **more: Any) -> Path:
    result = {"name": "one", "task": "go", "checks": [{"file": "a.txt", "equals": "new"}], **more}
    file = folder / "one.json"
    file.write_text(json.dumps(result))
    return file


def runs(ran: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(ran.stdout)["runs"]
    return entries


@pytest.mark.timeout(300)
def test_shipped_cases_pass_with_their_scripts(tmp_path: Path) -> None:
    ran = kore(
        "eval",
        "--scripted",
        "-j",
        "4",
        "--json",
        ROOT / "evals",
        home=tmp_path / "kore",
        environ=LOOSE,
        # Forty cases, most of which start interpreters, in parallel with other tests.
        timeout_s=240,
    )
    assert ran.returncode == 0, ran.stdout
    assert len(runs(ran)) == len(SHIPPED)
    ran_here = [run for run in runs(ran) if run["skipped"] is None]
    assert all(item["passed"] and item["usage"]["input"] > 0 for item in ran_here)
    assert all(item["steps"] > 1 for item in ran_here)
    totals = json.loads(ran.stdout)["totals"]
    assert totals["steps"] == sum(run["steps"] for run in runs(ran))
    assert len(ran_here) + json.loads(ran.stdout)["skipped"] == len(SHIPPED)


def test_thirty_cases_are_from_small_repositories() -> None:
    cases = [item for item in SHIPPED if item.repository]
    kinds = Counter(item.kind for item in cases)
    assert len(cases) >= 30
    assert min(kinds[kind] for kind in ("fix", "feature", "refactor", "answer")) >= 6
    assert all(item.max_iterations and item.max_seconds for item in cases)
    for source in {item.repository for item in cases}:
        assert 5 <= len(repository_files(source)) <= 20
        assert 2 <= len(list(source.glob("*.txt"))) <= 4


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
def test_failed_case_is_explained(tmp_path: Path, more: dict[str, Any], fault: str) -> None:
    ran = kore(
        "eval",
        "--scripted",
        "--json",
        case(tmp_path, **more),
        home=tmp_path / "kore",
        environ=LOOSE,
    )
    assert ran.returncode == 1
    (result,) = runs(ran)
    assert not result["passed"]
    assert fault in " ".join(result["faults"])


def test_case_failed_by_the_machine_is_reported_and_others_are_judged(tmp_path: Path) -> None:
    # The name is too long for any file system.
    broken = case(tmp_path, name="broken", workspace={"x" * 300: ""}).rename(tmp_path / "a.json")
    sound = case(tmp_path, script=[WRITE, "Done."])
    ran = kore("eval", "--scripted", "--json", broken, sound, home=tmp_path / "kore")
    assert ran.returncode == 1, ran.stderr
    assert [run["passed"] for run in runs(ran)] == [False, True]
    assert "it could not be run" in runs(ran)[0]["faults"][0]
    assert "too long" in runs(ran)[0]["faults"][0]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_check_command_is_confined_like_a_command_of_the_model(tmp_path: Path) -> None:
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
        ({"checks": [{"file": "a", "absent": True, "at_least": 1}]}, "at_least has no file"),
        ({"checks": [{"file": "a", "unchanged": True}]}, "workspace lacks it"),
        ({"checks": [{"answer_matches": "("}]}, "not a regular expression"),
        ({"checks": [{"file": "a", "matches": "["}]}, "not a regular expression"),
        ({"name": "No Name"}, "name"),
        ({"tasks": "go"}, "tasks: there is no such key; expected one of name, about, kind"),
        ({"checks": [{"fle": "a"}]}, r"checks\.0\.fle: there is no such key; expected one of file"),
        ({"script": [{"calls": [{"arguments": {}}]}]}, r"calls\.0\.name is missing"),
    ],
)
def test_invalid_case_is_named(tmp_path: Path, more: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError, match=f"one.json.*{where}"):
        list(load_cases([case(tmp_path, **more)]))


def test_case_names_are_unique(tmp_path: Path) -> None:
    first = case(tmp_path)
    (tmp_path / "two.json").write_text(first.read_text())
    with pytest.raises(ConfigError, match=r"two.json.*one.json"):
        list(load_cases([tmp_path]))


@pytest.mark.parametrize(
    ("model", "subject"),
    [
        ((), "no model to evaluate"),
        (("--model", "nobody/x"), "unknown vendor or model"),
        (("--model", "openai/gpt-5"), "needs an API key"),
    ],
)
def test_unusable_model_is_reported_before_any_case_runs(
    tmp_path: Path, model: tuple[str, ...], subject: str
) -> None:
    ran = kore("eval", *model, case(tmp_path), home=tmp_path / "kore")
    assert ran.returncode == 2
    assert subject in ran.stderr
    assert ran.stdout == ""


def test_evaluation_names_the_provider(tmp_path: Path) -> None:
    words = 'say "!tool write_file" to nobody'
    file = case(tmp_path, task=words, checks=[{"answer_contains": words}])
    ran = kore("eval", "--model", "offline/echo", file, home=tmp_path / "kore")
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.startswith("1 run with offline/echo\npass  one")
    ran = kore("eval", "--scripted", "--json", file, home=tmp_path / "kore")
    assert json.loads(ran.stdout)["with"] == "scripts"


def test_documented_case_passes_with_its_script(tmp_path: Path) -> None:
    (shown,) = blocks(page("evaluation"), "json")
    (tmp_path / "shown.json").write_text(shown)
    ran = kore("eval", "--scripted", tmp_path / "shown.json", home=tmp_path / "kore", environ=LOOSE)
    assert ran.returncode == 0, ran.stdout


def test_case_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    file = case(tmp_path, workspace={"../out.txt": "x"}, script=["x"])
    ran = kore("eval", "--scripted", file, home=tmp_path / "kore")
    assert ran.returncode == 2
    assert "outside its workspace" in ran.stderr
    assert not (tmp_path / "out.txt").exists()


def test_echo_passes_no_shipped_case(tmp_path: Path) -> None:
    ran = kore(
        *("eval", "--model", "offline/echo", "-j", "4", "--json", ROOT / "evals"),
        home=tmp_path / "kore",
        environ=LOOSE,
    )
    assert [run["case"] for run in runs(ran) if run["passed"]] == []
    # A case that changes a repository has a command that fails on the unchanged repository.
    changes = [run for run in runs(ran) if run["kind"] not in (None, "answer")]
    assert len(changes) >= 24
    entries = [
        change for change in changes if any("` ended with" in fault for fault in change["faults"])
    ]
    assert [
        change["case"] for change in changes if change not in entries and not change["skipped"]
    ] == []


@pytest.mark.programs("git")
async def test_shipped_case_runs_with_a_model_over_a_socket(
    tmp_path: Path, model_server: ModelServer
) -> None:
    model_server.script(
        ReplyScript(tool_calls=(Call("grep", {"pattern": "payment"}),)),
        ReplyScript(text="SlidingWindow"),
    )
    home = tmp_path / "kore"
    home.mkdir()
    entry = {"model_name": "big", "model": "openai/fake", "api_base": model_server.base_url}
    config = {"model_list": [{**entry, "api_key": "k", "price_input_usd": 1}]}
    (home / "config.json").write_text(json.dumps(config))
    place = ROOT / "evals" / "tokenbucket" / "which-in-production.toml"
    words = ("eval", "--model", "big", "--json", place)
    ran = await asyncio.to_thread(kore, *words, home=home, environ=LOOSE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (result,) = runs(ran)
    assert (result["steps"], result["kind"]) == (2, "answer")
    assert "choosing.md" in json.dumps(model_server.requests[1].body)
    assert json.loads(ran.stdout)["totals"]["tokens"] > 1000


def repository(folder: Path, *commits: dict[str, str]) -> Path:
    """Make a repository in the form that cases use, with one mapping of files per commit."""
    for number, files in enumerate(commits, 1):
        (folder / "repository").mkdir(exist_ok=True)
        (folder / "repository" / f"{number}.txt").write_text(f"Change {number}\n")
        for name, content in files.items():
            path = folder / "repository" / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return folder / "repository"


def in_repository(folder: Path, text: str) -> Path:
    repository(folder, {"a.txt": "1\n", "run.sh": "echo hi\n"}, {"a.txt": "2\n"})
    (folder / "repository" / "1" / "run.sh").chmod(0o755)
    file = folder / "one.toml"
    file.write_text(f'name = "one"\ntask = "go"\nrepository = "repository"\n{text}')
    return file


def test_repository_has_its_history_and_hidden_files_appear_for_the_checks(
    tmp_path: Path,
) -> None:
    file = in_repository(
        tmp_path,
        r"""
        checks = [
          {command = "test \"$(git log --format=%s | tr '\\n' ,)\" = 'Change 2,Change 1,'"},
          {command = "git show HEAD~1:a.txt | grep -q 1 && ./run.sh && cat secret.txt"},
          {command = "test \"$(git status --porcelain)\" = '?? secret.txt'"},
          {file = "a.txt", equals = "2\n"},
          {file = "a.txt", unchanged = true},
        ]
        hidden = {"secret.txt" = "x"}
        [[script]]
        calls = [{name = "exec", arguments = {command = "test ! -e secret.txt || touch seen"}}]
        [[script]]
        text = "Done."
        """,
    )
    ran = kore("eval", "--scripted", file, home=tmp_path / "kore", environ=LOOSE)
    assert ran.returncode == 0, ran.stdout


def test_case_with_a_missing_program_is_skipped_with_the_reason(tmp_path: Path) -> None:
    file = case(tmp_path, needs=["no-such-program"], script=["Done."])
    ran = kore("eval", "--scripted", file, home=tmp_path / "kore")
    assert ran.returncode == 0, ran.stdout
    assert "skip  one" in ran.stdout
    assert "no-such-program not installed" in ran.stdout
    assert "0 of 0 cases passed, 1 skipped" in ran.stdout


@pytest.mark.skipif(bool(LOOSE), reason="bubblewrap is not installed")
def test_slow_case_is_stopped(tmp_path: Path) -> None:
    calls = [{"name": "exec", "arguments": {"command": "sleep 100"}}]
    file = case(tmp_path, max_seconds=0.2, script=[{"calls": calls}, "Done."])
    ran = kore("eval", "--scripted", file, home=tmp_path / "kore")
    assert ran.returncode == 1
    assert "it took longer than 0.2 s" in ran.stdout


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("checks = [", "not valid TOML"),
        ('repository = "elsewhere"\nchecks = [{file = "b", unchanged = true}]', "no commits found"),
    ],
)
def test_invalid_toml_case_is_named(tmp_path: Path, text: str, where: str) -> None:
    file = tmp_path / "one.toml"
    file.write_text(f'name = "one"\ntask = "go"\n{text}')
    with pytest.raises(ConfigError, match=where):
        list(load_cases([file]))
