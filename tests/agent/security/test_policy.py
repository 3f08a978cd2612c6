from pathlib import Path
from typing import Any

import pytest

from agent.security.policy import DefaultPolicy, ToolRequest

WORKSPACE = Path("/w")


def request(tool: str, effect: Any = "unsafe", **plan: Any) -> ToolRequest:
    return ToolRequest(tool, effect, {}, WORKSPACE, **plan)


READ = request("read_file", "read")
REMEMBER = request("remember", "idempotent")
EXEC = request("exec", command="ls")
RM = request("exec", command="ls; rm x")
NEW = request("write_file", "idempotent", creates=(WORKSPACE / "a",))
OVER = request("write_file", "idempotent", changes=(WORKSPACE / "a",))
EDIT = request("edit_file", changes=(WORKSPACE / "a",))
APPEND = request("append_file", changes=(WORKSPACE / "a",))
APPEND_NEW = request("append_file", creates=(WORKSPACE / "a",))
APPEND_SOUL = request("append_file", changes=(WORKSPACE / "SOUL.md",))
APPEND_MEMORY = request("append_file", changes=(WORKSPACE / "memory/telegram/7/MEMORY.md",))
NEW_IDENTITY = request("write_file", "idempotent", creates=(WORKSPACE / "identity.md",))
NEW_DEEP = request("write_file", "idempotent", creates=(WORKSPACE / "docs/AGENT.md",))
UNKNOWN = request("deploy")


@pytest.mark.parametrize(
    ("asked", "local", "auto", "remote"),
    [
        (READ, "allow", "allow", "allow"),
        (REMEMBER, "allow", "allow", "allow"),
        (EXEC, "ask", "allow", "deny"),
        (RM, "deny", "deny", "deny"),
        (NEW, "allow", "allow", "allow"),
        (OVER, "ask", "allow", "deny"),
        (EDIT, "ask", "allow", "deny"),
        (APPEND, "allow", "allow", "allow"),
        (APPEND_NEW, "allow", "allow", "allow"),
        (APPEND_SOUL, "ask", "allow", "deny"),
        (APPEND_MEMORY, "ask", "allow", "deny"),
        (NEW_IDENTITY, "ask", "allow", "deny"),
        (NEW_DEEP, "allow", "allow", "allow"),
        (UNKNOWN, "ask", "allow", "deny"),
    ],
)
def test_verdicts(asked: ToolRequest, local: str, auto: str, remote: str) -> None:
    assert DefaultPolicy("local").decide(asked).verdict == local
    assert DefaultPolicy("local", auto=True).decide(asked).verdict == auto
    assert DefaultPolicy("remote").decide(asked).verdict == remote
    assert DefaultPolicy("remote", auto=True).decide(asked).verdict == remote


def test_refusals_say_why_and_how() -> None:
    remote = DefaultPolicy("remote")
    for asked in (EXEC, OVER, APPEND_SOUL, UNKNOWN):
        assert "kore agent" in remote.decide(asked).reason
    assert "remember" in remote.decide(APPEND_MEMORY).reason
    assert "`rm`" in remote.decide(RM).reason
    rules = {remote.decide(asked).rule for asked in (EXEC, OVER, APPEND_SOUL, UNKNOWN, RM)}
    assert len(rules) == 5


def test_blocked_commands_are_the_owners_choice() -> None:
    policy = DefaultPolicy("local", auto=True, blocked_commands=("curl",))
    assert policy.decide(RM).verdict == "allow"
    assert policy.decide(request("exec", command="curl x")).verdict == "deny"
