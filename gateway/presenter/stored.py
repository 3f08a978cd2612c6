"""Presenter of stored messages: calls with their results."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent import events
from agent.records import frozen
from agent.text.visible import escape_line
from agent.turn.tool_catalog import started_event, tool_traits
from agent.types import Message, ToolCall
from gateway.presenter.blocks import Block, call_block

_MAX_DIFF_CHARS = 20_000


@frozen
class TextChange:
    """Change of the file at `path`: `old` text, None for the whole file, becomes `new` text."""

    path: str
    old: str | None
    new: str


def text_changes(tool: str, arguments: Mapping[str, Any]) -> tuple[TextChange, ...]:
    """Return the changes that a call makes, if its arguments describe them."""
    traits = tool_traits(tool)
    match arguments:
        case _ if traits.kind != "edit":
            return ()
        case {"path": str(path), "edits": list(edits)}:
            return tuple(change for edit in edits for change in _changes(path, edit))
        case {"path": str(path), "content": str(text)}:
            return (TextChange(path, "" if traits.only_adds else None, text),)
        case {"path": str(path)}:
            return tuple(_changes(path, arguments))
    return ()


def _changes(path: str, edit: Any) -> Iterator[TextChange]:
    match edit:
        case {"old_string": str(old), "new_string": str(new)}:
            yield TextChange(path, old, new)


class StoredCalls:
    """Blocks of stored calls: `start` with a reply, then `end` with each result.

    Ids are unique only within a reply, because vendors reuse them.
    """

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}

    def start(self, reply: Message) -> Iterator[Block]:
        """Yield the calls of a reply."""
        self._calls = {call.id: call for call in reply.tool_calls}
        for call in reply.tool_calls:
            arguments = call.arguments or {}
            files = tuple(tool_traits(call.name).delivered(arguments, ""))
            yield replace(call_block(started_event(call)), files=files)

    def end(self, message: Message) -> Block | None:
        """Return the call of a result, or None if its reply is unknown."""
        call = self._calls.get(message.tool_call_id or "")
        if call is None:
            return None
        started, arguments = started_event(call), call.arguments or {}
        diff: str | None = None
        files: tuple[str, ...] = ()
        if not message.is_error:
            diff = _diff(text_changes(call.name, arguments))
            files = tuple(tool_traits(call.name).delivered(arguments, message.text))
        result = events.ToolResulted(
            call.id, call.name, message.text, message.is_error, 0.0, diff, kind=started.kind
        )
        return replace(call_block(started, result), files=files)


def _diff(changes: tuple[TextChange, ...]) -> str | None:
    """Return the changes as a diff without places, because the old file is not known."""
    lines: list[str] = []
    for n, change in enumerate(changes):
        if not n or change.path != changes[n - 1].path:
            lines += [f"--- {escape_line(change.path)}", f"+++ {escape_line(change.path)}"]
        lines += [f"-{line}" for line in (change.old or "").splitlines()]
        lines += [f"+{line}" for line in change.new.splitlines()]
    return "\n".join(lines)[:_MAX_DIFF_CHARS] if lines else None
