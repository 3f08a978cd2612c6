"""Hooks of the type `prompt`: a model judges a step."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from agent.context.compaction.summarizer import ask_model
from agent.context.token_budget import middle_out
from agent.errors import ConfigError
from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool, OpenModel
from agent.turn.hooks import HookContext
from agent.turn.structured_output import StructuredOutput
from agent.types import user

_ARGUMENTS = "$ARGUMENTS"
_MAX_INPUT_TOKENS = 8_000
_REPLY_TOKENS = 2_000


class HookVerdict(BaseModel):
    """Answer of the model; `reason` is required if it is not `ok`."""

    ok: bool
    reason: str = ""


async def judge(
    prompt: str,
    payload: Mapping[str, Any],
    context: HookContext,
    *,
    model: str | None,
    timeout_s: float,
) -> HookVerdict:
    """Return the verdict of the named model, or of the one for the profile "quick".

    Raise `ProviderError`, `LimitReached`, `ConfigError`, `BadOutput` or TimeoutError.
    """
    text = middle_out(json.dumps(payload, ensure_ascii=False), _MAX_INPUT_TOKENS)
    question = prompt.replace(_ARGUMENTS, text) if _ARGUMENTS in prompt else f"{prompt}\n\n{text}"
    opened = _open(context.models, model)
    request = ModelRequest(
        opened.model,
        load_prompt("hook_judge"),
        [user(context.call.redactor.clean(question))],
        temperature=opened.temperature,
        max_tokens=min(opened.max_tokens or _REPLY_TOKENS, opened.context_tokens // 5),
    )
    async with asyncio.timeout(timeout_s):
        reply = await ask_model(opened, request, context.meter)
    verdict: HookVerdict = StructuredOutput(HookVerdict).read(reply.text)
    return verdict


def _open(models: ModelPool, name: str | None) -> OpenModel:
    if name is not None:
        try:
            return models.open(name)
        except ConfigError:
            # Hooks made for another program name its models.
            pass
    return models.open(models.profile("quick"))
