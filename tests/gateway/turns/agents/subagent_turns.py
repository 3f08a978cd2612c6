"""Turns that start sub-agents, and the answers."""

import asyncio
import json
from typing import Any

from tests.gateway.parts import Parts
from tests.gateway.stored import unmatched


def task(prompt: str, agent: str = "general", **more: Any) -> str:
    """Return a line that makes the fake model start a sub-agent."""
    args = {"description": f"do {prompt[:9]}", "prompt": prompt, "subagent_type": agent, **more}
    return f"!tool task {json.dumps(args)}"


def tool(name: str, **args: Any) -> str:
    return f"!tool {name} {json.dumps(args)}"


async def answers(parts: Parts, session: str | None = None) -> list[str]:
    """Return the model's texts, oldest first, from people's conversations or from one session."""
    sessions = [session] if session else await peoples_sessions(parts)
    rows = await parts.stored(
        "message", "session", "content", role="assistant", order="created_at, n"
    )
    answers = (json.loads(row)["content"] for place, row in rows if place in sessions)
    texts = ("".join(part.get("text", "") for part in content) for content in answers)
    return [text for text in texts if text]


async def peoples_sessions(parts: Parts) -> list[str]:
    """Return the sessions that do not belong to a sub-agent."""
    return [id for (id,) in await parts.stored("session", "id", principal=unmatched("agent:%"))]


async def wait_for_answers(parts: Parts, count: int = 1) -> list[str]:
    async with asyncio.timeout(30):
        while len(texts := await answers(parts)) < count:
            await asyncio.sleep(0.005)
    return texts


async def states(parts: Parts) -> list[str]:
    return [state for (state,) in await parts.stored("task", "state", order="id")]
