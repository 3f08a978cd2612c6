"""Direct model calls for programs, without Kore's agent: metered, limited and not stored."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from agent import events
from agent.agent import Agent
from agent.context.call_meter import CallMeter
from agent.context.history_validation import repair
from agent.errors import ConfigError, KoreError, PolicyDenied
from agent.i18n import t
from agent.providers.base import ModelRequest, ToolSpec, is_plain_name
from agent.providers.model_settings import ModelSettings
from agent.providers.pool import OpenModel
from agent.providers.token_estimate import estimate, estimate_text
from agent.providers.usage import Tariff, UsageTotals
from agent.serialization import dumps, event_to_json, message_to_json
from agent.types import ImageFile
from gateway.core.messages import CONSOLE, Route, console_principal
from gateway.core.records import ModelCall
from gateway.store.port import Store
from gateway.store.repositories.execution import turns
from gateway.store.repositories.usage import Payer
from gateway.turns.usage.meter import StoreUsageMeter, TurnMeter

_ROUTE = Route(CONSOLE, "local", "model-calls")


class ModelCaller:
    """Service for direct model calls; each call is a separate turn in the usage table."""

    def __init__(self, agent: Agent[Any], database: Store, usage: StoreUsageMeter) -> None:
        self._agent = agent
        self._database = database
        self._usage = usage

    async def stream(self, call: ModelCall) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the events as JSON, ending with `reply`. Raise `KoreError`."""
        _check(call)
        opened = self._agent.models.open(call.model)
        request = _request(call, opened)
        payer = await self._payer()
        own = TurnMeter(self._usage, payer, None, None, UsageTotals())
        meter = CallMeter(opened.tariff or Tariff(opened.model), opened.fallback_tariffs, own)
        try:
            await meter.check_call(_tokens(request), request.max_tokens or 0)
            async with aclosing(_stream(opened, request)) as stream:
                async for event in stream:
                    if isinstance(event, events.Reply):
                        await meter.record_reply(event)
                        yield _reply(event, meter.totals)
                        return
                    meter.count_event(event)
                    if isinstance(event, events.Retry):
                        await meter.check_retry(event.rank)
                    yield event_to_json(event)
        finally:
            await meter.count_partial()
            await self._usage.reservations.release(payer.by)

    async def _payer(self) -> Payer:
        turn = await self._database.transact(turns.add_model_call, _ROUTE.lane, time.time())
        chat = Route(CONSOLE, "local", "").lane.rstrip(":")
        principal = console_principal()
        return Payer(turn, f"model-call-{turn}", _ROUTE.lane, chat, principal, turn)


def _check(call: ModelCall) -> None:
    """Raise `KoreError` for requests that programs must not make.

    These contain local files, or fields that would change the kind of the request.
    """
    for tool in call.tools:
        if not is_plain_name(tool.name):
            raise KoreError(t("{name!r} cannot be the name of a tool", name=tool.name[:80]))
    if any(isinstance(part, ImageFile) for message in call.messages for part in message.content):
        raise PolicyDenied(t("files by their paths need a token with the scope admin"))
    try:
        ModelSettings(temperature=call.temperature, max_tokens=call.max_tokens, **call.options)
    except TypeError as exc:
        raise ConfigError(str(exc)) from exc


async def _stream(
    opened: OpenModel, request: ModelRequest
) -> AsyncGenerator[events.ModelEvent, None]:
    async for event in opened.provider.stream(request):
        yield event


def _request(call: ModelCall, opened: OpenModel) -> ModelRequest:
    temperature = opened.temperature if call.temperature is None else call.temperature
    tools = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in call.tools)
    return ModelRequest(
        opened.model,
        call.system,
        repair(call.messages),
        tools,
        temperature,
        call.max_tokens or opened.max_tokens,
        call.options,
    )


def _tokens(request: ModelRequest) -> int:
    tools = sum(estimate_text(tool.description + dumps(tool.parameters)) for tool in request.tools)
    return estimate_text(request.system) + tools + sum(map(estimate, request.messages))


def _reply(reply: events.Reply, totals: UsageTotals) -> dict[str, Any]:
    return {
        "type": reply.type,
        "message": message_to_json(reply.message),
        "usage": asdict(totals.usage),
        "cost_usd": totals.cost_usd,
        "finish_reason": reply.finish_reason,
    }
