"""`todo` tool: the model's task list for this session.

The list exists only in the conversation: each call replaces it completely, so the newest call is
the list. It survives restarts with the conversation; `current` finds it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.security.taint.taint import NOTHING
from agent.text.similar_names import folded
from agent.tools.base import CallContext
from agent.tools.call_arguments import canonical, without_namespace
from agent.tools.schema import ArgumentSchema
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
    """Tool that replaces the list; people see a symbol for the state of each item."""

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
    names = {Todo.name, *Todo.traits.aliases}
    tool, schema = Todo(), ArgumentSchema(Todo.name, Todo.parameters)
    failed = {m.tool_call_id for m in messages if m.role == "tool" and m.is_error}
    for message in reversed(messages):
        for call in reversed(message.tool_calls):
            is_list = folded(without_namespace(call.name)) in names
            if not is_list or call.id in failed or not call.arguments:
                continue
            with suppress(ToolError):
                arguments = schema.validate(canonical(tool, call.arguments))
                return _render_items(arguments["items"]) or None
    return None


def _render_items(items: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{_MARKS.get(_status(item), '☐')} {' '.join(item['content'].split())}" for item in items
    )


def _status(item: Mapping[str, Any]) -> str:
    return str(item.get("status", "pending"))
