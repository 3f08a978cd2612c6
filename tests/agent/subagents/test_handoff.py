"""Handoff of a conversation from one agent to another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.providers.scripted import ScriptedProvider
from agent.types import assistant
from tests.agent.props import call, calls

TO_BILLING = calls(call("transfer_to_billing"))


def billing(tmp_path: Path, *replies: Any, **options: Any) -> tuple[kore.Agent, ScriptedProvider]:
    model = ScriptedProvider(replies or ["Your bill is paid."])
    options.setdefault("handoff_description", "Knows all bills.")
    return kore.Agent(model, name="billing", workspace=tmp_path, **options), model


async def test_another_agent_answers(tmp_path: Path) -> None:
    target, theirs = billing(tmp_path, instructions="You do bills.")
    model = ScriptedProvider([assistant("One moment.", TO_BILLING.tool_calls), "Hello again."])
    history = kore.MemoryHistory()
    agent = kore.Agent(model, name="triage", workspace=tmp_path, history=history, handoffs=[target])
    result = await agent.run("my bill?", session="s")
    assert (result.agent, result.text) == ("billing", "One moment.\n\nYour bill is paid.")
    assert "You do bills." in theirs.requests[0].system
    assert "You do bills." not in model.requests[0].system
    (spec,) = [tool for tool in model.requests[0].tools if tool.name == "transfer_to_billing"]
    assert spec.description.endswith("Knows all bills.")
    visible = [message.text for message in theirs.requests[0].messages]
    assert visible == ["my bill?", "One moment.", "Handed over to billing."]
    # Both agents write to one conversation, and the next turn starts with the first agent.
    stored = [item.text for item in await history.load("s")]
    assert stored == [*visible, "Your bill is paid."]
    assert [message.text for message in result.messages] == stored[1:]
    again = await agent.run("thanks", session="s")
    assert (again.agent, again.text) == ("triage", "Hello again.")
    assert [message.text for message in model.requests[1].messages] == [*stored, "thanks"]


async def test_usage_counts_across_agents(tmp_path: Path) -> None:
    target, _ = billing(tmp_path)
    agent = kore.Agent(ScriptedProvider([TO_BILLING]), workspace=tmp_path, handoffs=[target])
    reports: list[kore.Usage] = []
    async for event in agent.stream("?"):
        if isinstance(event, kore.events.UsageReport):
            reports.append(event.usage)
        elif isinstance(event, kore.events.Done):
            assert event.result.usage == reports[-1]
    assert len(reports) == 2
    assert reports[0].input < reports[1].input


async def test_watchers_see_the_handoff_target(tmp_path: Path) -> None:
    target, _ = billing(tmp_path)
    agent = kore.Agent(ScriptedProvider([TO_BILLING]), workspace=tmp_path, handoffs=[target])
    seen = [item async for item in agent.stream("?")]
    changes = [item for item in seen if isinstance(item, kore.events.AgentChanged)]
    assert changes == [kore.events.AgentChanged("main", "billing")]
    assert [type(item).__name__ for item in seen].count("Done") == 1
    assert seen[-1].result.agent == "billing"


@dataclass
class Reason:
    why: str
    urgent: bool = False


async def test_handoff_has_a_typed_reason(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def note(run: kore.RunContext[str], reason: Reason) -> None:
        seen.append((run.deps, run.agent, reason))

    target, _ = billing(tmp_path)
    way = kore.Handoff(target, input_type=Reason, on_handoff=note, description="For bills.")
    bad = calls(call("transfer_to_billing", urgent=True))
    good = calls(call("transfer_to_billing", why="paid twice"))
    model = ScriptedProvider([bad, good])
    agent = kore.Agent(model, workspace=tmp_path, handoffs=[way])
    result = await agent.run("?", deps="ada")  # type: ignore[arg-type]
    assert seen == [("ada", "main", Reason("paid twice"))]
    assert "why" in result.messages[1].text
    assert result.agent == "billing"


async def test_filter_selects_the_history_of_the_target(tmp_path: Path) -> None:
    target, theirs = billing(tmp_path)
    way = kore.Handoff(target, input_filter=kore.remove_all_tools)
    look = calls(call("list_dir", path="."))
    agent = kore.Agent(ScriptedProvider([look, TO_BILLING]), workspace=tmp_path, handoffs=[way])
    result = await agent.run("my bill?", session="s")
    assert [message.text for message in theirs.requests[0].messages] == ["my bill?"]
    assert len(result.messages) == 5
    # Text read by the first agent still counts.
    assert result.text == "Your bill is paid."


async def test_filter_result_must_not_be_empty(tmp_path: Path) -> None:
    target, theirs = billing(tmp_path)
    way = kore.Handoff(target, input_filter=lambda messages: [])
    agent = kore.Agent(ScriptedProvider([TO_BILLING]), workspace=tmp_path, handoffs=[way])
    with pytest.raises(kore.ConfigError, match="handoff to billing"):
        await agent.run("?")
    assert theirs.requests == []


async def test_repeated_handoffs_are_limited(tmp_path: Path) -> None:
    back = calls(call("transfer_to_triage"))
    target, _ = billing(tmp_path, *[back] * 30)
    model = ScriptedProvider([TO_BILLING] * 30)
    triage = kore.Agent(model, name="triage", workspace=tmp_path, handoffs=[target])
    target.handoffs.append(triage)
    result = await triage.run("?")
    assert result.stopped == "loop"
    assert result.text == "Stopped: the agents have handed this conversation over 20 times."
    assert len(model.requests) == 11


async def test_first_of_two_handoffs_is_used(tmp_path: Path) -> None:
    target, _ = billing(tmp_path)
    other = kore.Agent(ScriptedProvider([]), name="sales", workspace=tmp_path)
    both = calls(call("transfer_to_billing", "1"), call("transfer_to_sales", "2"))
    agent = kore.Agent(ScriptedProvider([both]), workspace=tmp_path, handoffs=[target, other])
    result = await agent.run("?")
    assert result.agent == "billing"
    assert [message.is_error for message in result.messages[1:3]] == [False, True]


async def test_agents_are_distinguished_by_name(tmp_path: Path) -> None:
    result, _ = billing(tmp_path)
    two, _ = billing(tmp_path)
    with pytest.raises(kore.ConfigError, match="two agents have the name billing"):
        await kore.Agent(ScriptedProvider([]), workspace=tmp_path, handoffs=[result, two]).run("?")


async def test_output_guardrails_are_those_of_the_last_agent(tmp_path: Path) -> None:
    @kore.output_guardrail
    def short(run: kore.RunContext[Any], result: kore.Result) -> str | None:
        return f"no word of {result.agent}"

    @kore.input_guardrail
    def never(run: kore.RunContext[Any], message: kore.Message) -> str | None:
        return "asked twice"

    target, _ = billing(tmp_path, output_guardrails=[short], input_guardrails=[never])
    agent = kore.Agent(ScriptedProvider([TO_BILLING]), workspace=tmp_path, handoffs=[target])
    with pytest.raises(kore.OutputGuardrailTripped, match="no word of billing"):
        await agent.run("?")


async def test_typed_answer_may_come_from_another_agent(tmp_path: Path) -> None:
    target, _ = billing(tmp_path, "7")
    agent = kore.Agent(ScriptedProvider([TO_BILLING]), workspace=tmp_path, handoffs=[target])
    result = await agent.run("how much?", output_type=int)
    assert (result.output, result.agent) == (7, "billing")


async def test_forced_tool_of_the_target_is_still_forced(tmp_path: Path) -> None:
    settings = kore.ModelSettings(tool_choice="list_dir")
    target, theirs = billing(
        tmp_path, calls(call("list_dir", path=".")), "ok", model_settings=settings
    )
    agent = kore.Agent(ScriptedProvider([TO_BILLING]), workspace=tmp_path, handoffs=[target])
    await agent.run("?")
    forced = [request.options.get("tool_choice") for request in theirs.requests]
    assert forced == ["list_dir", None]
