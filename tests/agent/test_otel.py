"""Traces, as recorded by the real OpenTelemetry SDK."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import kore
from agent.errors import RateLimited
from agent.providers.scripted import ScriptedProvider
from kore.otel import CONTENT_VARIABLE, OpenTelemetry
from tests.agent.props import call, calls
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript


class Traces:
    """Records finished spans."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def spans(self) -> list[ReadableSpan]:
        """Return the spans in the order of their start."""
        return sorted(self.exporter.get_finished_spans(), key=lambda item: item.start_time or 0)

    def span_named(self, name: str) -> ReadableSpan:
        (span,) = [item for item in self.spans() if item.name == name]
        return span


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    yield made
    made.provider.shutdown()


@kore.tool
def look(place: str) -> str:
    """Look somewhere."""
    if place == "nowhere":
        raise kore.ToolError("secret place")
    return f"a {place}"


def agent_of(model: Any, tmp_path: Path, traces: Traces, **options: Any) -> kore.Agent:
    tracing = OpenTelemetry(traces.provider, include_content=options.pop("content", None))
    options.setdefault("tools", [look])
    return kore.Agent(model, workspace=tmp_path, tracing=tracing, **options)


async def test_turn_is_a_tree_of_spans(tmp_path: Path, traces: Traces) -> None:
    model = ScriptedProvider([calls(call("look", place="door")), "a door"])
    settings = kore.ModelSettings(temperature=0.5, max_tokens=99, top_p=0.9, seed=3)
    agent = agent_of(model, tmp_path, traces, name="scout", model_settings=settings)
    with traces.provider.get_tracer("program").start_as_current_span("request"):
        result = await agent.run("what is there?", session="s")
    spans = traces.spans()
    names = ["request", "invoke_agent scout", "chat scripted", "execute_tool look", "chat scripted"]
    assert [span.name for span in spans] == names
    request, turn, first, tool, second = spans
    assert turn.parent is not None
    assert request.context is not None
    assert turn.parent.span_id == request.context.span_id
    for item in (first, tool, second):
        assert item.parent is not None
        assert turn.context is not None
        assert item.parent.span_id == turn.context.span_id
    kinds = [span.kind for span in spans[1:]]
    assert kinds == [SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.CLIENT]
    assert dict(turn.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "s",
        "gen_ai.agent.name": "scout",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": result.usage.input,
        "gen_ai.usage.output_tokens": result.usage.output,
        "gen_ai.usage.cache_read.input_tokens": 0,
    }
    chat = dict(first.attributes or {})
    assert chat["gen_ai.operation.name"] == "chat"
    assert chat["gen_ai.request.temperature"] == 0.5
    assert chat["gen_ai.request.max_tokens"] == 99
    assert (chat["gen_ai.request.top_p"], chat["gen_ai.request.seed"]) == (0.9, 3)
    assert chat["gen_ai.usage.input_tokens"] > 0
    assert dict(tool.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.description": "Look somewhere.",
    }
    # Spans contain no text of the conversation.
    assert "door" not in "".join(span.to_json() for span in spans)


@pytest.mark.parametrize("by", ["argument", "environment"])
async def test_content_is_recorded_only_on_request(
    tmp_path: Path, traces: Traces, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "environment":
        monkeypatch.setenv(CONTENT_VARIABLE, "true")
    model = ScriptedProvider([calls(call("look", place="door")), "a door"])
    content = True if by == "argument" else None
    agent = agent_of(model, tmp_path, traces, content=content, instructions="Be kind.")
    await agent.run(["what?", kore.Image("image/png", b"\x89PNG\r\n\x1a\n" + bytes(9))])
    second = [span for span in traces.spans() if span.name.startswith("chat")][1]
    asked_for = dict(second.attributes or {})
    assert "Be kind." in str(asked_for["gen_ai.system_instructions"])
    messages = json.loads(str(asked_for["gen_ai.input.messages"]))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert [part["type"] for part in messages[0]["parts"]] == ["text", "blob"]
    (part,) = messages[1]["parts"]
    assert part == {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"place": "door"}}
    (part,) = messages[2]["parts"]
    assert part == {"type": "tool_call_response", "id": "c1", "response": "a door"}
    (answer,) = json.loads(str(asked_for["gen_ai.output.messages"]))
    assert answer["parts"] == [{"type": "text", "content": "a door"}]
    tool = dict(traces.span_named("execute_tool look").attributes or {})
    assert json.loads(str(tool["gen_ai.tool.call.arguments"])) == {"place": "door"}
    assert tool["gen_ai.tool.call.result"] == "a door"


async def test_failures_are_marked_and_not_quoted(tmp_path: Path, traces: Traces) -> None:
    model = ScriptedProvider([calls(call("look", place="nowhere")), RateLimited("secret words")])
    with pytest.raises(kore.ProviderError):
        await agent_of(model, tmp_path, traces).run("?")
    kinds = {span.name: (span.attributes or {}).get("error.type") for span in traces.spans()}
    assert kinds["execute_tool look"] == "tool"
    assert kinds["invoke_agent main"] == "rate-limited"
    last = traces.spans()[-1]
    assert (last.name, last.status.status_code) == ("chat scripted", StatusCode.ERROR)
    assert (last.attributes or {})["error.type"] == "rate-limited"
    assert "secret" not in "".join(span.to_json() for span in traces.spans())


async def test_subagents_and_handoffs_are_in_the_same_tree(tmp_path: Path, traces: Traces) -> None:
    result = call("task", description="d", prompt="p", subagent_type="poet")
    model = ScriptedProvider([calls(result), "a line", calls(call("transfer_to_billing"))])
    billing = kore.Agent(ScriptedProvider(["paid"]), name="billing", workspace=tmp_path)
    poet = kore.Definition("poet", "Writes.", "You write.")
    agent = agent_of(model, tmp_path, traces, subagents=[poet], handoffs=[billing])
    with traces.provider.get_tracer("program").start_as_current_span("request"):
        await agent.run("?")
    by_id = {span.context.span_id: span for span in traces.spans() if span.context}

    def above(name: str) -> str:
        parent = traces.span_named(name).parent
        return by_id[parent.span_id].name if parent else ""

    assert above("invoke_agent poet") == "execute_tool task"
    assert above("execute_tool task") == "invoke_agent main"
    assert above("invoke_agent billing") == "request"
    assert len({span.context.trace_id for span in traces.spans() if span.context}) == 1


async def test_vendor_has_its_conventional_name(
    tmp_path: Path, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer() as server:
        server.script(ReplyScript(text="hi"))
        entry = kore.ModelConfig("m", "mistral/small", api_base=server.base_url, api_key="k")
        models = kore.Models("m", known=[entry])
        async with agent_of(models, tmp_path, traces, tools=[]) as agent:
            await agent.run("?")
    span = traces.span_named("chat small")
    assert (span.attributes or {})["gen_ai.provider.name"] == "mistral_ai"
    assert (span.attributes or {})["gen_ai.response.finish_reasons"] == ("stop",)


def test_disabled_tracing_imports_nothing() -> None:
    program = "import sys, kore; kore.run_sync('hi', model='offline/echo');"
    program += "print([one for one in sys.modules if one.startswith('opentelemetry')])"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
