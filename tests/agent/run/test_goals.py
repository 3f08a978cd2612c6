"""Goals of library users: turns until a condition is met, with limits."""

import json
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.approvals import Answer, ApprovalRequest
from agent.context.goal_judge import GoalJudge
from agent.errors import BadReply, Rejected
from agent.providers.scripted import ScriptedProvider
from agent.run.goals import GoalRun
from agent.types import Context, Message, Result, assistant
from tests.agent.props import call

MET = json.dumps({"met": True, "evidence": "12 tests passed", "missing": ""})
GOAL = "make the tests pass"


def unmet(missing: str = "a run of the tests", **more: Any) -> str:
    return json.dumps({"met": False, "evidence": "", "missing": missing, **more})


async def test_turns_follow_until_the_goal_is_met(tmp_path: Path) -> None:
    model = ScriptedProvider(["Begun.", unmet(), "All pass.", MET])
    async with kore.Agent(model, workspace=tmp_path) as agent:
        goal = await agent.run_goal(GOAL, session="work")
        stored = await agent.history.load("work")
    assert goal.is_met
    assert goal.remark == "12 tests passed"
    assert goal.turns == 2
    assert goal.result.text == "Begun.\n\nAll pass."
    assert [message.text for message in stored if message.role == "assistant"] == [
        "Begun.",
        "All pass.",
    ]
    first, check, second, _ = model.requests
    assert first.messages[-1].text == GOAL
    assert f"Goal: {GOAL}" in check.messages[-1].text
    assert "Begun." in check.messages[-1].text
    notes = [part.text for part in second.messages[-1].content if isinstance(part, Context)]
    assert any("not met yet: a run of the tests" in note for note in notes)
    assert not second.messages[-1].text


async def test_usage_includes_the_checks(tmp_path: Path) -> None:
    model = ScriptedProvider(["Begun.", MET])
    async with kore.Agent(model, workspace=tmp_path) as agent:
        goal = await agent.run_goal(GOAL)
    turn = ScriptedProvider(["Begun."])
    async with kore.Agent(turn, workspace=tmp_path) as agent:
        result = await agent.run(GOAL)
    assert goal.result.usage.output > result.usage.output


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(kore.GoalLimits(turns=1), "turns"), (kore.GoalLimits(hours=0.0), "time")],
)
async def test_limit_pauses_the_goal(tmp_path: Path, limits: kore.GoalLimits, reason: str) -> None:
    model = ScriptedProvider(["Begun.", unmet("the rest")])
    async with kore.Agent(model, workspace=tmp_path) as agent:
        goal = await agent.run_goal(GOAL, limits=limits)
    assert (goal.reason, goal.remark, goal.turns) == (reason, "the rest", 1)


@pytest.mark.parametrize(
    ("waits", "works", "reason"), [(True, False, None), (False, True, "time"), (True, True, "time")]
)
async def test_time_of_open_questions_does_not_count(
    tmp_path: Path, *, waits: bool, works: bool, reason: str | None
) -> None:
    now_s = 0.0

    async def approve(request: ApprovalRequest) -> Answer:
        nonlocal now_s
        now_s += 7200 * waits
        return "once"

    async def run_turn(message: Message) -> Result[Any]:
        nonlocal now_s
        now_s += 7200 * works
        return await agent.run(message, session="work")

    file, workspace = tmp_path / "a.txt", tmp_path / "work"
    workspace.mkdir()
    write = call("write_file", path=str(file), content="a")
    model = ScriptedProvider([assistant("", (write,)), "Begun.", unmet(), "Done.", MET])
    async with kore.Agent(model, workspace=workspace, approve=approve) as agent:
        goal = await GoalRun(
            GOAL,
            kore.GoalLimits(hours=1),
            "work",
            agent.history,
            GoalJudge(agent.models, agent.redactor),
            run_turn,
            clock=lambda: now_s,
        ).run()
    assert file.exists()
    assert goal.reason == reason


async def test_question_pauses_the_goal_and_another_call_continues(tmp_path: Path) -> None:
    replies = ["Red or blue?", unmet("the colour", asks=True), "Blue it is.", MET]
    async with kore.Agent(ScriptedProvider(replies), workspace=tmp_path) as agent:
        goal = await agent.run_goal("paint it", session="work")
        assert goal.reason == "question"
        goal = await agent.run_goal("paint it, in blue", session="work")
        assert goal.is_met


async def test_signal_pauses_the_goal_without_a_check(tmp_path: Path) -> None:
    model = ScriptedProvider(["<promise>BLOCKED:no key</promise>"])
    async with kore.Agent(model, workspace=tmp_path) as agent:
        goal = await agent.run_goal(GOAL)
    assert (goal.reason, goal.remark) == ("question", "no key")


async def test_plan_mode_allows_one_turn(tmp_path: Path) -> None:
    model = ScriptedProvider(["A plan.", unmet("the change")])
    async with kore.Agent(model, workspace=tmp_path, mode="plan") as agent:
        assert (await agent.run_goal(GOAL)).reason == "plan"


async def test_failed_turns_and_checks_raise(tmp_path: Path) -> None:
    async with kore.Agent(ScriptedProvider([Rejected("no")]), workspace=tmp_path) as agent:
        with pytest.raises(Rejected):
            await agent.run_goal(GOAL)
    model = ScriptedProvider(["Begun.", "no verdict", "none", "none"])
    async with kore.Agent(model, workspace=tmp_path) as agent:
        with pytest.raises(BadReply):
            await agent.run_goal(GOAL)
