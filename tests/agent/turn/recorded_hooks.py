"""Hook commands that record their input."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.settings import ToolSettings
from agent.turn.command_hooks import CommandHook, CommandHooks
from agent.turn.hook_events import COMMON_INPUT, DEFINITIONS, HOOK_EVENTS, HookEventName


class RecordedHooks:
    """A command for each event that stores its input in a folder outside the workspace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "hook-inputs"
        self._folder.mkdir(parents=True)

    @property
    def hooks(self) -> CommandHooks:
        command = f"cat > {self._folder}/$(date +%s%N)-$$"
        return CommandHooks([CommandHook(event, command) for event in HOOK_EVENTS], ToolSettings())

    def inputs(self, event: HookEventName) -> Sequence[dict[str, Any]]:
        """Return the inputs of the event, oldest first, without what all events have.

        Every input has the fields of the event's definition.
        """
        documents = [json.loads(file.read_text()) for file in sorted(self._folder.iterdir())]
        inputs = [item for item in documents if item["hook_event_name"] == event]
        for item in inputs:
            assert set(item) == {*COMMON_INPUT, *DEFINITIONS[event].input}
        return [
            {key: value for key, value in item.items() if key not in COMMON_INPUT}
            for item in inputs
        ]
