"""Probe of a model: a minimal request with a tool."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from agent.errors import BadReply, KoreError
from agent.events import Reply, TextDelta, ThinkingDelta, ToolCallDelta
from agent.i18n import t
from agent.prompts import render_prompt
from agent.providers.base import ModelRequest, Provider, ToolSpec
from agent.providers.opening import open_provider
from agent.providers.registry import ModelConfig
from agent.records import frozen
from agent.types import Message, Text, user

_ASK_TIMEOUT_S = 60
# More than an answer needs, because thoughts of models count as well.
_MAX_TOKENS = 1024
_WORD = "Zürich"
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
}


@frozen
class ProbeResult:
    """Result for one key of a model. Times are in seconds; `error` is None on success.

    `tool_call`: the model called the tool, and the argument arrived unchanged.
    """

    name: str
    model: str
    key: int
    keys: int
    ok: bool
    first_token_s: float | None = None
    answer_s: float | None = None
    tool_call: bool = False
    error: str | None = None
    code: str | None = None
    hint: str | None = None


async def probe_model(config: ModelConfig) -> list[ProbeResult]:
    """Probe each key of a resolved model in sequence, without retries and fallbacks."""
    alone = config.by_key()
    return [await _try_key(model, n, len(alone)) for n, model in enumerate(alone, 1)]


async def _try_key(config: ModelConfig, n: int, of: int) -> ProbeResult:
    trial = ProbeResult(config.name, config.model, n, of, ok=False)
    provider = open_provider(config)
    limit_s = max(_ASK_TIMEOUT_S, config.timeout_s or 0)
    try:
        async with asyncio.timeout(limit_s):
            return await _talk(provider, config, trial)
    except TimeoutError:
        error = f"{config.model} did not answer within {limit_s:g} s"
        return replace(trial, error=error, code="timed-out")
    except KoreError as exc:
        return replace(trial, error=str(exc), code=exc.code, hint=exc.hint)
    finally:
        await provider.aclose()


async def _talk(provider: Provider, config: ModelConfig, trial: ProbeResult) -> ProbeResult:
    tools = (ToolSpec("ping", "Tests the connection.", _SCHEMA),)
    question = user(render_prompt("trial", word=_WORD))
    request = ModelRequest(config.model_id, "", (question,), tools, max_tokens=_MAX_TOKENS)
    began = time.monotonic()
    reply, first_s = await _reply(provider, request, began)
    trial = replace(trial, first_token_s=first_s)
    if not reply.tool_calls:
        error = "it answers, but it did not call the tool that it was given"
        return replace(trial, error=error, code="no-tool-call", answer_s=time.monotonic() - began)
    call = reply.tool_calls[0]
    intact = call.name == "ping" and call.arguments == {"word": _WORD}
    if not intact:
        error = f"it called the tool, but with {call.raw[:80]!r} in place of {_WORD!r}"
        trial = replace(trial, error=error, code="bad-tool-call")
    results = (Message("tool", (Text("pong"),), tool_call_id=item.id) for item in reply.tool_calls)
    await _reply(provider, replace(request, messages=(question, reply, *results)), began)
    return replace(trial, ok=intact, tool_call=intact, answer_s=time.monotonic() - began)


async def _reply(
    provider: Provider, request: ModelRequest, began: float
) -> tuple[Message, float | None]:
    """Return the whole reply, and the seconds until its first piece."""
    first_s: float | None = None
    stream = cast(Any, provider.stream(request))
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta) and first_s is None:
                first_s = time.monotonic() - began
            if isinstance(event, Reply):
                return event.message, first_s
    raise BadReply(t("the model returned no reply"))
