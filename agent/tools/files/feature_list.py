"""Checklist of a long task (feature_list.json) and the allowed changes to it."""

import json
from pathlib import Path
from typing import Any

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen

LIST = "feature_list.json"
PROGRESS = "PROGRESS.md"


@frozen
class Feature:
    description: str
    passes: bool
    steps: tuple[str, ...] = ()


def parse_features(text: str) -> tuple[Feature, ...] | None:
    """Return the checklist in a text, or None if the text is not a checklist."""
    try:
        features = json.loads(text.removeprefix("\ufeff"))["features"]
        checklist = tuple(map(_feature, features))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return checklist or None


def check_edit_allowed(path: Path, old: str, new: str) -> None:
    """Raise ToolError if a change to a checklist changes more than its `passes` fields."""
    if path.name != LIST or parse_features(old) is None:
        return
    if parse_features(new) is None:
        raise _refuse(path, "The result would not be a valid checklist.")
    if _fingerprint(old) != _fingerprint(new):
        raise _refuse(path, "Features, their order, descriptions and steps stay as they are.")


def is_same_plan(old: str, new: str) -> bool:
    """Return whether two checklists differ only in their `passes` fields."""
    both = parse_features(old), parse_features(new)
    return None not in both and _fingerprint(old) == _fingerprint(new)


def _fingerprint(text: str) -> Any:
    """Return the checklist data without the `passes` fields."""
    data = json.loads(text.removeprefix("\ufeff"))
    for feature in data["features"]:
        feature.pop("passes", None)
    return data


def _refuse(path: Path, reason: str) -> ToolError:
    return ToolError(render_prompt("checklist_changed", path=path, reason=reason))


def _feature(data: Any) -> Feature:
    if not isinstance(data["description"], str) or not isinstance(data["passes"], bool):
        raise TypeError
    steps = data.get("steps", [])
    if not isinstance(steps, list):
        raise TypeError
    return Feature(data["description"], data["passes"], tuple(map(str, steps)))
