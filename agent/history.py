"""Conversations: where they are kept for library users, and what makes one valid."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent.errors import KoreError
from agent.prompts import load_prompt
from agent.serialization import dumps, message_from_json, message_to_json
from agent.types import Message, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.context.compaction_marker import CompactionMarker


_MARK = b'{"_type":"summary"'


class History(Protocol):
    """Keeps sessions for library users; the gateway passes its history as data instead."""

    async def load(self, session: str) -> Sequence[Message]: ...

    async def append(self, session: str, messages: Sequence[Message]) -> None: ...


class MemoryHistory:
    """Sessions that live as long as the process."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Message]] = {}
        self._marks: dict[str, CompactionMarker] = {}

    async def load(self, session: str) -> list[Message]:
        return list(self._sessions.get(session, ()))

    async def append(self, session: str, messages: Sequence[Message]) -> None:
        self._sessions.setdefault(session, []).extend(messages)

    async def mark(self, session: str) -> "CompactionMarker":
        from agent.context.compaction_marker import CompactionMarker

        return self._marks.get(session) or CompactionMarker()

    async def set_mark(self, session: str, mark: "CompactionMarker") -> None:
        self._marks[session] = mark


class JsonlHistory:
    """One `SESSION.jsonl` per session: a meta line, then a message a line, and summary lines.

    A line that a crash cut short at the end of the file is dropped when the file is read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    async def load(self, session: str) -> list[Message]:
        """The messages. Raises `KoreError` for a damaged line, which it names."""
        path = self._path(session)
        if not path.exists():
            return []
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        messages: list[Message] = []
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                record = json.loads(line)
                if "_type" not in record:
                    messages.append(message_from_json(record))
            except (ValueError, TypeError, KoreError) as exc:
                raise KoreError(
                    f"{path}, line {number}: found no message ({exc}). Mend or delete that line."
                ) from exc
        return messages

    async def append(self, session: str, messages: Sequence[Message]) -> None:
        path = self._path(session)
        path.parent.mkdir(parents=True, exist_ok=True)
        records = [] if path.exists() else [{"_type": "meta", "id": session}]
        records += [message_to_json(message) for message in messages]
        with path.open("ab") as file:
            file.write("".join(dumps(record) + "\n" for record in records).encode())

    async def mark(self, session: str) -> "CompactionMarker":
        from agent.context.compaction_marker import CompactionMarker, mark_from_json

        path = self._path(session)
        lines = path.read_bytes().splitlines() if path.exists() else []
        told = next((line for line in reversed(lines) if line.startswith(_MARK)), None)
        try:
            return mark_from_json(json.loads(told)) if told else CompactionMarker()
        except (ValueError, KeyError, TypeError) as exc:
            raise KoreError(f"{path}: a summary is damaged ({exc!r}). Delete that line.") from exc

    async def set_mark(self, session: str, mark: "CompactionMarker") -> None:
        from agent.context.compaction_marker import mark_to_json

        with self._path(session).open("ab") as file:
            file.write((dumps({"_type": "summary", **mark_to_json(mark)}) + "\n").encode())

    def _path(self, session: str) -> Path:
        if not session or set(session) & set("/\\\0") or session.startswith("."):
            raise KoreError(f"{session!r} cannot be a session's name: it must be a plain file name")
        return self.folder / f"{session}.jsonl"


def unanswered_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls at the end of the conversation that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == "tool" and message.tool_call_id is not None:
            answered.add(message.tool_call_id)
            continue
        return tuple(call for call in message.tool_calls if call.id not in answered)
    return ()


def distinct(message: Message) -> Message:
    """The reply with an id of its own for each call: results are kept by it."""
    taken: set[str] = set()
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        name, number = call.id, 1
        while name in taken:
            number += 1
            name = f"{call.id}_{number}"
        taken.add(name)
        calls.append(call if name == call.id else replace(call, id=name))
    if all(one is call for one, call in zip(calls, message.tool_calls, strict=True)):
        return message
    return replace(message, tool_calls=tuple(calls))


def tool_message(call: ToolCall, text: str, *, is_error: bool = False) -> Message:
    return Message("tool", (Text(text),), tool_call_id=call.id, is_error=is_error)


def result_message(call_id: str, result: ToolResult) -> Message:
    """A call's result as the conversation keeps it."""
    text = (Text(result.for_model),)
    return Message("tool", text, (), call_id, result.is_error, result.taint)


def close_unanswered_calls(
    messages: Sequence[Message], known: Mapping[str, Message]
) -> list[Message]:
    """Results for the calls that the conversation leaves open: known ones, else "interrupted"."""
    return [
        known.get(call.id) or tool_message(call, load_prompt("interrupted"), is_error=True)
        for call in unanswered_calls(messages)
    ]


def is_valid(messages: Iterable[Message]) -> bool:
    """True when every call has exactly one result, right behind it and in call order."""
    expected: list[str] = []
    for message in messages:
        if expected:
            if message.role != "tool" or message.tool_call_id != expected.pop(0):
                return False
        elif message.tool_calls:
            expected = [call.id for call in message.tool_calls]
            if len(set(expected)) != len(expected) or message.role != "assistant":
                return False
        elif message.role == "tool":
            return False
    return not expected


def repair(messages: Sequence[Message]) -> list[Message]:
    """A valid conversation made of this one: orphan results go, missing ones are filled in.

    A vendor answers 400 for ever to a session with one orphan call; this runs before each request.
    """
    if is_valid(messages):
        return list(messages)
    repaired: list[Message] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if message.role == "tool":
            continue
        results: dict[str, Message] = {}
        while index < len(messages) and messages[index].role == "tool":
            answered = messages[index].tool_call_id
            if answered is not None:
                results.setdefault(answered, messages[index])
            index += 1
        calls = tuple({call.id: call for call in message.tool_calls}.values())
        if message.role != "assistant":
            calls = ()
        if calls != message.tool_calls:
            message = replace(message, tool_calls=calls)
        repaired.append(message)
        repaired.extend(close_unanswered_calls([message], results))
    return repaired
