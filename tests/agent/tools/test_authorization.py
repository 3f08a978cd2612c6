"""Approval requests are limited to calls that can be shown in full."""

from pathlib import Path

import pytest

from agent.agent import Agent
from agent.approvals import Answer, ApprovalRequest
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.base import Answered
from agent.security.policy.engine import DefaultPolicy
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import AgentSettings, ToolSettings
from agent.tools.runner import Permissions
from tests.agent.props import call, calls, results


class Person:
    def __init__(self) -> None:
        self.requests: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> Answer | Answered:
        self.requests.append(request)
        return "always"


@pytest.mark.parametrize(("chars", "is_asked"), [(1_000, True), (400_001, False)])
async def test_change_too_large_to_compare_is_denied(
    chars: int, is_asked: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    change = calls(call("write_file", path="a.txt", content="x" * chars))
    look = calls(call("read_file", "c0", path="a.txt"))
    person = Person()
    agent = Agent(
        ScriptedProvider([look, change, "done"]),
        workspace=tmp_path,
        approve=Permissions(DefaultPolicy(), person),
    )
    text = results((await agent.run("go")).messages)[-1]
    assert bool(person.requests) is is_asked
    assert ("too large to be shown completely" in text) is not is_asked
    assert ((tmp_path / "a.txt").read_text() == "old\n") is not is_asked


async def test_command_too_large_to_show_is_denied(tmp_path: Path) -> None:
    person = Person()
    agent = Agent(
        ScriptedProvider([calls(call("exec", command="echo " + "x" * 900_000)), "done"]),
        workspace=tmp_path,
        approve=Permissions(DefaultPolicy(), person),
    )
    (result,) = results((await agent.run("go")).messages)
    assert person.requests == []
    assert result


async def test_granted_hosts_do_not_answer_other_questions(tmp_path: Path, box: Bubblewrap) -> None:
    class Lasting(Person):
        async def ask(self, request: ApprovalRequest) -> Answered:
            self.requests.append(request)
            if request.network:
                return Answered("always", "not asked", scope="network")
            return Answered("deny", "asked")

    person = Lasting()
    fetch = call("exec", command="curl -sS http://a.test > /etc/x", network="a.test")
    agent = Agent(
        ScriptedProvider([calls(fetch), "done"]),
        workspace=tmp_path,
        approve=Permissions(DefaultPolicy(), person),
        settings=AgentSettings(tools=ToolSettings(sandbox=box)),
    )
    (result,) = results((await agent.run("go")).messages)
    assert [item.rule for item in person.requests] == ["ask-network", "ask-outside"]
    assert "said no" in result


async def test_prefix_is_offered_only_if_the_command_is_the_reason_to_ask(
    tmp_path: Path,
) -> None:
    person = Person()
    (tmp_path / "AGENTS.md").write_text("x\n")
    lines = ["git commit -m x", "git commit -m x > /etc/x", "git checkout AGENTS.md", "git commit;"]
    steps = [calls(call("exec", f"c{n}", command=line)) for n, line in enumerate(lines)]
    agent = Agent(
        # Without a sandbox the command may have read untrusted text.
        ScriptedProvider([*steps, calls(call("exec", "c9", command="git commit -m x")), "done"]),
        workspace=tmp_path,
        approve=Permissions(DefaultPolicy(), person),
    )
    await agent.run("go")
    items = [(request.rule, request.prefix_names) for request in person.requests]
    assert items == [
        ("ask-exec", "git commit *"),
        ("ask-outside", ""),
        ("ask-prompt", ""),
        ("ask-exec", ""),
        ("ask-exec", ""),
    ]


async def test_denial_by_a_function_has_its_words(tmp_path: Path) -> None:
    async def ask(request: ApprovalRequest) -> Answered:
        return Answered("deny", words="Use the staging host.")

    agent = Agent(
        ScriptedProvider([calls(call("exec", command="make")), "done"]),
        workspace=tmp_path,
        approve=ask,
    )
    (result,) = results((await agent.run("go")).messages)
    assert "Use the staging host." in result
    agent = Agent(
        ScriptedProvider([calls(call("exec", command="make")), "done"]),
        workspace=tmp_path,
        approve=lambda request: Answered("deny", words="Not now."),
    )
    assert "Not now." in results((await agent.run("go")).messages)[0]
