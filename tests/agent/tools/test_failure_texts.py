"""Errors of the owner's services do not reveal details in conversations with others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError, KeyRefused, KoreError, Rejected, ToolError
from agent.security.policy.base import Decision, ToolRequest
from agent.settings import ToolSettings
from agent.tools.assistant.memory_search import MemorySearch
from agent.tools.assistant.schedule import ScheduleTool
from agent.tools.base import CallContext, ScheduleRequest, Tool
from agent.tools.creative.image_generate import ServiceRefused
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.types import ToolResult
from tests.agent.props import Handmade, call, call_context

SECRET = "balance 3 USD at http://10.0.0.5:8080 in /home/ann/.kore/config.json"
FAILURES = [
    KeyRefused(SECRET),
    Rejected(SECRET),
    ConfigError(SECRET),
    ServiceRefused(SECRET),
    RuntimeError(SECRET),
    ExceptionGroup(SECRET, [ValueError("x")]),
]


async def run(
    tool: Tool, folder: Path, *, is_owner: bool, arguments: Mapping[str, Any], **more: Any
) -> str:
    """Return the result that the model reads."""
    context = call_context(tool.name, folder)
    environment = replace(context.environment, owner=is_owner, **more)
    context = replace(context, call=call(tool.name, **arguments), environment=environment)
    runner = ToolRunner(ToolRegistry([tool]), Permissions(_Everything()), timeout_s=10)

    async def on_start() -> None:
        pass

    return (await runner.run(context, on_start)).for_model


class _Everything:
    def decide(self, request: ToolRequest) -> Decision:
        return Decision("allow", "a test", "test")


def failing(failure: Exception) -> Handmade:
    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        raise failure

    return Handmade("act", body)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda item: type(item).__name__)
async def test_only_the_owner_sees_service_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    tool = failing(failure)
    assert SECRET in await run(tool, tmp_path, is_owner=True, arguments={})
    caplog.clear()
    text = await run(tool, tmp_path, is_owner=False, arguments={})
    assert text
    assert SECRET not in text
    assert SECRET in caplog.text


async def test_tool_errors_are_shown_to_guests(tmp_path: Path) -> None:
    text = await run(failing(ToolError("Not on Sundays.")), tmp_path, is_owner=False, arguments={})
    assert text == "Not on Sundays."


@pytest.mark.parametrize("is_owner", [True, False])
async def test_memory_search_reports_a_failed_service(tmp_path: Path, is_owner: bool) -> None:
    (tmp_path / "MEMORY.md").write_text("- tea at five\n")

    async def similarity(query: str, texts: Sequence[str]) -> list[float]:
        raise KeyRefused(SECRET)

    async def recall(words: str, most: int) -> list[Any]:
        raise Rejected(SECRET)

    text = await run(
        *(MemorySearch(ToolSettings()), tmp_path),
        is_owner=is_owner,
        arguments={"query": "tea"},
        similarity=similarity,
        recall=recall,
    )
    assert "tea at five" in text
    assert "searched by words alone" in text
    assert (SECRET in text) == is_owner


class FailingSchedule:
    """A schedule whose check and call both raise the error."""

    def __init__(self, error: KoreError) -> None:
        self._error = error

    async def check(self, request: ScheduleRequest, call: CallContext) -> None:
        raise self._error

    async def __call__(self, request: ScheduleRequest, call: CallContext) -> ToolResult:
        raise self._error


@pytest.mark.parametrize("is_owner", [True, False])
async def test_scheduler_failure_is_reported(tmp_path: Path, is_owner: bool) -> None:
    arguments = {"when": "in 1h", "text": "tea", "action": "add"}
    tool = ScheduleTool()
    broken = FailingSchedule(ConfigError("the zone is wrong", hint=SECRET))
    text = await run(tool, tmp_path, is_owner=is_owner, arguments=arguments, schedule=broken)
    assert (SECRET in text) == is_owner
    full = FailingSchedule(
        KoreError("there are too many jobs", hint="Remove one with `/schedule`.")
    )
    text = await run(tool, tmp_path, is_owner=is_owner, arguments=arguments, schedule=full)
    assert "Remove one" in text
