"""What a turn has done, below its answer: tools, files, costs."""

from collections import Counter
from collections.abc import Sequence

from agent.i18n import plural, t
from agent.types import Message
from agent.usage import UsageTotals
from gateway.core.records import Trace
from gateway.delivery.activity_status import code, sentence
from gateway.turns.usage.text import usage_text

_STEPS = 25
_CHANGING = ("write_file", "edit_file", "append_file", "move_file")


def trace_of(level: Trace, messages: Sequence[Message], spent: UsageTotals) -> str:
    """Markdown; '' where there is nothing to tell. `messages` are those of the whole turn."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    failed = {message.tool_call_id for message in messages if message.is_error}
    if level == "off" or not (calls or level == "full"):
        return ""
    steps = [
        f"- {sentence(call.name, call.arguments or {})}{' ✗' if call.id in failed else ''}"
        for call in calls.values()
    ]
    if len(steps) > _STEPS:
        steps[_STEPS:] = [t("- and {n} more", n=len(steps) - _STEPS)]
    used = Counter(call.name for call in calls.values())
    parts = [", ".join(f"{code(name)} ×{n}" if n > 1 else code(name) for name, n in used.items())]
    changed = {
        str((call.arguments or {}).get("path"))
        for call in calls.values()
        if call.name in _CHANGING and call.id not in failed
    }
    if changed:
        parts.append(plural(len(changed), "{n} file changed", "{n} files changed"))
    parts.append(usage_text(spent))
    summary = f"🔧 {' · '.join(filter(None, parts))}"
    return "\n".join([summary, *(steps if level == "full" else [])])
