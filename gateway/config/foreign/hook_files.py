"""Hooks from project files and plugins.

Unsupported entries are left out and reported, so that a file made for another program does no harm.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.i18n import t
from gateway.config.sections import HOOK_EVENTS, HookEventName, HookMatcher, HookTable

# Only the hooks of another program's settings are read.
_SETTINGS = ("settings.json", "settings.local.json")
_MAX_TIMEOUT_S = 600


def is_hook_file(path: Path) -> bool:
    """Return whether a project's file is read only for its hooks."""
    name, folder = path.name, path.parent.name
    return (name == "hooks.json" and folder == ".kore") or (
        name in _SETTINGS and folder == ".claude"
    )


def hooks_in(content: Mapping[str, Any], origin: str) -> tuple[HookTable, list[str]]:
    """Return the hooks of a file, and a note for each omitted entry."""
    table: dict[HookEventName, list[HookMatcher]] = {}
    notes: list[str] = []
    value = content.get("hooks", {})
    if content.get("disableAllHooks") is True:
        return {}, []
    if not isinstance(value, Mapping):
        return {}, [t("{origin}: hooks: expected an object", origin=origin)]
    for event, matchers in value.items():
        if event not in HOOK_EVENTS:
            notes.append(t("{origin}: hooks at {event} are not run", origin=origin, event=event))
            continue
        for item in matchers if isinstance(matchers, list) else [None]:
            notes += [
                t("{origin}: hooks of type {type} are not run", origin=origin, type=kind)
                for kind in _other_types(item)
            ]
            try:
                matcher = HookMatcher.model_validate(_ours(item))
            except ValidationError as exc:
                reason = exc.errors()[0]["msg"]
                notes.append(
                    t(
                        "{origin}: a hook at {event} is ignored: {reason}",
                        origin=origin,
                        event=event,
                        reason=reason,
                    )
                )
                continue
            if matcher.hooks:
                table.setdefault(event, []).append(matcher)
    return table, notes


def commands(table: HookTable) -> Iterator[tuple[HookEventName, str]]:
    """Yield each command with its event."""
    for event, matchers in table.items():
        for matcher in matchers:
            yield from ((event, hook.command) for hook in matcher.hooks)


def _other_types(matcher: Any) -> list[str]:
    hooks = matcher.get("hooks") if isinstance(matcher, Mapping) else None
    types = [hook.get("type") for hook in hooks or () if isinstance(hook, Mapping)]
    return sorted({str(kind)[:40] for kind in types if kind not in (None, "command")})


def _ours(matcher: Any) -> Any:
    """Return another program's matcher without the keys that Kore does not know."""
    if not isinstance(matcher, Mapping) or not isinstance(matcher.get("hooks"), list):
        return matcher
    hooks = []
    for hook in matcher["hooks"]:
        if isinstance(hook, Mapping) and hook.get("type", "command") == "command":
            timeout = hook.get("timeout", 60)
            timeout = min(timeout, _MAX_TIMEOUT_S) if isinstance(timeout, int | float) else timeout
            hooks.append({"command": hook.get("command"), "timeout": timeout})
    return {"matcher": matcher.get("matcher") or "", "hooks": hooks}
