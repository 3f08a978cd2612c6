"""Turns that write a file."""

from pathlib import Path
from typing import Any

from agent.types import Message, ToolCall, assistant
from tests.gateway.parts import Parts, answer_to, chat_message


def writing(content: str, path: str = "a.txt") -> list[Message | str]:
    arguments = {"path": path, "content": content}
    return [assistant("", (ToolCall("1", "write_file", arguments, ""),)), "Done."]


async def write_contents(parts: Parts, *contents: str) -> Path:
    """Run a turn for each content, and return the file."""
    await answer_to(parts, chat_message("/auto"))
    for _ in contents:
        assert await answer_to(parts, chat_message("write")) == "Done."
    return parts.workspace / "a.txt"


OWNER: dict[str, Any] = {"owner": "chat:7"}
