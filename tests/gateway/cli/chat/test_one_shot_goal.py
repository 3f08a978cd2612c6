"""Goals of single turns: turns follow each other in one run until the goal is met or paused."""

import asyncio
import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model_script import ReplyScript
from tests.gateway.cli.chat.long_task_scene import Place


def stepping(turns: int, **verdict: Any) -> Any:
    """Return a model whose goal is met after this number of turns."""

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        messages = body["messages"]
        if "You judge whether a goal is met" in json.dumps(messages[0]):
            is_met = f"step {turns}" in json.dumps(messages[-1])
            text = {"met": is_met, "evidence": "all steps", "missing": "the next step", **verdict}
            return ReplyScript(text=json.dumps(text))
        replies = [message for message in messages if message["role"] == "assistant"]
        return ReplyScript(text=f"step {len(replies) + 1}")

    return mind


async def test_run_ends_when_the_goal_is_met(place: Place) -> None:
    place.server.mind = stepping(3)
    code, err = await place.run("-m", "/goal take all steps")
    assert code == 0, err
    assert "The goal is met: all steps" in err
    assert "turn 3 of 20" in err
    assert len(place.server.requests) == 6


@pytest.mark.parametrize(
    ("text", "verdict", "code"),
    [("/goal take all steps --turns 2", {}, 5), ("/goal paint it", {"asks": True}, 4)],
)
async def test_exit_code_names_the_reason_of_a_pause(
    place: Place, text: str, verdict: dict[str, Any], code: int
) -> None:
    place.server.mind = stepping(9, **verdict)
    assert (await place.run("-m", text))[0] == code


async def test_json_has_the_goal_and_the_text_of_all_turns(place: Place) -> None:
    place.server.mind = stepping(2)
    code, out = await place.run_verb(
        *("agent", "-m", "/goal take all steps", "--output-format", "json")
    )
    summary = json.loads(out)
    assert code == 0
    assert summary["text"] == "step 1\n\nstep 2"
    assert summary["goal"]["state"] == "met"
    assert summary["goal"]["turns"] == 2


async def test_answer_that_violates_the_schema_is_requested_again_once_the_goal_is_met(
    place: Place, tmp_path: Path
) -> None:
    place.server.mind = stepping(2)
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    code, err = await place.run("-m", "/goal take all steps", "--output-schema", str(schema))
    assert code == 1
    assert err.count("asking the model again") == 2


@pytest.mark.parametrize(
    ("change", "code", "notice"),
    [
        ("/goal pause", 1, "it was paused by hand"),
        ("/goal clear", 1, "The goal is removed."),
        ("/goal another one", 1, "The goal is removed."),
        ("/stop", 130, "the work was stopped"),
    ],
)
async def test_run_ends_when_another_terminal_changes_its_goal(
    place: Place, change: str, code: int, notice: str
) -> None:
    place.server.mind = waiting_for_ever()
    gateway = await place.serve()
    run = await place.start("-m", "/goal take all steps", "--output-format", "json")
    await place.wait_for_request(run)
    other = await place.start("-c", "-m", change)
    async with asyncio.timeout(60):
        out, err = await run.communicate()
    assert run.returncode == code, err
    assert notice in err.decode()
    summary = json.loads(out)
    assert not summary["success"]
    assert summary["goal"]["state"] != "active"
    for process in (other, gateway):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def waiting_for_ever() -> Any:
    """Return a model whose first turn ends at once and whose check never ends."""

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        is_check = "You judge whether a goal is met" in json.dumps(body["messages"][0])
        return ReplyScript(text="step 1", latency_s=300 if is_check else 0)

    return mind


async def test_paused_goal_is_continued_in_another_run(place: Place) -> None:
    place.server.mind = stepping(2)
    assert (await place.run("-m", "/goal take all steps --turns 1"))[0] == 5
    code, err = await place.run("-c", "-m", "/goal resume")
    assert code == 0, err
    assert "The goal is met: all steps" in err


async def test_answer_to_a_question_continues_the_goal_in_another_run(place: Place) -> None:
    place.server.mind = stepping(9, asks=True)
    assert (await place.run("-m", "/goal take all steps"))[0] == 4
    place.server.mind = stepping(3)
    code, err = await place.run("-c", "-m", "take the first one")
    assert code == 0, err
    assert "The goal is met: all steps" in err


@pytest.mark.parametrize(
    "command", ["/goal take all steps --turns many", "/goal pause", "/worktree merge", "/nonsense"]
)
async def test_refused_command_is_an_error(place: Place, command: str) -> None:
    code, err = await place.run("-m", command)
    assert code == 1
    assert err.strip()
    code, out = await place.run_verb("agent", "-m", command, "--output-format", "json")
    summary = json.loads(out)
    assert code == 1
    assert not summary["success"]
    assert summary["error"]["code"] == "refused"


async def test_answer_of_a_command_has_no_escapes(place: Place) -> None:
    _, err = await place.run("-m", "/goal take all steps --turns many")
    assert "--turns: 'many' is not a limit" in err
    _, out = await place.run_verb("agent", "-m", "/rename *a* [b]")
    assert "“*a* [b]”" in out


async def test_pausing_a_goal_is_not_a_success(place: Place) -> None:
    place.server.mind = stepping(9)
    words = ("agent", "-m", "/goal take all steps --turns 1", "--output-format", "json")
    code, out = await place.run_verb(*words)
    assert code == 5
    assert not json.loads(out)["success"]


async def test_run_ends_when_another_terminal_dropped_its_goal(place: Place) -> None:
    """A terminal that takes the data over from a killed gateway does not know the run."""
    place.server.mind = waiting_for_ever()
    gateway = await place.serve()
    run = await place.start("-m", "/goal take all steps")
    await place.until_requests(2)
    run.send_signal(signal.SIGSTOP)
    gateway.kill()
    await gateway.wait()
    gateway = await place.serve()
    run.send_signal(signal.SIGCONT)
    async with asyncio.timeout(60):
        _, err = await run.communicate()
    assert run.returncode == 1, err
    assert "Kore was restarted and dropped its next turn" in err.decode()
    gateway.kill()
    await gateway.wait()
