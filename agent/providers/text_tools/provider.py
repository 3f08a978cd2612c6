"""Tools described in the prompt and called in the text, for models without native tools."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from agent.events import CUT, ModelEvent, Reply, TextDelta, ToolCallDelta
from agent.prompts import render_prompt
from agent.providers.base import ClosingProvider, ModelRequest, ToolSpec, find_tool
from agent.providers.text_tools.parser import ParsedCall, TextToolParser
from agent.providers.tool_calls import next_call_number, parse_tool_call
from agent.providers.wire_text import encode_json, sendable_tool_name
from agent.types import Image, Message, Part, Text, ToolCall

_CHILD = re.compile(r"\s*<(\w+)>(.*?)</\1>\s*", re.DOTALL)
_LOOKS_LIKE_JSON = re.compile(r"\{\s*[\"}]")


class TextToolProvider:
    """Provider wrapper that converts native tool calls to calls in the text, and back.

    An unreadable call is still a call: its result is an error that the model reads, and the call is
    never shown to a person as text.
    """

    def __init__(self, provider: ClosingProvider) -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        return self._provider.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        messages = _messages_as_text(request.messages)
        if request.options.get("tool_choice") == "none":
            request = replace(request, tools=())
        text_request = replace(
            request, system=_system_with_tools(request), messages=messages, tools=()
        )
        listener = _ReplyRewriter(request.tools, next_call_number(request.messages))
        stream = self._provider.stream(text_request)
        # Providers are async generators; closing one ends its connection at once.
        async with aclosing(cast(AsyncGenerator[ModelEvent], stream)):
            async for event in stream:
                for converted in listener.rewrite(event):
                    yield converted

    async def aclose(self) -> None:
        await self._provider.aclose()


class _ReplyRewriter:
    """Rewriter of one stream that turns calls in its text into tool calls."""

    def __init__(self, tools: Sequence[ToolSpec], number: int) -> None:
        self._tools = tools
        self._number = number
        self._reader = TextToolParser()
        self._text_pieces: list[str] = []
        self._parsed_calls: list[tuple[str, ParsedCall]] = []

    def rewrite(self, event: ModelEvent) -> Iterator[ModelEvent]:
        match event:
            case TextDelta(text):
                yield from self._take(self._reader.feed(text), cut=False)
            case Reply():
                cut = event.finish_reason in CUT
                yield from self._take(self._reader.end(cut=cut), cut=cut)
                yield self._reply(event, cut=cut)
            case _:
                yield event

    def _take(self, pieces: Sequence[str | ParsedCall], *, cut: bool) -> Iterator[ModelEvent]:
        for piece in pieces:
            if isinstance(piece, str):
                self._text_pieces.append(piece)
                yield TextDelta(piece)
                continue
            call_id = f"call_{self._number + len(self._parsed_calls)}"
            self._parsed_calls.append((call_id, piece))
            call = self._read(call_id, piece, cut=cut)
            yield ToolCallDelta(call.id, call.name, call.raw)

    def _reply(self, reply: Reply, *, cut: bool) -> Reply:
        calls = tuple(
            self._read(call_id, parsed, cut=cut) for call_id, parsed in self._parsed_calls
        )
        text = "".join(self._text_pieces)
        parts: list[Part] = [part for part in reply.message.content if not isinstance(part, Text)]
        parts += [Text(text)] if text else []
        message = Message("assistant", tuple(parts), (*calls, *reply.message.tool_calls))
        reason = "tool_calls" if calls and reply.finish_reason == "stop" else reply.finish_reason
        return replace(reply, message=message, finish_reason=reason)

    def _read(self, call_id: str, parsed: ParsedCall, *, cut: bool) -> ToolCall:
        tool = find_tool(self._tools, parsed.name.strip())
        return parse_text_reply(call_id, parsed, tool.parameters if tool else {}, cut=cut)


def parse_text_reply(
    call_id: str, parsed: ParsedCall, schema: Mapping[str, Any], *, cut: bool = False
) -> ToolCall:
    """Return the call with its arguments parsed from JSON, tags or plain text.

    Plain text is the only argument that a tool needs. A call without an end counts only if it is a
    whole JSON object, and never when the reply was `cut`.
    """
    name, body = parsed.name.strip(), parsed.body.strip()
    if _LOOKS_LIKE_JSON.match(body) or not body:
        call = parse_tool_call(call_id, name, body, cut=cut or not parsed.whole)
        return replace(call, arguments=None) if cut and not parsed.whole else call
    if not parsed.whole:
        return ToolCall(call_id, name, None, body)
    arguments = _from_tags(body, schema) or _from_text(body, schema)
    raw = body if arguments is None else encode_json(arguments).decode()
    return ToolCall(call_id, name, arguments, raw)


def _from_tags(body: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parse `<path>a.txt</path><content>…</content>`; None for other text or unknown names."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    arguments: dict[str, Any] = {}
    place = 0
    while place < len(body):
        child = _CHILD.match(body, place)
        if child is None or child[1] not in properties:
            return None
        arguments[child[1]] = _to_schema_type(child[2], properties[child[1]])
        place = child.end()
    return arguments


def _to_schema_type(text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text.removeprefix("\n").removesuffix("\n")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _from_text(body: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    required, properties = schema.get("required"), schema.get("properties")
    names = required if isinstance(required, list) else []
    if not names and isinstance(properties, Mapping):
        names = list(properties)[:1]
    return {names[0]: body} if len(names) == 1 and isinstance(names[0], str) else None


def _system_with_tools(request: ModelRequest) -> str:
    if not request.tools:
        return request.system
    tools = "\n\n".join(
        f"## {tool.name}\n{tool.description}\nArguments: {encode_json(tool.parameters).decode()}"
        for tool in request.tools
    )
    return f"{request.system}\n\n{render_prompt('xml_tools', tools=tools)}".strip()


def _messages_as_text(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation with its calls and results as text.

    Adjacent user messages and results are merged: many templates require alternating roles.
    """
    names: dict[str, str] = {}
    text_messages: list[Message] = []
    for message in messages:
        for call in message.tool_calls:
            names[call.id] = sendable_tool_name(call)
        if message.role == "assistant" and message.tool_calls:
            text_messages.append(Message("assistant", (*message.content, Text(_calls(message)))))
        elif message.role == "tool":
            images = (part for part in message.content if isinstance(part, Image))
            _append(text_messages, (Text(_result(message, names)), *images))
        elif message.role == "user" and text_messages and text_messages[-1].role == "user":
            _append(text_messages, message.content)
        else:
            text_messages.append(message)
    return text_messages


def _append(messages: list[Message], parts: tuple[Part, ...]) -> None:
    if messages and messages[-1].role == "user":
        parts = (*messages.pop().content, Text("\n\n"), *parts)
    messages.append(Message("user", parts))


def _calls(message: Message) -> str:
    lines = [
        f'<tool name="{sendable_tool_name(call)}">{_body(call)}</tool>'
        for call in message.tool_calls
    ]
    return "\n" * bool(message.text) + "\n".join(lines)


def _body(call: ToolCall) -> str:
    # This escape cannot end the call, and JSON decodes it to the same text.
    return (call.raw.strip() or "{}").replace("</", "<\\/")


def _result(message: Message, names: Mapping[str, str]) -> str:
    failed = ' error="true"' * message.is_error
    name = names.get(message.tool_call_id or "", "")
    # Tool output must not look like the end of its own result.
    text = message.text.replace("</tool_result", "<\\/tool_result")
    return f'<tool_result name="{name}"{failed}>\n{text}\n</tool_result>'
