"""Hooks from project files and plugins.

Unsupported entries are left out and reported, so that a file made for another program does no harm.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.i18n import t
from agent.text.visible import escape_line
from agent.turn.hook_events import DEFINITIONS, HOOK_EVENTS, MAX_TIMEOUT_S, HookEventName
from gateway.config.sections import HookMatcher, HookTable

# Only the hooks of another program's settings are read.
_SETTINGS = ("settings.json", "settings.local.json")


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
                for kind in _other_types(item, event)
            ]
            try:
                matcher = HookMatcher.model_validate(_ours(item, event))
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


def hook_lines(table: HookTable) -> Iterator[str]:
    """Yield a line for people about each hook: its event, its kind, and the command or prompt."""
    for event, matchers in table.items():
        for matcher in matchers:
            for hook in matcher.hooks:
                yield escape_line(f"{event} ({hook.kind}): {hook.title}")


# Keys of each type of hook that have the same meaning in Kore.
_KEYS = {
    "command": ("type", "command", "timeout", "async"),
    "prompt": ("type", "prompt", "model", "timeout", "continueOnBlock"),
}


def _other_types(matcher: Any, event: HookEventName) -> list[str]:
    hooks = matcher.get("hooks") if isinstance(matcher, Mapping) else None
    types = [hook.get("type") for hook in hooks or () if isinstance(hook, Mapping)]
    return sorted({str(kind)[:40] for kind in types if not _is_run(kind, event)})


def _is_run(kind: Any, event: HookEventName) -> bool:
    """Return whether Kore runs hooks of this type at the event; None is a command."""
    return kind in (None, "command") or (kind == "prompt" and DEFINITIONS[event].takes_prompts)


def _ours(matcher: Any, event: HookEventName) -> Any:
    """Return another program's matcher without the hooks and keys that Kore does not know."""
    if not isinstance(matcher, Mapping) or not isinstance(matcher.get("hooks"), list):
        return matcher
    hooks = []
    for hook in matcher["hooks"]:
        if isinstance(hook, Mapping) and _is_run(hook.get("type"), event):
            entry = {key: hook[key] for key in _KEYS[hook.get("type") or "command"] if key in hook}
            if isinstance(timeout := entry.get("timeout"), int | float):
                entry["timeout"] = min(timeout, MAX_TIMEOUT_S)
            if hook.get("asyncRewake") is True:
                entry["async"] = True
            hooks.append(entry)
    return {"matcher": matcher.get("matcher") or "", "hooks": hooks}
