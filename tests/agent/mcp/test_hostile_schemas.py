"""Schemas of MCP servers must not fetch URLs, open files, stall or crash."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from agent.agent import Agent
from agent.approvals import ApprovalRequest
from agent.mcp.settings import McpSettings
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.engine import DefaultPolicy
from agent.tools.runner import Permissions
from agent.types import JsonSchema, ToolCall
from tests.agent.mcp.serving import stand_in
from tests.agent.props import AuditList, call, calls, results
from tests.agent.tools.hostile_schemas import HOSTILE_SCHEMAS

pytest.importorskip("mcp", reason="needs the extra mcp")


class Person:
    """Approves everything and records the requests."""

    def __init__(self) -> None:
        self.questions: list[ApprovalRequest] = []

    async def ask(self, question: ApprovalRequest) -> Literal["once"]:
        self.questions.append(question)
        return "once"


async def run_call(
    folder: Path, schema: Any, planned: ToolCall, mode: str = "auto", kind: str = "schema"
) -> tuple[str, AuditList, Person]:
    """Run one call of a server with this schema; return what the model reads, the record and the
    approval requests."""
    file = folder / "schema.json"
    file.write_text(json.dumps(schema))
    audit, person = AuditList(), Person()
    policy = DefaultPolicy(mode)  # type: ignore[arg-type]
    agent = Agent(
        ScriptedProvider([calls(planned), "bye"]),
        workspace=folder / "work",
        approve=Permissions(policy, person, audit),
        mcp_servers=McpSettings((stand_in(f"{kind}={file}"),), folder / "mcp"),
    )
    async with agent:
        result = await agent.run("go")
    (text,) = results(result.messages)
    return text, audit, person


def draft_4(address: str) -> JsonSchema:
    """Return a draft 4 schema, for which some validators fetch a URL."""
    return {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": f"{address}#f",
        "type": "object",
        "properties": {"text": {"$ref": "#/d"}},
        "d": {},
    }


@pytest.mark.parametrize("mode", ["plan", "auto"])
async def test_schema_does_not_fetch_urls(tmp_path: Path, mode: str) -> None:
    visits: list[bytes] = []

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(visited, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        schema = draft_4(f"http://127.0.0.1:{port}/secret")
        text, audit, _ = await run_call(tmp_path, schema, call("mcp__s__echo", text="x"), mode)
    assert visits == []
    assert [entry.allowed for entry in audit.entries] == [mode == "auto"]
    assert text == ("x" if mode == "auto" else text)


async def test_schema_does_not_open_files(tmp_path: Path) -> None:
    async with asyncio.timeout(20):
        planned = call("mcp__s__echo", text="x")
        text, _, _ = await run_call(tmp_path, draft_4("file:///dev/zero"), planned)
    assert text == "x"


# The SDK does not recognize these as messages and keeps waiting.
UNREADABLE = {"names with half a character", "pattern of half a character", "deep tree"}


@pytest.mark.parametrize("name", sorted(HOSTILE_SCHEMAS.keys() - UNREADABLE))
async def test_hostile_schema_fails_at_most_one_call(tmp_path: Path, name: str) -> None:
    schema = HOSTILE_SCHEMAS[name]
    properties = schema.get("properties")
    if isinstance(properties, dict) and "a" in properties:
        schema = {**schema, "properties": {**properties, "text": properties["a"]}}
    planned = call("mcp__s__echo", text="a" * 3_000)
    text, audit, _ = await run_call(tmp_path, {"type": "object", **schema}, planned)
    # The SDK does not recognize some of them as tools.
    assert len(audit.entries) == 1 or text.startswith("There is no tool")


async def test_uncheckable_arguments_are_rejected_on_record(tmp_path: Path) -> None:
    planned = call("mcp__s__echo", text="x")
    text, audit, person = await run_call(tmp_path, {"type": "object", "$ref": "#"}, planned)
    assert "too large or too deep to be checked" in text
    (entry,) = audit.entries
    assert entry.allowed is False
    assert entry.reason.startswith("wrong arguments: mcp__s__echo was not called")
    # A person is asked only about calls that can run.
    assert person.questions == []


async def test_denied_call_is_not_validated(tmp_path: Path) -> None:
    planned = call("mcp__s__echo", text="x")
    text, audit, _ = await run_call(tmp_path, {"type": "object", "$ref": "#"}, planned, "plan")
    assert "checked" not in text
    assert "(plan" in audit.entries[0].reason


async def test_result_schema_is_not_evaluated(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": "^(a|a)*b$"}}}
    began_at = time.monotonic()
    planned = call("mcp__s__echo", text="x")
    text, _, _ = await run_call(tmp_path, schema, planned, kind="output")
    assert text == "a" * 30
    assert time.monotonic() - began_at < 10
