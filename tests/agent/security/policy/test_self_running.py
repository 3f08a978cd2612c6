"""Approval for new files that other programs run automatically, in foreign folders."""

from pathlib import Path
from typing import Any

import pytest

from agent.security.files.instruction_files import is_self_running
from agent.security.policy.base import ASKED_IN_EVERY_MODE, ToolRequest
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.shell.classifier import only_reads
from agent.security.taint.origin import TrustedOrigins
from tests.agent.security.policy.harmless import HARMLESS

PROJECT = Path("/project")
NAMES = (
    "conftest.py", "src/conftest.py", "setup.py", "Makefile", "package.json", ".npmrc",
    ".cargo/config.toml", ".github/workflows/ci.yml", ".devcontainer/devcontainer.json",
    ".mise.toml", "lefthook.yml", ".anything", "deep/.hidden/file.txt", "PyProject.toml",
)  # fmt: skip
ORDINARY = ("main.py", "src/app.ts", "README.md", "docs/setup.md", "notes...txt", "tests/test_a.py")


def creating(name: str, *, foreign: bool = True, **plan: Any) -> ToolRequest:
    path = PROJECT / name
    return ToolRequest(
        "write_file", "idempotent", {}, PROJECT, creates=(path,), foreign=foreign, **plan
    )


def running(command: str, *, foreign: bool = True) -> ToolRequest:
    reads = only_reads(command, PROJECT, PROJECT)
    return ToolRequest(
        *("exec", "unsafe", {}, PROJECT),
        command=command,
        folder=PROJECT,
        read_only=reads,
        foreign=foreign,
    )


def rule(request: ToolRequest, mode: Any = "accept-edits", trust: Any = "local") -> str:
    principal = PrincipalContext(built_in_roles()["build"], mode, trust, is_confined=True)
    decision = RolePolicy(principal).decide(request)
    return decision.verdict if decision.verdict == "allow" else decision.rule


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
@pytest.mark.parametrize("name", NAMES)
def test_new_self_running_file_asks(name: str, mode: str) -> None:
    assert rule(creating(name), mode) == "ask-self-running"


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_new_file_does_not_ask(name: str) -> None:
    assert rule(creating(name)) == "allow"


@pytest.mark.parametrize("name", NAMES)
def test_personal_workspace_does_not_ask(name: str) -> None:
    assert rule(creating(name, foreign=False)) == "allow"


def test_auto_mode_suffices_only_for_the_owner_at_the_terminal() -> None:
    assert rule(creating(".npmrc"), "auto") == "allow"
    assert rule(creating(".npmrc"), "auto", "remote") == "ask-self-running"
    assert "ask-self-running" not in ASKED_IN_EVERY_MODE


def test_new_program_asks_under_any_name() -> None:
    program = PROJECT / "run"
    assert rule(creating("run", executables=(program,))) == "ask-self-running"
    assert rule(creating("run", executables=(program,), foreign=False)) == "allow"


def test_existing_file_does_not_count_as_new(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").touch()
    request = ToolRequest(
        *("exec", "unsafe", {}, tmp_path), command="echo a >> .npmrc", folder=tmp_path, foreign=True
    )
    assert rule(request) != "ask-self-running"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > conftest.py",
        "cp a.txt .npmrc",
        "mkdir -p .github/workflows",
        "touch src/.hidden",
        "cd src && tee Makefile < a",
    ],
)
def test_command_with_self_running_file_asks(command: str) -> None:
    assert rule(running(command)) == "ask-self-running"
    assert rule(running(command, foreign=False)) != "ask-self-running"


@pytest.mark.parametrize("command", ["go test ./...", "cp a b", "git status", "mkdir src"])
def test_other_commands_do_not_ask(command: str) -> None:
    assert rule(running(command)) == "allow"


def test_harmless_commands_do_not_ask_in_an_untrusted_project() -> None:
    lines = HARMLESS.read_text().splitlines()
    asking = [line for line in lines if rule(running(line)) == "ask-self-running"]
    assert asking == []


def test_plan_file_does_not_count_as_program() -> None:
    assert not is_self_running("/project/.kore/session_plan.md", "/project")
    assert is_self_running("/project/.kore/other.md", "/project")


def test_folders_above_the_workspace_do_not_count() -> None:
    assert not is_self_running("/home/.me/project/a.txt", "/home/.me/project")


@pytest.mark.parametrize(
    ("folder", "taint", "expected"),
    [
        ("personal", (), False),
        ("personal/below", ("untrusted",), False),
        ("trusted", (), False),
        ("trusted", ("untrusted",), True),
        ("elsewhere", (), True),
    ],
)
def test_foreign_folders_are_recognized(
    tmp_path: Path, folder: str, taint: Any, expected: bool
) -> None:
    origin = TrustedOrigins((tmp_path / "personal", tmp_path / "trusted"))
    assert origin.is_foreign(tmp_path / folder, frozenset(taint)) is expected
