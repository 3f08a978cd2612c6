"""Differences between new settings and the settings of a running process."""

from typing import Any

from agent.records import frozen
from gateway.config.key_catalog import all_keys, catalogue, is_at_once, own_setting
from gateway.config.origin import Key
from gateway.config.python_plugins import PACKAGES, channel_options, package_section
from gateway.config.schema import Settings
from gateway.config.sections import Section


@frozen
class ConfigDiff:
    """Result of a reload: `settings` to run with, and the keys that changed or need a restart."""

    settings: Settings
    changed_keys: tuple[str, ...]
    restart_keys: tuple[str, ...]


def update(current: Settings, loaded: Settings) -> ConfigDiff:
    """Merge the changes that need no restart into the settings of a process."""
    changed: list[str] = []
    waiting: list[str] = []
    old_values: dict[str, dict[str, Any]] = {}
    for key in all_keys():
        if key == (PACKAGES,):
            continue
        old, new = _value(current, key), _value(loaded, key)
        if old == new:
            continue
        name = ".".join(key)
        if is_at_once(key) or _without_at_once(old) == _without_at_once(new):
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
    mixed[PACKAGES] = _merge_packages(current, loaded, changed, waiting)
    return ConfigDiff(loaded.model_copy(update=mixed), tuple(changed), tuple(waiting))


def _merge_packages(
    current: Settings, loaded: Settings, changed: list[str], waiting: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the settings of packages to run with; add the names of keys that differ.

    Only channels have keys that change without a restart.
    """
    merged = dict(current.python_plugins)
    for name in sorted(merged.keys() | loaded.python_plugins.keys()):
        old, new = current.python_plugins.get(name), loaded.python_plugins.get(name)
        if old == new:
            continue
        section = None if old is None or new is None else package_section(name)
        if old is None or new is None or section is None:
            waiting.append(f"{PACKAGES}.{name}")
            continue
        before = section.model_validate(channel_options(old))
        after = section.model_validate(channel_options(new))
        options = merged[name] = dict(new)
        for key in section.model_fields:
            old_value, new_value = getattr(before, key), getattr(after, key)
            if old_value == new_value:
                continue
            path = (PACKAGES, name, key)
            if is_at_once(path) or _without_at_once(old_value) == _without_at_once(new_value):
                changed.append(".".join(path))
                continue
            waiting.append(".".join(path))
            options.pop(key, None)
            options |= {key: old[key]} if key in old else {}
    return merged


def _value(settings: Settings, key: Key) -> Any:
    section = getattr(settings, key[0])
    return section if len(key) == 1 else getattr(section, key[1])


def _without_at_once(value: Any) -> Any:
    """Return a value without the fields of its entries that change without a restart."""
    match value:
        case tuple():
            return [_without_at_once(entry) for entry in value]
        case Section():
            return {
                name: getattr(value, name)
                for name, info in type(value).model_fields.items()
                if own_setting(info).reload != "at_once"
            }
        case _:
            return value
