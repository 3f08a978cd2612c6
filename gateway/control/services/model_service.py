"""The calls about agents and models, for the process that owns the data."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict
from typing import Any

from agent.agent import Agent
from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.registry import PROFILES
from agent.security.files.paths import INBOX_FOLDER
from gateway.access.control import folder_name
from gateway.commands.table import find_command, menu
from gateway.core.messages import Media
from gateway.core.records import ModelCall
from gateway.core.token_routes import API
from gateway.media.pictures import store_base64
from gateway.turns.usage.model_caller import ModelCaller

_SUMMARY_CHARS = 200


class ModelService:
    """Implements `gateway.control.service.ModelCalls`, and lists what can be said to them."""

    def __init__(self, agent: Agent[Any], model_calls: ModelCaller) -> None:
        self._agent = agent
        self._model_calls = model_calls

    async def list_agents(self) -> Sequence[Mapping[str, Any]]:
        agents = await asyncio.to_thread(self._agent.subagents.load, self._agent.workspace.folder)
        return [
            {"name": name, "description": t(" ".join(one.description.split()))}
            for name, one in agents.items()
        ]

    async def list_commands(self) -> Sequence[Mapping[str, Any]]:
        commands = [{"name": name, "summary": t(summary)} for name, summary in menu()]
        if self._agent.skills is None:
            return commands
        skills = await asyncio.to_thread(self._agent.skills.load, self._agent.workspace.folder)
        return commands + [
            {"name": name, "summary": " ".join(one.description.split())[:_SUMMARY_CHARS]}
            for name, one in skills.items()
            if find_command(name) is None
        ]

    async def list_models(self) -> Sequence[Mapping[str, Any]]:
        models = self._agent.models
        names = [one.name for one in models.known]
        profiles = [one for one in PROFILES if one not in names]
        default = models.default if models.default in names else PROFILES[0]
        return [
            {
                "name": name,
                "model": self._model_of(name),
                "profile": name in profiles,
                "default": name == default,
            }
            for name in (*names, *profiles)
        ]

    @asynccontextmanager
    async def call_model(self, call: ModelCall) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        async with aclosing(self._model_calls.stream(call)) as events:
            yield events

    async def store_picture(self, data: str, token: str = "") -> Media:
        workspace = self._agent.workspace.folder
        folder = workspace / INBOX_FOLDER / API
        if token:
            folder /= folder_name(token)
        return await asyncio.to_thread(store_base64, data, folder, workspace)

    async def _agent_option(self, name: str | None) -> Mapping[str, Any] | None:
        """An agent as a message's option. Raises `ConfigError` for an unknown one."""
        if name is None:
            return None
        agent = await asyncio.to_thread(
            self._agent.subagents.find, name, self._agent.workspace.folder
        )
        if agent is None:
            raise ConfigError(
                t("unknown agent {name!r}", name=name[:80]), hint=t("`kore agents list` shows them")
            )
        return asdict(agent)

    def _model_of(self, name: str) -> str | None:
        try:
            return self._agent.models.check(name).model
        except ConfigError:
            return None
