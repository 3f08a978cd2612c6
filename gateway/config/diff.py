"""New settings beside those that a process runs with: what can change at once, and what waits."""

from collections.abc import Iterator
from typing import Any

from agent.records import frozen
from gateway.config.key_catalog import catalogue, whole_sections
from gateway.config.origin import Key
from gateway.config.schema import Settings
from gateway.config.sections import TelegramAccount

# Sections and keys that hold from the next turn on; all others need a restart.
AT_ONCE = frozenset(
    {
        *("model_list", "profiles", "limits", "subagents", "tools", "context", "access", "agents"),
        *("agent.model", "agent.fallback", "agent.max_iterations", "agent.temperature"),
        *("agent.max_tokens", "agent.thinking", "agent.language"),
        *("security.restrict_to_workspace", "security.trusted_folders", "security.policy_file"),
        *("security.blocked_commands", "security.blocked_paths", "security.modes"),
        "security.approval_timeout_s",
        *("telegram.allow_from", "logging"),
    }
)


@frozen
class ConfigDiff:
    """`settings` are those to run with from now on: the new ones as far as they can change at
    once. `changed_keys` have changed already, `restart_keys` wait for a restart."""

    settings: Settings
    changed_keys: tuple[str, ...]
    restart_keys: tuple[str, ...]


def update(current: Settings, loaded: Settings) -> ConfigDiff:
    """What `loaded` makes of the settings of a process."""
    changed: list[str] = []
    waiting: list[str] = []
    old_values: dict[str, dict[str, Any]] = {}
    for key in _keys():
        old, new = _value(current, key), _value(loaded, key)
        if old == new:
            continue
        name = ".".join(key)
        if is_at_once(key) or (name == "telegram.accounts" and _bots(old) == _bots(new)):
            changed.append(name)
        else:
            waiting.append(name)
            old_values.setdefault(key[0], {})[key[-1]] = old
    mixed: dict[str, Any] = {}
    for section, fields in old_values.items():
        if section in catalogue():
            mixed[section] = getattr(loaded, section).model_copy(update=fields)
        else:
            mixed[section] = fields[section]
    return ConfigDiff(loaded.model_copy(update=mixed), tuple(changed), tuple(waiting))


def is_at_once(key: Key) -> bool:
    """Whether a running gateway takes this key in."""
    return key[0] in AT_ONCE or ".".join(key) in AT_ONCE


def _keys() -> Iterator[Key]:
    for section, names in catalogue().items():
        yield from ((section, name) for name in names)
    yield from ((section,) for section in whole_sections())


def _value(settings: Settings, key: Key) -> Any:
    section = getattr(settings, key[0])
    return section if len(key) == 1 else getattr(section, key[1])


def _bots(accounts: tuple[TelegramAccount, ...]) -> list[TelegramAccount]:
    """Without who may write to them: that may change at once."""
    return [bot.model_copy(update={"allow_from": ()}) for bot in accounts]
