"""Calls that the policy cannot judge are rejected and recorded, and the turn continues."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider
from agent.security.audit import AuditEntry
from agent.security.policy.base import Decision, ToolRequest
from agent.security.policy.engine import DefaultPolicy, PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.tools.base import CallContext, EffectPlan, Tool
from agent.tools.runner import Permissions
from agent.types import ToolResult
from tests.agent.props import Handmade, call, calls, results

# Lone surrogates, null characters and excessive lengths: invalid names for the operating system.
NO_NAMES = ["\ud800", "a\0b", "x/\udfff/../y", "\udcff", "/proc/1/cwd/x", "a" * 5000, "d/" * 3000]


class Record:
    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    async def record(self, entry: AuditEntry) -> None:
        self.entries.append(entry)


class Breaks:
    """A policy that raises an error, as after a bug or a swapped folder."""

    def decide(self, request: ToolRequest) -> Decision:
        raise PermissionError(13, "Permission denied", "/proc/1/cwd")


class Unprepared(Handmade):
    async def plan(self, args: Mapping[str, Any], context: CallContext) -> EffectPlan:
        raise NotADirectoryError(20, "Not a directory", "swapped")


def role_policy(mode: str = "auto") -> RolePolicy:
    return RolePolicy(PrincipalContext(built_in_roles()["build"], mode))  # type: ignore[arg-type] # any mode


def read(path: str, folder: Path) -> ToolRequest:
    return ToolRequest("look", "read", {"path": path}, folder)


async def run_call(
    path: str, folder: Path, tool: Tool, permissions: Permissions
) -> tuple[str, str]:
    """Return the result of a call as the model reads it, and its final text."""
    model = ScriptedProvider([calls(call(tool.name, path=path)), "bye"])
    result = await Agent(model, tools=[tool], approve=permissions, workspace=folder).run("go")
    (outcome,) = results(result.messages)
    return outcome, result.text


async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
    return ToolResult("ran")


@pytest.mark.parametrize("path", NO_NAMES)
def test_unresolvable_path_is_judged(path: str, tmp_path: Path) -> None:
    for mode in ("ask", "auto", "plan"):
        assert role_policy(mode).decide(read(path, tmp_path)).verdict in ("allow", "ask", "deny")
    assert role_policy().decide(read("\ud800", tmp_path)).rule == "unjudged"


def test_forbidden_link_is_judged(tmp_path: Path) -> None:
    try:
        os.readlink("/proc/1/cwd")
    except OSError:
        pass
    else:
        pytest.skip("this user may follow every link")
    decision = role_policy().decide(read("/proc/1/cwd/x", tmp_path))
    # Since Python 3.13 `realpath` treats it like any other path outside, which the tool rejects.
    outside = role_policy().decide(read("/etc/passwd", tmp_path))
    assert decision == outside or (decision.verdict, decision.rule) == ("deny", "unjudged")


async def test_unjudgeable_call_is_rejected_and_recorded(tmp_path: Path) -> None:
    record = Record()
    for permissions in (
        Permissions(Breaks(), audit=record),
        Permissions(DefaultPolicy("auto"), audit=record),
    ):
        result, last = await run_call("\ud800", tmp_path, Handmade("look", body), permissions)
        assert result.startswith("Not allowed: It cannot be analyzed: ")
        assert last == "bye"
    assert [(entry.tool, entry.allowed) for entry in record.entries] == [("look", False)] * 2
    assert all("unjudged" in entry.reason for entry in record.entries)


async def test_unpreparable_call_is_rejected_and_recorded(tmp_path: Path) -> None:
    record = Record()
    permissions = Permissions(DefaultPolicy("auto"), audit=record)
    result, last = await run_call("x", tmp_path, Unprepared("look", body), permissions)
    assert "NotADirectoryError" in result
    assert last == "bye"
    (entry,) = record.entries
    assert not entry.allowed
    assert entry.reason.startswith("not prepared: ")


@given(st.text(st.characters()), st.text(st.characters()))
def test_every_request_gets_a_verdict(command: str, path: str) -> None:
    folder = Path("/tmp")
    tool_request = ToolRequest("exec", "unsafe", {}, folder, command=command, folder=folder)
    for request in (tool_request, read(path, folder)):
        assert role_policy("ask").decide(request).verdict in ("allow", "ask", "deny")
