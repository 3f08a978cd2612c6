"""Calls about the configuration and the policy.

A `key` is `SECTION.KEY` or continues into a list or a map (`model_list.NAME.api_key`); a `value` is
text or JSON, and None removes the key from the file.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.security.policy.base import PermissionMode
from gateway.calls.context import ServiceContext
from gateway.control.declaration import call


@call(scope="admin")
async def describe_config(ctx: ServiceContext) -> Mapping[str, Any]:
    """Return the settings with which this process started, with secrets masked."""
    return ctx.screens.workbench().describe_config()


@call(scope="admin")
async def list_settings(ctx: ServiceContext) -> Mapping[str, Any]:
    """Return the path of the `file`, its `problem` if it is invalid, and the `settings`: `key`,
    `value` and `own` (as in the file) without secrets, `from`, `choices`, `at_once`, `widens`, and
    `locked`, the reason why it cannot be changed here."""
    return await asyncio.to_thread(ctx.screens.config().list_settings)


@call(scope="admin")
async def check_setting(ctx: ServiceContext, key: str, value: str | None) -> Mapping[str, Any]:
    """Describe a change without writing it: `old` and `new`, `effect` (now, restart or none),
    `notes`, `widens`, and the `proposal` for `change_setting`."""
    with _argument_errors():
        return await asyncio.to_thread(ctx.screens.config().check, key, value)


@call(scope="admin")
async def change_setting(
    ctx: ServiceContext, key: str, value: str | None, proposal: str, confirmed: bool = False
) -> Mapping[str, Any]:
    """Write and apply a checked change if the file has not changed; returns the same as
    `check_setting`. A change that `widens` Kore's access must be `confirmed`."""
    config, operation = ctx.screens.config(), "unset" if value is None else "set"
    async with ctx.owner_audit.change("setting", operation, name=key):
        with _argument_errors():
            return await config.change(key, value, proposal, is_confirmed=confirmed)


@call(scope="admin")
async def check_policy(
    ctx: ServiceContext,
    tool: str,
    arguments: Mapping[str, Any],
    role: str = "build",
    mode: PermissionMode | None = None,
    channel: str = "cli",
) -> Mapping[str, Any]:
    """Return the policy's decision about a tool call in the workspace, without running it:
    `decision` (allow, ask or deny), `reason`, `rule`, `mode`, and for a command (`exec`) the
    `verdicts` of all rules. `mode` defaults to the mode of the channel."""
    with _argument_errors():
        return await ctx.screens.policy().check(tool, arguments, role, mode, channel)


@call(scope="admin")
async def list_roles(ctx: ServiceContext) -> Mapping[str, Any]:
    """Return the `roles` (`name`, `source`, `tools` with their scopes, `agents`), the roles
    `assigned` by `access.roles`, and the `owner`, whose role is always `build`."""
    return await asyncio.to_thread(ctx.screens.policy().list_roles)


@contextmanager
def _argument_errors() -> Iterator[None]:
    """Convert `ConfigError` to `KoreError`: an argument is wrong, not the configuration of this
    process.
    """
    try:
        yield
    except ConfigError as exc:
        raise KoreError(str(exc), hint=exc.hint) from exc
