"""Servers whose tools count as tools that edit files."""

from pathlib import Path
from typing import Any

import pytest

from agent.mcp.listing import AcceptedTools, McpToolDefinition
from agent.mcp.settings import McpServerSettings
from agent.mcp.tool import McpTool
from agent.tools.base import EffectPlan
from agent.types import ToolResult

DEFINITION = McpToolDefinition("note", "Take a note", {"type": "object"})


async def invoke(*_: Any) -> ToolResult:
    raise AssertionError("nothing is called")


def kind_of(server: McpServerSettings, *, is_sandboxed: bool = True) -> str | None:
    tool = McpTool(
        "mcp__w__note", DEFINITION, server, invoke, AcceptedTools(), is_sandboxed=is_sandboxed
    )
    return EffectPlan().request(tool, {}, Path("/w")).kind


def test_server_with_a_folder_may_edit(tmp_path: Path) -> None:
    assert kind_of(McpServerSettings("w", "prog", folder=tmp_path)) == "edit"
    assert kind_of(McpServerSettings("w", "prog", (str(tmp_path),))) == "edit"
    assert kind_of(McpServerSettings("w", "prog", folder=tmp_path, read_only=True)) == "other"
    assert kind_of(McpServerSettings("w", "prog")) == "other"


@pytest.mark.parametrize("is_read_only", [True, False])
def test_server_outside_a_sandbox_may_edit(tmp_path: Path, is_read_only: bool) -> None:
    server = McpServerSettings("w", "prog", folder=tmp_path, read_only=is_read_only)
    assert kind_of(server, is_sandboxed=False) == "edit"
    assert kind_of(McpServerSettings("w", "prog"), is_sandboxed=False) == "edit"


def test_remote_server_may_edit_unless_declared_read_only() -> None:
    server = McpServerSettings("w", url="http://localhost:8000/mcp")
    assert kind_of(server) == "edit"
    read_only = McpServerSettings("w", url="http://localhost:8000/mcp", read_only=True)
    assert kind_of(read_only) == "other"
