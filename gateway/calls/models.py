"""Calls about agents and models, and the stored answers of the OpenAI-compatible API."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.pool import ModelPool
from agent.providers.registry import PROFILES
from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.messages import console_principal
from gateway.core.records import ApiAnswer, ApiRequest, ModelCall
from gateway.store.repositories import api_answers


@call(scope="read")
async def list_agents(ctx: ServiceContext) -> Sequence[Mapping[str, Any]]:
    """List the agents of the workspace: `name`, `description`."""
    agents = await asyncio.to_thread(ctx.agent.subagents.load, ctx.agent.workspace.folder)
    return [
        {"name": name, "description": t(" ".join(agent.description.split()))}
        for name, agent in agents.items()
    ]


@call(scope="read")
async def list_models(ctx: ServiceContext) -> Sequence[Mapping[str, Any]]:
    """List the configured models and the profiles: `name`, `model` (vendor/model; None if it cannot
    be used), `profile` (true for a profile), `default` (true for the model that answers unless
    another is chosen)."""
    models = ctx.agent.models
    names = [model.name for model in models.known]
    profiles = [profile for profile in PROFILES if profile not in names]
    default = models.default if models.default in names else PROFILES[0]
    return [
        {
            "name": name,
            "model": _resolved_model(models, name),
            "profile": name in profiles,
            "default": name == default,
        }
        for name in (*names, *profiles)
    ]


def _resolved_model(models: ModelPool, name: str) -> str | None:
    try:
        return models.check(name).model
    except ConfigError:
        return None


@call(scope="chat")
@asynccontextmanager
async def call_model(
    ctx: ServiceContext, call: ModelCall
) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
    """Call a model without Kore's agent: its events (`text_delta`, `thinking_delta`,
    `tool_call_delta`, `retry`, `notice`), then `reply` with `message`, `usage` and `finish_reason`.
    The cost counts towards the limits."""
    async with aclosing(ctx.model_calls.stream(call)) as events:
        yield events


@call(scope="admin")
async def begin_api_answer(ctx: ServiceContext, request: ApiRequest) -> ApiAnswer | None:
    """Record an API request. If its idempotency key was used for the same request before, return
    the earlier request with its answer, if there is one; None if it was used for a different
    request."""
    # Tokens that may request bare models act for the owner of this machine.
    principal = request.principal or console_principal()
    return await ctx.database.transact(api_answers.begin, request, principal, time.time())


@call(scope="admin")
async def keep_api_answer(ctx: ServiceContext, answer: ApiAnswer) -> bool:
    """Store an answer before its end is sent; False if its key already has a different answer.
    Answers expire after 30 days; each token keeps at most its 1,000 newest."""
    owner = console_principal()
    return await ctx.database.transact(api_answers.keep, answer, owner, time.time())


@call(scope="admin")
async def find_api_answer(ctx: ServiceContext, token: str, answer_id: str) -> ApiAnswer | None:
    """Return a token's answer and its conversation; None if it does not exist or has expired."""
    return await ctx.database.transact(api_answers.find, token, answer_id, time.time())
