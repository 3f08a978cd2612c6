"""The calls about settings and the policy, for the process that owns the data."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from agent.errors import ConfigError, KoreError
from agent.security.policy.base import PermissionMode
from gateway.control.services.owner_audit import OwnerAudit


class PolicyData(Protocol):
    """The rules in force."""

    async def check(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        role: str,
        mode: PermissionMode | None,
        channel: str,
    ) -> Mapping[str, Any]: ...

    def list_roles(self) -> Mapping[str, Any]: ...


class SettingsData(Protocol):
    """The files of the configuration."""

    def list_settings(self) -> Mapping[str, Any]: ...

    def check(self, key: str, value: str | None) -> Mapping[str, Any]: ...

    async def change(
        self, key: str, value: str | None, proposal: str, *, is_confirmed: bool
    ) -> Mapping[str, Any]: ...


class SettingsService:
    """Implements `screen_calls.PolicyCalls` and `SettingsCalls`, on data that is opened
    for each call."""

    def __init__(
        self,
        open_policy: Callable[[], PolicyData],
        open_settings: Callable[[], SettingsData],
        audit: OwnerAudit,
    ) -> None:
        self._open_policy = open_policy
        self._open_settings = open_settings
        self._setting_audit = audit

    async def check_policy(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        role: str = "build",
        mode: PermissionMode | None = None,
        channel: str = "cli",
    ) -> Mapping[str, Any]:
        with _as_refusal():
            return await self._open_policy().check(tool, arguments, role, mode, channel)

    async def list_roles(self) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_policy().list_roles)

    async def list_settings(self) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_settings().list_settings)

    async def check_setting(self, key: str, value: str | None) -> Mapping[str, Any]:
        with _as_refusal():
            return await asyncio.to_thread(self._open_settings().check, key, value)

    async def change_setting(
        self, key: str, value: str | None, proposal: str, confirmed: bool = False
    ) -> Mapping[str, Any]:
        settings, operation = self._open_settings(), "unset" if value is None else "set"
        async with self._setting_audit.change("setting", operation, name=key):
            with _as_refusal():
                return await settings.change(key, value, proposal, is_confirmed=confirmed)


@contextmanager
def _as_refusal() -> Iterator[None]:
    """What is wrong is what the caller has asked for, not the configuration of this process."""
    try:
        yield
    except ConfigError as exc:
        raise KoreError(str(exc), hint=exc.hint) from exc
