"""Answers about a command expire when an earlier command changes settings in its home."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.approvals import Answer, ApprovalRequest, Scope
from agent.events import ApprovalAsked
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.exec import Exec
from agent.types import ToolCall, assistant
from gateway.access.approvals import ApprovalContext
from gateway.core.errors import AwaitingAnswer
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.gateway.access.approvals import OWNER, change, question, seed
from tests.gateway.parts import Parts, console_message, running


class Shell:
    """Shell that runs commands unasked in a single session's sandbox and asks about others."""

    def __init__(self, parts: Parts, context: ApprovalContext) -> None:
        self._parts, self._context = parts, context
        self.tool = Exec(replace(ToolSettings(), sandbox=installed_bubblewrap()))
        environment = ToolEnvironment("s", context.root, context.root / "MEMORY.md", owner=True)
        self._call = CallContext(ToolCall("c", "exec", {}, "{}"), environment, lambda *_: None)

    async def run(self, command: str) -> None:
        await self.tool.run({"command": command}, self._call)

    async def question(self, command: str, **more: str) -> ApprovalAsked | None:
        """Return the question about the command, or None if an earlier answer applies."""
        arguments = {"command": command, **more}
        plan = await self.tool.plan(arguments, self._call)
        plan = await self.tool.bind(plan, arguments, self._call)
        request = ApprovalRequest(
            "exec",
            arguments,
            "why",
            command,
            "ask-network" if plan.network else "ask-exec",
            command=command,
            folder=plan.folder,
            contents=plan.contents,
            unbound=plan.unbound,
            confinement=plan.confinement,
            prefixes=plan.prefixes,
            network=plan.network,
            home_settings=plan.home_settings,
        )
        try:
            await self._parts.approvals.ask(self._context, request)
        except AwaitingAnswer:
            prompt = (await self._parts.service.list_approvals())[-1]
            return self._parts.approvals.request_event(prompt)
        return None


NOTE = "Files of earlier commands in its home: .curlrc"


@pytest.mark.parametrize(
    ("command", "more", "answer", "scope"),
    [
        ("curl a.example", {}, "once", "call"),
        ("curl a.example", {}, "session", "call"),
        ("curl a.example", {}, "always", "call"),
        ("mkdir x", {}, "always", "prefix"),
        ("curl a.example", {"network": "a.example"}, "always", "network"),
    ],
)
async def test_setting_left_by_an_earlier_command_asks_again(
    command: str, more: dict[str, str], answer: Answer, scope: Scope, tmp_path: Path
) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        message = console_message("go")
        await parts.bus.submit(message)
        context = ApprovalContext(1, message, (await question(parts)).session, tmp_path)
        shell = Shell(parts, context)
        approval = await shell.question(command, **more)
        assert approval is not None
        assert NOTE not in [line.text for line in approval.view.lines]
        assert await parts.service.answer_approval(approval.nonce, answer, "cli:0", scope=scope)
        await shell.run("true")
        assert await shell.question(command, **more) is None
        await shell.run("echo 'proxy = evil.example' > ~/.curlrc")
        approval = await shell.question(command, **more)
        assert approval is not None
        assert NOTE in [line.text for line in approval.view.lines]
        # The settings change again between the question and its use.
        assert await parts.service.answer_approval(approval.nonce, answer, "cli:0", scope=scope)
        await shell.run("echo 'proxy = worse.example' > ~/.curlrc")
        assert await shell.question(command, **more) is not None
        await shell.run("echo 'proxy = evil.example' > ~/.curlrc")
        assert await shell.question(command, **more) is None
        await shell.tool.aclose()
