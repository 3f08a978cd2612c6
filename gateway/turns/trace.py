"""Trace of a turn below its answer: tools, files, costs."""

import os
from collections import Counter
from collections.abc import Sequence

from agent.i18n import plural, t
from agent.tools.registry import ToolRegistry
from agent.types import Message, ToolCall
from agent.usage import UsageTotals
from gateway.core.records import Trace
from gateway.delivery.activity_status import code, sentence
from gateway.turns.usage.text import usage_text

_STEPS = 25


def trace_of(
    level: Trace, messages: Sequence[Message], spent: UsageTotals, toolbox: ToolRegistry
) -> str:
    """Return the trace as markdown, or ''. `messages` are the messages of the whole turn."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    failed = {message.tool_call_id for message in messages if message.is_error}
    if level == "off" or not (calls or level == "full"):
        return ""
    steps = [
        f"- {_step(call, toolbox)}{' ✗' if call.id in failed else ''}" for call in calls.values()
    ]
    if len(steps) > _STEPS:
        steps[_STEPS:] = [t("- and {n} more", n=len(steps) - _STEPS)]
    used = Counter(call.name for call in calls.values())
    parts = [", ".join(f"{code(name)} ×{n}" if n > 1 else code(name) for name, n in used.items())]
    changed = {
        os.path.normpath(path)
        for call in calls.values()
        if call.id not in failed and toolbox.traits(call.name).names_changed_files
        for path in toolbox.paths(call)
    }
    if changed:
        parts.append(plural(len(changed), "{n} file changed", "{n} files changed"))
    parts.append(usage_text(spent))
    summary = f"🔧 {' · '.join(filter(None, parts))}"
    return "\n".join([summary, *(steps if level == "full" else [])])


def _step(call: ToolCall, toolbox: ToolRegistry) -> str:
    traits = toolbox.traits(call.name)
    return sentence(call.name, call.arguments or {}, traits.kind, traits.label)
