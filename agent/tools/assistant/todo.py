"""`todo` tool: the model's task list for this session.

The list exists only in the conversation: each call replaces it completely, so the newest call is
the list. It survives restarts with the conversation; `current` finds it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.security.taint.taint import NOTHING
from agent.tools.base import CallContext
from agent.tools.registry import ToolRegistry
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Message, Taint, ToolResult

MAX_ITEMS = 100
ITEM_LIMIT_CHARS = 500
_MARKS = {"pending": "☐", "in_progress": "▶", "completed": "☑"}

_ITEM = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "status": {"type": "string", "enum": list(_MARKS)},
    },
    "required": ["content"],
}


class Todo:
    """Tool that replaces the list; people see it with a sign for each state."""

    name: ClassVar[str] = "todo"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "plan",
        label=mark_for_translation("Updating the to-do list"),
        aliases=("todowrite", "updateplan", "updatetodos"),
        argument_aliases={"todos": "items", "plan": "items"},
        item_aliases={"items": dict.fromkeys(("step", "text", "task", "title"), "content")},
        claude_names=("TodoWrite",),
        quiet=True,
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": _ITEM}},
        "required": ["items"],
    }

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/todo")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        items: list[Mapping[str, Any]] = args["items"]
        if len(items) > MAX_ITEMS:
            raise ToolError(f"The list takes {MAX_ITEMS} items at most, found {len(items)}.")
        if any(len(item["content"]) > ITEM_LIMIT_CHARS for item in items):
            raise ToolError(f"An item is longer than {ITEM_LIMIT_CHARS} characters; shorten it.")
        if not items:
            return ToolResult(load_prompt("todo_empty"))
        completed = sum(_status(item) == "completed" for item in items)
        text = render_prompt("todo_kept", done=completed, all=len(items))
        return ToolResult(text, for_user=_render_items(items))


def current(messages: Sequence[Message]) -> str | None:
    """Return the list at the end of `messages`, one item per line, or None if there is none.

    Compaction uses it, because the messages that it removes may contain the list.
    """
    toolbox = _toolbox()
    failed = {m.tool_call_id for m in messages if m.role == "tool" and m.is_error}
    for message in reversed(messages):
        for call in reversed(message.tool_calls):
            tool = toolbox.find(call.name)
            if tool is None or call.id in failed or not call.arguments:
                continue
            with suppress(ToolError):
                return _render_items(toolbox.validate(tool, call.arguments)["items"]) or None
    return None


@cache
def _toolbox() -> ToolRegistry:
    """Return a registry of this tool alone, which reads calls as any registry does."""
    return ToolRegistry([Todo()])


def _render_items(items: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{_MARKS.get(_status(item), '☐')} {' '.join(item['content'].split())}" for item in items
    )


def _status(item: Mapping[str, Any]) -> str:
    return str(item.get("status", "pending"))
