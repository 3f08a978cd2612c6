"""Rules for editing files also apply to tools that a role does not name."""

from pathlib import Path
from typing import Any

import pytest

from agent.security.policy.base import ToolRequest
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles, parse_policy
from agent.security.policy.roles import Role
from agent.settings import ToolSettings
from agent.tools.base import EffectPlan
from agent.tools.built_in import default_tools
from agent.tools.function_tool import tool
from agent.tools.traits import UNKNOWN, ToolTraits, traits_of
from agent.turn.tool_catalog import built_in_tools, known_tools
from agent.types import ToolKind

WORKSPACE = Path("/w")
SOURCE = (WORKSPACE / "src" / "a.py",)
DOCUMENT = (WORKSPACE / "docs" / "a.md",)
NO_EDITING = (
    '{"*": {}, write_file: false, edit_file: false, append_file: false, apply_patch: false,'
    " move_file: false}"
)


def role(tools: str) -> Role:
    return parse_policy(f"roles: {{mine: {{tools: {tools}}}}}", "p", known_tools()).roles["mine"]


def request(name: str, kind: ToolKind, **plan: Any) -> ToolRequest:
    return ToolRequest(name, "unsafe", {}, WORKSPACE, traits=ToolTraits(kind), **plan)


def rule(tools: str, tool_request: ToolRequest, mode: Any = "auto") -> str:
    decision = RolePolicy(PrincipalContext(role(tools), mode, is_confined=True)).decide(
        tool_request
    )
    return decision.verdict if decision.verdict == "allow" else decision.rule


@pytest.mark.parametrize("name", ["lsp_edit", "sync_virtual", "undo", "edit_of_a_plugin"])
def test_denied_editing_covers_every_tool_that_edits(name: str) -> None:
    assert rule(NO_EDITING, request(name, "edit", changes=SOURCE)) == "role-editing"


def test_denied_editing_covers_an_unknown_tool_that_plans_changes() -> None:
    assert rule(NO_EDITING, request("deploy", "other", creates=SOURCE)) == "role-editing"


def test_rules_for_editing_ignore_other_tools() -> None:
    assert rule(NO_EDITING, request("read_file", "read", reads=SOURCE)) == "allow"
    assert rule(NO_EDITING, request("remember", "think", changes=SOURCE)) == "allow"


def test_editing_scopes_apply_to_unnamed_tools() -> None:
    limited = '{"*": {}, write_file: {paths: ["docs/**"]}}'
    assert rule(limited, request("edit_file", "edit", changes=DOCUMENT)) == "allow"
    assert rule(limited, request("edit_file", "edit", changes=SOURCE)) == "role-paths"
    assert rule(limited, request("edit_file", "edit")) == "role-unplanned"
    new_only = '{"*": {}, write_file: {new_files_only: true}}'
    assert rule(new_only, request("lsp_edit", "edit", changes=SOURCE)) == "role-new-files"
    asks = '{"*": {}, edit_file: {ask: true}}'
    assert rule(asks, request("lsp_edit", "edit", changes=SOURCE), "accept-edits") == "role-ask"


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (NO_EDITING, "role-editing"),
        ('{"*": {}, write_file: {paths: ["docs/**"]}}', "role-unplanned"),
        ('{"*": {}, write_file: {new_files_only: true}}', "role-unplanned"),
        ('{"*": {}, write_file: false, mcp__w__note: {}}', "allow"),
        ('{"*": {}, write_file: false, "mcp__w__*": {}}', "allow"),
        ('{"*": {}, write_file: false, "mcp__v__*": {}}', "role-editing"),
        ('{"*": {}, write_file: {}}', "allow"),
    ],
)
def test_editing_limit_applies_to_a_writing_server(tools: str, expected: str) -> None:
    assert rule(tools, request("mcp__w__note", "edit")) == expected
    assert rule(tools, request("mcp__w__note", "other")) == "allow"


def test_named_tool_follows_its_own_rule() -> None:
    named = '{"*": {}, write_file: false, lsp_edit: {}}'
    assert rule(named, request("lsp_edit", "edit", changes=SOURCE)) == "allow"
    assert rule(named, request("edit_file", "edit", changes=SOURCE)) == "role-editing"


def test_denied_moving_does_not_deny_editing() -> None:
    no_moves = '{"*": {}, move_file: false}'
    assert rule(no_moves, request("edit_file", "edit", changes=SOURCE)) == "allow"


def test_role_with_tool_list_denies_others() -> None:
    closed = "{edit_file: {}}"
    assert rule(closed, request("lsp_edit", "edit", changes=SOURCE)) == "role-tool"


def test_escalating_role_asks_about_an_editing_tool() -> None:
    text = f"roles: {{mine: {{escalate: ask, tools: {NO_EDITING}}}}}"
    escalating = parse_policy(text, "p", known_tools()).roles["mine"]
    policy = RolePolicy(PrincipalContext(escalating, "auto"))
    decision = policy.decide(request("lsp_edit", "edit", changes=SOURCE))
    assert decision.rule == "role-escalation"


def test_every_built_in_tool_declares_its_kind_and_can_be_named() -> None:
    for name, traits in built_in_tools().items():
        assert traits is not UNKNOWN, name
        assert name in role(f"{{{name}: {{}}}}").tools
    for built_in in default_tools(ToolSettings()):
        assert built_in.effect == "read" or traits_of(built_in) is not UNKNOWN


@pytest.mark.parametrize("name", ["outline", "lsp_edit", "create_virtual", "image_generate"])
def test_optional_tools_can_be_named(name: str) -> None:
    assert set(role(f"{{{name}: {{}}}}").tools) == {name}


def test_names_in_the_built_in_roles_are_those_of_tools() -> None:
    names = {name for built_in in built_in_roles().values() for name in built_in.tools} - {"*"}
    assert all(known_tools().canonical(name) == name for name in names)


def test_function_can_declare_that_it_edits_files() -> None:
    @tool(kind="edit")
    def tidy() -> str:
        """Tidy up."""
        return "done"

    known = known_tools([tidy])
    assert tidy.traits == ToolTraits("edit")
    assert known.kinds(["tidy"]) == {"tidy": "edit"}
    assert EffectPlan().request(tidy, {}, WORKSPACE).kind == "edit"
