"""Validity of a conversation: every call has one result, directly after it, in call order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agent.prompts import load_prompt
from agent.types import Message, Text, ToolCall, ToolResult


def unanswered_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls at the end of the conversation that have no result yet."""
    answered_ids: set[str] = set()
    for message in reversed(messages):
        if message.role == "tool" and message.tool_call_id is not None:
            answered_ids.add(message.tool_call_id)
            continue
        return tuple(call for call in message.tool_calls if call.id not in answered_ids)
    return ()


def with_unique_call_ids(message: Message) -> Message:
    """Return the reply with a unique id for each call: results are stored by id."""
    used_ids: set[str] = set()
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        name, number = call.id, 1
        while name in used_ids:
            number += 1
            name = f"{call.id}_{number}"
        used_ids.add(name)
        calls.append(call if name == call.id else replace(call, id=name))
    if all(checked is call for checked, call in zip(calls, message.tool_calls, strict=True)):
        return message
    return replace(message, tool_calls=tuple(calls))


def tool_message(call: ToolCall, text: str, *, is_error: bool = False) -> Message:
    return Message("tool", (Text(text),), tool_call_id=call.id, is_error=is_error)


def result_message(call_id: str, result: ToolResult) -> Message:
    """Return a call's result as a message of the conversation."""
    content = (Text(result.for_model), *result.images)
    return Message("tool", content, (), call_id, result.is_error, result.taint)


def close_unanswered_calls(
    messages: Sequence[Message], results: Mapping[str, Message]
) -> list[Message]:
    """Return results for unanswered calls: the known ones, else "interrupted"."""
    return [
        results.get(call.id) or tool_message(call, load_prompt("interrupted"), is_error=True)
        for call in unanswered_calls(messages)
    ]


def is_valid(messages: Iterable[Message]) -> bool:
    """Return whether every call has exactly one result, directly after it, in call order."""
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
    """Return a valid conversation: without orphan results, and with missing results filled in.

    Vendors respond with 400 to every request of a session with an orphan call, so this runs before
    each request.
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
            call_id = messages[index].tool_call_id
            if call_id is not None:
                results.setdefault(call_id, messages[index])
            index += 1
        calls = tuple({call.id: call for call in message.tool_calls}.values())
        if message.role != "assistant":
            calls = ()
        if calls != message.tool_calls:
            message = replace(message, tool_calls=calls)
        repaired.append(message)
        repaired.extend(close_unanswered_calls([message], results))
    return repaired
