"""Tools of any origin whose schemas and arguments would stall or end a turn."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.engine import DefaultPolicy
from agent.tools.base import CallContext, Tool
from agent.tools.function_tool import tool
from agent.tools.runner import Permissions
from agent.types import JsonSchema, ToolCall, ToolResult
from tests.agent.props import AuditList, Handmade, calls, results
from tests.agent.tools.hostile_schemas import HOSTILE_ARGUMENTS, HOSTILE_SCHEMAS


async def run(folder: Path, given: Tool, arguments: dict[str, Any]) -> tuple[str, AuditList]:
    """Return the result of one call and its audit log."""
    audit = AuditList()
    planned = calls(ToolCall("c1", "act", arguments, "{}"))
    model = ScriptedProvider([planned, "bye"])
    permissions = Permissions(DefaultPolicy("auto"), audit=audit)
    agent = Agent(model, tools=[given], approve=permissions, workspace=folder)
    result = await agent.run("go")
    assert result.text == "bye"
    (text,) = results(result.messages)
    return text, audit


async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
    return ToolResult("done")


def made(schema: JsonSchema) -> Handmade:
    """Return a tool as a plugin or a program adds it to an agent."""
    return Handmade("act", body, parameters=schema)


@pytest.mark.parametrize("schema", HOSTILE_SCHEMAS.values(), ids=HOSTILE_SCHEMAS)
async def test_hostile_schema_gives_a_result_or_a_recorded_denial(
    tmp_path: Path, schema: JsonSchema
) -> None:
    text, audit = await run(tmp_path, made(schema), {"a": "a" * 3_000})
    (entry,) = audit.entries
    assert entry.allowed == (text == "done")


@pytest.mark.parametrize("arguments", HOSTILE_ARGUMENTS.values(), ids=HOSTILE_ARGUMENTS)
async def test_hostile_arguments_give_a_result_or_a_recorded_denial(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    schema: JsonSchema = {"type": "object", "properties": {"a": {"type": "string"}}}
    text, audit = await run(tmp_path, made(schema), arguments)
    (entry,) = audit.entries
    assert entry.allowed == (text == "done")


@tool(name="act", effect="read")
def user_tool(a: Annotated[str, Field(pattern="^(a|a)*b$", max_length=50_000)]) -> str:
    """Do something."""
    return "done"


@pytest.mark.parametrize("arguments", HOSTILE_ARGUMENTS.values(), ids=HOSTILE_ARGUMENTS)
async def test_hostile_arguments_of_a_function(tmp_path: Path, arguments: dict[str, Any]) -> None:
    text, audit = await run(tmp_path, user_tool, arguments)
    assert text != "done"
    assert len(audit.entries) == 1


class BrokenSchema(dict[str, Any]):
    """A schema that fails while arguments are read."""

    def get(self, name: str, default: Any = None) -> Any:
        if name == "required":
            raise RuntimeError("no schema today")
        return super().get(name, default)


async def test_failure_while_reading_arguments_is_a_recorded_denial(tmp_path: Path) -> None:
    text, audit = await run(tmp_path, made(BrokenSchema(type="object")), {})
    assert text == "act failed: RuntimeError: no schema today"
    (entry,) = audit.entries
    assert not entry.allowed
    assert entry.reason == f"not understood: {text}"
