"""Reports of finished background commands to their conversation: once, and only new facts."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.providers.base import Provider
from agent.providers.scripted import ScriptedProvider
from agent.types import Context, Message, ToolCall, assistant
from gateway.core.messages import ONCE
from gateway.resources import Timing
from gateway.turns.command_reports import ReportLimits
from tests.gateway.parts import Parts, console_message, running, wait_until
from tests.gateway.turns.paced import Paced, list_dir_reply


def start(*commands: str) -> Message:
    """Return a reply that starts the commands in the background."""
    starts = [
        ToolCall(f"c{n}", "exec", args, json.dumps(args))
        for n, command in enumerate(commands)
        if (args := {"command": command, "background": True})
    ]
    return assistant("", tuple(starts))


def output_call(wait_s: float) -> Message:
    args = {"action": "output", "wait_s": wait_s}
    return assistant("", (ToolCall("o1", "process", args, json.dumps(args)),))


class Gate:
    """Gate at which a command waits until the test opens it."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self._path = folder / "workspace" / name
        self._path.parent.mkdir(exist_ok=True)
        os.mkfifo(self._path)
        self.command = f"cat {name}; echo built {name}; exit 3"

    async def open(self) -> None:
        await asyncio.to_thread(lambda: self._path.write_bytes(b""))


@asynccontextmanager
async def at_work(folder: Path, model: Provider, in_a_row: int = 10) -> AsyncIterator[Parts]:
    timing = Timing(reports=ReportLimits(after_s=0.05, in_a_row=in_a_row))
    async with running(folder, model, timing=timing) as parts:
        yield parts


async def say(parts: Parts, text: str, chat: str = "main") -> None:
    message = console_message(text, chat, options={"auto": True})
    await parts.bus.submit(message)
    await parts.until_answered(message)


def note_of(message: Message) -> str:
    """Return the context of a message, which no person has written."""
    return "\n".join(part.text for part in message.content if isinstance(part, Context))


async def settle(parts: Parts) -> None:
    """Wait until no message waits and no turn runs."""

    async def is_quiet() -> bool:
        rows = await parts.stored("inbox", "turn_id", "dead_reason")
        states = [state for (state,) in await parts.stored("turn", "state")]
        return all(any(row) for row in rows) and set(states) <= {"done"}

    async with asyncio.timeout(30):
        while not await is_quiet():
            await asyncio.sleep(0.01)


async def test_end_of_a_command_starts_a_turn_with_its_result(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = ScriptedProvider([start(gate.command), "it runs", "It failed.", "as I said"])
    async with at_work(tmp_path, model) as parts:
        await say(parts, "build it")
        assert len(model.requests) == 2
        await gate.open()
        await wait_until(lambda: len(model.requests) == 3)
        last = model.requests[-1].messages[-1]
        assert last.role == "user"
        assert last.text == ""
        note = note_of(last)
        assert f"Background command 1 (`{gate.command}`) has ended: exit code 3." in note
        assert "Its last output:\n\nbuilt gate" in note
        await settle(parts)
        await say(parts, "and now?")
        assert "background" not in str(model.requests[-1].messages[-1].content).lower()


async def test_running_turn_sees_the_end_in_its_next_request(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = Paced(start(gate.command), list_dir_reply(), "It failed.", "else")
    async with at_work(tmp_path, model) as parts:
        message = console_message("build it", options={"auto": True})
        await parts.bus.submit(message)
        model.let_go(1)
        await model.wait_for_request(2)
        # The report arrives after a person's message, which waits for its own turn.
        await parts.bus.submit(console_message("something else"))
        await gate.open()
        await parts.until_count(3, "inbox")
        model.let_go(3)
        await parts.until_answered(message)
        assert "has ended: exit code 3" in note_of(model.requests[2].messages[-1])
        await settle(parts)
        assert len(model.requests) == 4
        assert model.requests[3].messages[-1].text == "something else"


async def test_output_read_by_the_model_is_not_reported(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = ScriptedProvider([start(gate.command), output_call(60), "It failed.", "nothing"])
    async with at_work(tmp_path, model) as parts:
        task = asyncio.create_task(say(parts, "build it"))
        await wait_until(lambda: len(model.requests) == 2)
        await gate.open()
        await task
        assert "exit code 3" in model.requests[2].messages[-1].text
        await settle(parts)
        await say(parts, "and now?")
        assert len(model.requests) == 4
        assert "background" not in str(model.requests[-1].messages[-1].content).lower()


async def test_simultaneous_ends_are_one_message(tmp_path: Path) -> None:
    gates = [Gate(tmp_path, name) for name in ("one", "two")]
    model = ScriptedProvider([start(*(gate.command for gate in gates)), "they run", "Both failed."])
    async with running(tmp_path, model, timing=Timing(reports=ReportLimits(after_s=1))) as parts:
        await say(parts, "build it")
        for gate in gates:
            await gate.open()
        await wait_until(lambda: len(model.requests) == 3)
        note = note_of(model.requests[-1].messages[-1])
        assert "built one" in note
        assert "built two" in note
        await settle(parts)
        assert len(model.requests) == 3


async def test_consecutive_reports_are_limited(tmp_path: Path) -> None:
    gates = [Gate(tmp_path, name) for name in ("one", "two", "three")]
    model = ScriptedProvider(
        [
            *(
                start(gates[0].command),
                "it runs",
                start(gates[1].command),
                "again",
            ),
            *("It is over.", start(gates[2].command), "it runs", "told"),
        ]
    )
    async with at_work(tmp_path, model, in_a_row=1) as parts:
        await say(parts, "build it")
        await gates[0].open()
        await wait_until(lambda: len(model.requests) == 4)
        await settle(parts)
        await gates[1].open()
        ((session,),) = await parts.stored("session", "id")
        await wait_until(
            lambda: not any(task.is_running for task in parts.agent.toolbox.tasks(session))
        )
        await settle(parts)
        await say(parts, "and now?")
        # The report started no turn; the next turn includes it.
        assert len(model.requests) == 5
        assert "background process 2" in note_of(model.requests[-1].messages[-1])
        # After a person's message, the next report starts a turn again.
        await say(parts, "once more")
        await gates[2].open()
        await wait_until(lambda: len(model.requests) == 8)
        assert "Background command 3" in note_of(model.requests[-1].messages[-1])


async def test_ended_one_shot_run_gets_no_report(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = Paced(start(gate.command), "It runs.")
    async with at_work(tmp_path, model) as parts:
        chat = ONCE.rpartition(":")[2] + "1"
        message = console_message("build it", chat, options={"auto": True})
        await parts.bus.submit(message)
        model.let_go(1)
        await model.wait_for_request(2)
        await gate.open()
        await parts.until_count(2, "inbox")
        model.let_go(1)
        await parts.until_answered(message)
        await settle(parts)
        assert len(model.requests) == 2
