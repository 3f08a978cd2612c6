"""Model client that returns tool calls to the application instead of running them."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self, cast

from agent import events
from agent.context.call_meter import CallMeter
from agent.context.history_validation import is_valid, result_message, unanswered_calls
from agent.context.history_validation import with_unique_call_ids as with_unique_ids
from agent.errors import BadReply, ConfigError, ProviderError, ToolError, of_code
from agent.i18n import t
from agent.providers.base import ModelRequest, Provider, ToolSpec, plain_name
from agent.providers.model_settings import ModelSettings
from agent.providers.pool import ModelPool
from agent.providers.token_estimate import estimate_all, estimate_text
from agent.providers.usage import Tariff
from agent.records import frozen
from agent.security.redaction import Redactor
from agent.tools.schema import ArgumentSchema
from agent.types import JsonSchema, Message, ToolCall, ToolResult, Usage, user

# A reply with neither text nor calls is requested once more.
_MAX_ATTEMPTS = 2


@frozen
class ToolStep:
    """One reply of the model.

    `calls` wait for their results; without calls, the model has answered. Call names are those of
    the application's schemas. Numbers and lists that the model wrote as text are converted if the
    arguments then fit the schema; `message` contains the original arguments. `cost_usd` is None if
    the price is unknown.
    """

    text: str
    calls: tuple[ToolCall, ...]
    message: Message
    usage: Usage = Usage()
    cost_usd: float | None = None
    finish_reason: str | None = None


class ToolCaller:
    """A conversation in steps: `ask`, then `answer` as long as there are calls.

    `tools` are JSON schemas in the format of OpenAI or Anthropic. The model receives the
    `instructions` unchanged, the tools, and no prompt of Kore. `messages` continue a conversation,
    which may end with calls without results.
    """

    def __init__(
        self,
        model: str | Provider | ModelPool | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        instructions: str = "",
        model_settings: ModelSettings | None = None,
        messages: Sequence[Message] = (),
    ) -> None:
        """Raise `ConfigError` for an invalid schema or an invalid sequence of messages."""
        self.models = model if isinstance(model, ModelPool) else ModelPool.of(model, os.environ)
        self.messages = list(messages)
        self._instructions = instructions
        self._settings = model_settings or ModelSettings()
        self._redactor = Redactor(self.models.keys())
        self._names: dict[str, str] = {}
        self._specs: list[ToolSpec] = []
        self._schemas: dict[str, ArgumentSchema] = {}
        for schema in tools:
            self._add(schema)
        closed = [*self.messages, *(_missing(call) for call in self.waiting)]
        if not is_valid(closed):
            raise ConfigError(t("messages: each tool call must be followed directly by its result"))

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """Calls without a result."""
        return unanswered_calls(self.messages)

    async def ask(self, prompt: str | Message) -> ToolStep:
        """Send a person's message and return the reply.

        Raise `ConfigError` while calls wait for results, or the `ProviderError` of the model. After
        an error, `messages` are unchanged.
        """
        if self.waiting:
            names = ", ".join(call.name for call in self.waiting)
            raise ConfigError(t("calls of {names} are waiting for their results", names=names))
        return await self._step([prompt if isinstance(prompt, Message) else user(prompt)])

    async def answer(self, results: Mapping[str, str | ToolResult]) -> ToolStep:
        """Send the results of all waiting calls, by id, and return the reply.

        Raises the same errors as `ask`.
        """
        waiting = self.waiting
        ids = [call.id for call in waiting]
        if not ids or results.keys() != set(ids):
            raise ConfigError(
                t(
                    "results: expected one for each of {expected}, found {found}",
                    expected=", ".join(ids) or t("no call"),
                    found=", ".join(results) or t("none"),
                )
            )
        return await self._step([_result(name, results[name]) for name in ids])

    async def aclose(self) -> None:
        """Close the connections to the model."""
        await self.models.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _step(self, new: Sequence[Message]) -> ToolStep:
        opened = self.models.open()
        request = ModelRequest(
            opened.model,
            self._instructions,
            [*self.messages, *new],
            self._specs,
            opened.temperature
            if self._settings.temperature is None
            else self._settings.temperature,
            self._settings.max_tokens or opened.max_tokens,
            self._settings.options(),
        )
        tariff = opened.tariff or Tariff(f"{opened.provider.name}/{opened.model}")
        meter = CallMeter(tariff, opened.fallback_tariffs)
        size = estimate_text(self._instructions) + estimate_all(request.messages)
        for _ in range(_MAX_ATTEMPTS):
            await meter.check_call(size, 0)
            reply = await self._reply(opened.provider, request)
            await meter.record_reply(reply)
            if reply.message.text.strip() or reply.message.tool_calls:
                break
        message = with_unique_ids(reply.message)
        self.messages += [*new, message]
        return ToolStep(
            message.text,
            tuple(map(self._as_named, message.tool_calls)),
            message,
            meter.totals.usage,
            meter.totals.cost_usd,
            reply.finish_reason,
        )

    async def _reply(self, provider: Provider, request: ModelRequest) -> events.Reply:
        stream = cast(AsyncGenerator[events.ModelEvent], provider.stream(request))
        try:
            async with aclosing(stream):
                async for event in stream:
                    if isinstance(event, events.Reply):
                        return event
        except ProviderError as exc:
            clean = self._redactor.clean
            hint = clean(exc.hint) if exc.hint else None
            raise of_code(exc.code, clean(str(exc)), hint) from None
        raise BadReply(t("the model returned no reply"))

    def _as_named(self, call: ToolCall) -> ToolCall:
        """Return the call with the application's tool name and, if valid, converted arguments."""
        arguments = call.arguments
        if arguments is not None and (schema := self._schemas.get(call.name)) is not None:
            try:
                arguments = schema.validate(arguments)
            except ToolError:
                # Return the model's arguments unchanged.
                arguments = call.arguments
        return replace(call, name=self._names.get(call.name, call.name), arguments=arguments)

    def _add(self, schema: Mapping[str, Any]) -> None:
        name, description, parameters = _parts(schema)
        plain, number = plain_name(name), 1
        while plain in self._names:
            number += 1
            plain = f"{plain_name(name)[:60]}_{number}"
        if name in self._names.values():
            raise ConfigError(t("tools: two are called {name!r}", name=name[:80]))
        self._names[plain] = name
        self._specs.append(ToolSpec(plain, description, parameters))
        self._schemas[plain] = ArgumentSchema(name, parameters)


def _parts(schema: Mapping[str, Any]) -> tuple[str, str, JsonSchema]:
    """Return name, description and parameters of a tool schema. Raise `ConfigError` if invalid."""
    inner = schema.get("function", schema)
    tool = inner if isinstance(inner, Mapping) else schema
    name = tool.get("name")
    parameters = tool.get("parameters") or tool.get("input_schema")
    parameters = parameters or {"type": "object", "properties": {}}
    is_object = isinstance(parameters, Mapping) and parameters.get("type") == "object"
    if not isinstance(name, str) or not name or not is_object:
        raise ConfigError(
            t(
                "tools: found {found}, expected a schema with a name and parameters of type object",
                found=str(dict(schema))[:120],
            )
        )
    return name, str(tool.get("description") or ""), parameters


def _result(call_id: str, result: str | ToolResult) -> Message:
    return result_message(call_id, ToolResult(result) if isinstance(result, str) else result)


def _missing(call: ToolCall) -> Message:
    return _result(call.id, "")
