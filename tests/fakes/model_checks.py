"""OpenAI's validation of requests, above all of tool calls and their results."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


def complaint(body: Mapping[str, Any]) -> str | None:
    """Return the vendor's error message for an invalid request, or None."""
    if not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "Invalid 'messages': empty array. Expected an array with minimum length 1."
    return _about_messages(messages) or _about_tools(body.get("tools"))


def _about_messages(messages: Sequence[Mapping[str, Any]]) -> str | None:
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            return f"Invalid value: '{role}' in 'messages[{n}].role'."
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return (
                    f"Invalid parameter: messages with role 'tool' must be a response to a "
                    f"preceding message with 'tool_calls' (messages[{n}])."
                )
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return _unanswered(open_calls)
        calls = message.get("tool_calls") or []
        if message.get("content") is None and not calls:
            return f"Invalid value for 'content': expected a string, got null (messages[{n}])."
        for call in calls:
            if not isinstance(call.get("function", {}).get("arguments"), str):
                return f"Invalid type for 'messages[{n}].tool_calls': arguments must be a string."
        open_calls = [call["id"] for call in calls]
    return _unanswered(open_calls) if open_calls else None


def _unanswered(call_ids: Sequence[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(call_ids)
    )


def _about_tools(tools: Sequence[Mapping[str, Any]] | None) -> str | None:
    for n, tool in enumerate(tools or ()):
        name = tool.get("function", {}).get("name", "")
        if tool.get("type") != "function" or not TOOL_NAME.fullmatch(name):
            return f"Invalid 'tools[{n}].function.name': string does not match pattern."
    return None
