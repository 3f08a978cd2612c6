"""The environment of a sub-agent's tools."""

from dataclasses import fields
from typing import Any

from agent.tools.base import ToolEnvironment
from agent.undo.recorder import RecorderFactory

INHERITED = {
    "folders",
    "workspace",
    "start_folder",
    "memory",
    "owner",
    "identity",
    "similarity",
    "places",
    "deps",
    "elicit",
    "meter",
    "editor",
}
OWN: dict[str, Any] = {"session": "s.1", "agent": "helper", "recording": RecorderFactory()}


def test_subagent_inherits_named_fields_only() -> None:
    # Every field, including future ones, has a value that differs from each default.
    result: Any = {field.name: object() for field in fields(ToolEnvironment)}
    parent = ToolEnvironment(**result)
    derived = parent.for_subagent(**OWN)
    inherited = {name for name in result if getattr(derived, name) is result[name]}
    assert inherited == INHERITED
    own = {name: getattr(derived, name) for name in result.keys() - INHERITED}
    assert own == {
        **OWN,
        "spawn": None,
        "recall": None,
        "recall_around": None,
        "send": None,
        "schedule": None,
        "on_command_end": None,
    }
