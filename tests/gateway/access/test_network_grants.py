"""Hosts that a person allows commands to reach: once, for a session or always."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent.approvals import Answer, ApprovalRequest
from agent.security.policy.base import Answered
from agent.types import assistant
from gateway.access.approvals import ApprovalContext
from gateway.core.errors import AwaitingAnswer
from tests.gateway.access.approvals import OWNER, Asking, change, question, seed
from tests.gateway.parts import Parts, chat_message, console_message, running


class Downloads:
    """Requests for commands with network access, on behalf of a single person's turn."""

    def __init__(self, parts: Parts, context: ApprovalContext) -> None:
        self._parts = parts
        self.context = context

    def of(self, **changes: object) -> "Downloads":
        return Downloads(self._parts, replace(self.context, **changes))  # type: ignore[arg-type]

    async def ask(self, line: str, *hosts: str) -> Answered | None:
        """Return the answer in force, or None if a person is asked."""
        arguments = {"command": line, "network": " ".join(hosts)}
        request = ApprovalRequest(
            "exec", arguments, "why", line, "ask-network", command=line, network=hosts
        )
        try:
            return await self._parts.approvals.ask(self.context, request)
        except AwaitingAnswer:
            return None

    async def answer(self, answer: Answer, line: str, *hosts: str) -> Answered | None:
        """Answer the question about this command, and return the answer to a repeated request."""
        assert await self.ask(line, *hosts) is None
        prompt = (await self._parts.service.list_approvals())[-1]
        assert self._parts.approvals.request_event(prompt).request.network == hosts
        assert await self._parts.service.answer_approval(prompt.nonce, answer, "cli:0")
        return await self.ask(line, *hosts)


@asynccontextmanager
async def downloads(folder: Path) -> AsyncIterator[tuple[Parts, Downloads]]:
    seed(folder)
    model = [assistant("", (change("1"),))]
    async with running(folder, model, owner=OWNER, platform=Asking()) as parts:
        message = console_message("go")
        await parts.bus.submit(message)
        session = (await question(parts)).session
        yield parts, Downloads(parts, ApprovalContext(1, message, session, folder))


async def test_grant_for_once_is_valid_for_one_command(tmp_path: Path) -> None:
    async with downloads(tmp_path) as (parts, work):
        allowed = await work.answer("once", "curl a.test", "a.test")
        assert allowed is not None
        assert (allowed.answer, allowed.scope) == ("once", "call")
        assert await work.ask("curl a.test/other", "a.test") is None
        assert await parts.service.list_grants() == []


@pytest.mark.parametrize("answer", ["session", "always"])
async def test_host_grant_is_valid_for_every_command(answer: Answer, tmp_path: Path) -> None:
    async with downloads(tmp_path) as (parts, work):
        allowed = await work.answer(answer, "curl a.test b.test", "a.test", "b.test")
        # The person saw this call; later calls are covered only by their hosts.
        assert allowed is not None
        assert allowed.scope == "call"
        later = await work.ask("wget a.test", "a.test")
        assert later is not None
        assert (later.answer, later.scope) == (answer, "network")
        assert "(network to a.test)" in later.account
        assert await work.ask("wget a.test c.test", "a.test", "c.test") is None
        assert await work.ask("wget x.a.test", "x.a.test") is None
        grants = await parts.service.list_grants()
        assert [grant["title"] for grant in grants] == [
            *("exec network to a.test", "exec network to b.test"),
        ]
        await parts.service.revoke_grants(grants[0]["id"])
        assert await work.ask("wget a.test/2", "a.test") is None
        assert await work.ask("wget b.test", "b.test")


async def test_host_grant_is_limited_to_its_person_and_place(tmp_path: Path) -> None:
    async with downloads(tmp_path) as (_, work):
        await work.answer("always", "curl a.test", "a.test")
        assert await work.ask("wget a.test", "a.test")
        assert await work.of(root=tmp_path / "other").ask("wget a.test", "a.test") is None
        assert await work.of(message=chat_message("x", "7")).ask("wget a.test", "a.test") is None


async def test_session_hosts_end_with_the_session(tmp_path: Path) -> None:
    async with downloads(tmp_path) as (parts, work):
        await work.answer("session", "curl a.test", "a.test")
        other = await parts.service.bind_session("cli:local:other", None)
        assert await work.ask("wget a.test", "a.test")
        assert await work.of(session=other).ask("wget a.test", "a.test") is None
