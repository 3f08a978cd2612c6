"""Roles in effect: built in, from the policy file, and restricted by the setting `agents`."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.i18n import ENGLISH, t, use_locale
from agent.records import frozen
from agent.security.audit import AuditLevel
from agent.security.policy.base import BLOCKED_COMMANDS, KnownTools, PermissionMode
from agent.security.policy.policy_file import (
    PolicyFile,
    built_in_roles,
    decode_policy,
    guess,
    read_raw,
)
from agent.security.policy.roles import Grants, Role
from agent.turn.tool_catalog import known_tools
from gateway.channels.table import all_specs
from gateway.config.python_plugins import python_tools

if TYPE_CHECKING:
    from gateway.config import Settings

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int, int]


@frozen
class PolicySettings:
    """Policy settings from the configuration.

    `modes` maps channels to their initial mode. `tools` loads the known tools; it is called only
    for a policy file.
    """

    file: Path | None = None
    agents: Mapping[str, Grants] = field(default_factory=dict)
    blocked_commands: tuple[str, ...] = BLOCKED_COMMANDS
    modes: Mapping[str, PermissionMode] = field(default_factory=dict)
    tools: Callable[[], KnownTools] = known_tools


class RoleRegistry:
    """Registry of roles by name; a changed policy file is reloaded at the next access.

    Raises `ConfigError` if the file is invalid at startup. Later, the last valid version remains in
    effect, and each invalid version is logged once.
    """

    def __init__(self, settings: PolicySettings) -> None:
        self.blocked_commands = settings.blocked_commands
        self._settings = settings
        self._file = PolicyFile()
        self._stamp: _Stamp | None = None
        self._digest = b""
        if settings.file is not None:
            self._stamp = _stamp(settings.file)
            self._take(settings.file)

    @classmethod
    def of(cls, settings: "Settings") -> "RoleRegistry":
        """Return the registry for the settings.

        Raises `ConfigError` for an invalid policy file, and for unknown roles.
        """
        security = settings.security
        agents = {
            name: Grants(flags.allow_write, flags.allow_command, flags.confirm_before_command)
            for name, flags in settings.agents.items()
        }
        modes: dict[str, PermissionMode] = {
            str(name): mode for name, mode in security.modes.items()
        }
        registry = cls(
            PolicySettings(
                security.policy_file,
                agents,
                security.blocked_commands,
                modes,
                partial(known_tools_of, settings),
            )
        )
        role_names: dict[str, Iterable[str]] = {
            "access.roles": settings.access.roles.values(),
            "agents": settings.agents,
        }
        for spec in all_specs(settings):
            chats = spec.section_of(settings).chats.values()
            role_names[f"{spec.settings_key}.chats"] = [chat.role for chat in chats if chat.role]
        for key, names in role_names.items():
            for name in names:
                registry.check(name, key)
        return registry

    def replace_with(self, other: "RoleRegistry") -> None:
        """Copy the state of another registry."""
        self.blocked_commands = other.blocked_commands
        self._settings, self._file = other._settings, other._file
        self._stamp, self._digest = other._stamp, other._digest

    def role(self, name: str) -> Role | None:
        """Return the current role with this name."""
        role = self._current().roles.get(name) or built_in_roles().get(name)
        grants = self._settings.agents.get(name)
        return role.with_grants(grants) if role and grants else role

    def check(self, name: str, key: str) -> None:
        """Raise `ConfigError` when the role is unknown; `key` is the setting that names it."""
        if name not in self.names:
            suggestion = guess(name, self.names)
            raise ConfigError(
                t(
                    '{key}: unknown role "{name}"{guess}',
                    key=key,
                    name=name,
                    guess=suggestion,
                )
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*built_in_roles(), *self._current().roles]))

    @property
    def audit_level(self) -> AuditLevel:
        return self._current().audit_level

    def default_mode(self, channel: str) -> PermissionMode:
        """Return the initial mode of a channel's conversations."""
        return self._settings.modes.get(channel, "ask")

    def _current(self) -> PolicyFile:
        path = self._settings.file
        if path is None:
            return self._file
        stamp = _stamp(path)
        if stamp == self._stamp:
            return self._file
        self._stamp = stamp
        try:
            # Problems with the file go to the log.
            with use_locale(ENGLISH):
                is_new = self._take(path)
            if is_new:
                log.info("policy file reloaded: %s", path)
        except ConfigError as exc:
            first, *more = str(exc).splitlines()
            rest = f" (and {len(more)} more)" if more else ""
            log.error("still using the last valid policy: %s%s", first, rest)
        return self._file

    def _take(self, path: Path) -> bool:
        """Read the file; return False if its content is unchanged. Raises `ConfigError`."""
        raw = read_raw(path)
        digest = hashlib.sha256(raw).digest()
        if digest == self._digest:
            return False
        begins, self._digest = not self._digest, digest
        policy = decode_policy(raw, str(path), self._settings.tools())
        if policy == PolicyFile() and not begins:
            # Editors empty a file before they fill it; the built-in roles may be less strict.
            raise ConfigError(t("{path}: the file is empty, expected default or roles", path=path))
        self._file = policy
        for note in policy.notes:
            log.warning("%s; the entry has no effect", note)
        return True


def known_tools_of(settings: "Settings") -> KnownTools:
    """Return Kore's tools and the tools of the Python packages in the settings.

    Raises `ConfigError`.
    """
    return known_tools(python_tools(settings))


def _stamp(path: Path) -> _Stamp | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino
