"""OpenTelemetry traces with the semantic conventions for generative AI.

    pip install 'kore-assistant[otel]'

    agent = kore.Agent("openai/gpt-5", tracing=kore.otel.OpenTelemetry())

Each turn is a span `invoke_agent`, each model call below it `chat`, each tool call `execute_tool`.
https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from agent.errors import KoreError
from agent.events import Reply
from agent.providers.base import ModelRequest
from agent.tools.run_context import RunContext
from agent.turn.tracing import TurnTracing
from agent.types import (
    Image,
    ImageFile,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from agent.version import VERSION

# Prompts, answers, arguments and results are recorded only if this or `include_content` is set.
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# Vendors that have another name in the conventions.
_PROVIDERS = {
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
# Settings of a request that are recorded under their own names.
_SETTINGS = ("top_p", "seed", "stop_sequences", "frequency_penalty", "presence_penalty")


class OpenTelemetry:
    """Tracing with spans of the `tracer_provider`, or of the global one."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        include_content: bool | None = None,
    ) -> None:
        """Create a tracer; the default of `include_content` is the variable `CONTENT_VARIABLE`."""
        self._tracer = trace.get_tracer("kore", VERSION, tracer_provider)
        if include_content is None:
            include_content = os.environ.get(CONTENT_VARIABLE, "").lower() in ("1", "true")
        self._has_content = include_content

    def of(self, run: RunContext[Any]) -> TurnTracing:
        """Return the spans of one turn."""
        return _TurnSpans(self._tracer, run, has_content=self._has_content)


class _TurnSpans:
    def __init__(self, tracer: trace.Tracer, run: RunContext[Any], *, has_content: bool) -> None:
        self._tracer = tracer
        self._run = run
        self._has_content = has_content

    @contextmanager
    def agent(self) -> Iterator[Callable[[Result, str, str], None]]:
        name = self._run.agent
        attributes = {"gen_ai.agent.name": name}
        with self._span("invoke_agent", name, SpanKind.INTERNAL, attributes) as span:

            def end(result: Result, provider: str, model: str) -> None:
                span.set_attributes(
                    {
                        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
                        "gen_ai.request.model": model,
                        "gen_ai.usage.input_tokens": result.usage.input,
                        "gen_ai.usage.output_tokens": result.usage.output,
                        "gen_ai.usage.cache_read.input_tokens": result.usage.cached,
                    }
                )
                if self._has_content:
                    span.set_attribute("gen_ai.output.messages", _messages(result.messages[-1:]))
                if result.stopped is not None and result.stopped != "cancelled":
                    _fail(span, result.error_code or result.stopped)

            yield end

    @contextmanager
    def chat(self, provider: str, request: ModelRequest) -> Iterator[Callable[[Reply], None]]:
        options = request.options
        attributes: dict[str, Any] = {
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": request.model,
            "gen_ai.request.temperature": request.temperature,
            "gen_ai.request.max_tokens": request.max_tokens,
            **{f"gen_ai.request.{name}": options.get(name) for name in _SETTINGS},
        }
        if self._has_content:
            system = [{"type": "text", "content": request.system}]
            attributes["gen_ai.system_instructions"] = json.dumps(system, ensure_ascii=False)
            attributes["gen_ai.input.messages"] = _messages(request.messages)
        with self._span("chat", request.model, SpanKind.CLIENT, attributes) as span:

            def end(reply: Reply) -> None:
                reason = reply.finish_reason or ("tool_calls" if reply.message.tool_calls else None)
                if reason is not None:
                    span.set_attribute("gen_ai.response.finish_reasons", [reason])
                if reply.usage is not None:
                    span.set_attributes(
                        {
                            "gen_ai.usage.input_tokens": reply.usage.input,
                            "gen_ai.usage.output_tokens": reply.usage.output,
                            "gen_ai.usage.cache_read.input_tokens": reply.usage.cached,
                        }
                    )
                if self._has_content:
                    answer = {**_message(reply.message), "finish_reason": reason or "stop"}
                    text = json.dumps([answer], ensure_ascii=False)
                    span.set_attribute("gen_ai.output.messages", text)

            yield end

    @contextmanager
    def tool(self, call: ToolCall, description: str) -> Iterator[Callable[[ToolResult], None]]:
        attributes: dict[str, Any] = {
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.description": description or None,
        }
        if self._has_content:
            attributes["gen_ai.tool.call.arguments"] = call.raw
        with self._span("execute_tool", call.name, SpanKind.INTERNAL, attributes) as span:

            def end(result: ToolResult) -> None:
                if self._has_content:
                    span.set_attribute("gen_ai.tool.call.result", result.for_model)
                if result.is_error:
                    _fail(span, "tool")

            yield end

    @contextmanager
    def _span(
        self, operation: str, name: str, kind: SpanKind, attributes: Mapping[str, Any]
    ) -> Iterator[trace.Span]:
        values = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._run.session}
        values |= {key: value for key, value in attributes.items() if value is not None}
        with self._tracer.start_as_current_span(
            f"{operation} {name}",
            kind=kind,
            attributes=values,
            # An exception's text may quote the conversation.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as exc:
                if not isinstance(exc, asyncio.CancelledError):
                    _fail(span, exc.code if isinstance(exc, KoreError) else type(exc).__name__)
                raise


def _fail(span: trace.Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _messages(messages: Sequence[Message]) -> str:
    return json.dumps([_message(message) for message in messages], ensure_ascii=False)


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        answer = {"type": "tool_call_response", "id": message.tool_call_id}
        return {"role": "tool", "parts": [answer | {"response": message.text}]}
    parts = [data for part in message.content if (data := _part(part))]
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": parts}


def _part(part: Part) -> dict[str, Any] | None:
    """Return the part without the data of pictures."""
    match part:
        case Text(text):
            return {"type": "text", "content": text}
        case Thinking(text) if text:
            return {"type": "reasoning", "content": text}
        case Image(media_type=kind) | ImageFile(media_type=kind):
            return {"type": "blob", "modality": "image", "mime_type": kind}
    return None
