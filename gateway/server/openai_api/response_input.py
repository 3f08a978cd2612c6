"""Parser for the fields `input` and `instructions` of a response."""

from collections.abc import Mapping
from typing import Any

from agent.types import Image, Message, Part, ToolCall
from gateway.server.openai_api.chat_messages import MAX_PICTURES, arguments_of, read_content
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import bad_field
from gateway.server.openai_api.fields import objects_field, text_field

_SYSTEM = frozenset({"system", "developer"})


async def read_input(
    body: Mapping[str, Any], before: tuple[Message, ...] = ()
) -> ClientConversation:
    """Return the conversation, which continues after `before`. Raises `ApiError`."""
    system = [text_field(body, "instructions") or ""]
    messages = list(before)
    if isinstance(body.get("input"), str):
        messages.append(Message("user", await read_content(body["input"], "input")))
    else:
        for number, item in enumerate(objects_field(body, "input")):
            await _add(item, f"input[{number}]", messages, system)
    if len(messages) == len(before) or messages[-1].role not in ("user", "tool"):
        raise bad_field("input", "a message of the user or the result of a call at the end")
    if (
        sum(isinstance(part, Image) for message in messages for part in message.content)
        > MAX_PICTURES
    ):
        raise bad_field("input", f"at most {MAX_PICTURES} pictures")
    return ClientConversation("\n\n".join(text for text in system if text), tuple(messages))


async def _add(
    item: Mapping[str, Any], place: str, messages: list[Message], system: list[str]
) -> None:
    match item:
        case {"type": "function_call", "call_id": str(call), "name": str(name)}:
            raw = text_field(item, "arguments") or ""
            _add_reply(messages, (), (ToolCall(call, name, arguments_of(raw), raw),))
        case {"type": "function_call_output", "call_id": str(call)}:
            content = await read_content(item.get("output"), f"{place}.output")
            messages.append(Message("tool", content, tool_call_id=call))
        case {"type": "reasoning"}:
            pass  # from another model, the only one that can read it
        case {"type": str(kind)} if kind.startswith("kore:"):
            pass  # the session already contains it
        case {"role": str(role)} if item.get("type", "message") == "message":
            content = await read_content(item.get("content"), f"{place}.content")
            if role in _SYSTEM:
                system.append(Message("user", content).text)
            elif role == "user":
                messages.append(Message("user", content))
            elif role == "assistant":
                _add_reply(messages, content, ())
            else:
                raise bad_field(f"{place}.role", "system, developer, user, assistant")
        case _:
            raise bad_field(place, "a message, function_call or function_call_output")


def _add_reply(
    messages: list[Message], content: tuple[Part, ...], calls: tuple[ToolCall, ...]
) -> None:
    """Add words or calls of a reply, which arrive as separate items, to the same message."""
    if messages and messages[-1].role == "assistant":
        last = messages.pop()
        content, calls = (*last.content, *content), (*last.tool_calls, *calls)
    messages.append(Message("assistant", content, calls))
