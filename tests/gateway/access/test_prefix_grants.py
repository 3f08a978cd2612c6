"""Commands allowed with any arguments: their owner, their scope and their end."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.approvals import ApprovalRequest, Scope
from agent.security.policy.base import Answered
from agent.security.shell.command_prefix import prefixes_of
from agent.security.shell.script_contents import script_contents
from agent.types import assistant
from gateway.access.approvals import ApprovalContext
from gateway.core.errors import AwaitingAnswer
from gateway.core.messages import InboundMessage
from tests.gateway.access.approvals import OWNER, Asking, change, question, seed
from tests.gateway.parts import Parts, chat_message, console_message, running


class Commands:
    """Requests for commands on behalf of a single person's turn, in the folder `root`."""

    def __init__(self, parts: Parts, session: str, root: Path, message: InboundMessage) -> None:
        self._parts = parts
        self.confinement = "bwrap"
        self._context = ApprovalContext(1, message, session, root)

    def of(self, message: InboundMessage, root: Path | None = None) -> "Commands":
        context = self._context
        return Commands(self._parts, context.session, root or context.root, message)

    async def ask(self, line: str, rule: str = "ask-exec") -> Answered | None:
        """Return the answer in force, or None if a person is asked."""
        root = self._context.root
        prefixes = prefixes_of(line, root, root, is_confined=True) if rule == "ask-exec" else ()
        contents = script_contents(line, root, root)
        request = ApprovalRequest(
            "exec",
            {"command": line},
            "why",
            line,
            rule,
            command=line,
            folder=root,
            contents=contents.digest,
            unbound=contents.unbound,
            confinement=self.confinement,
            prefixes=prefixes,
        )
        try:
            return await self._parts.approvals.ask(self._context, request)
        except AwaitingAnswer:
            return None

    async def allow(self, line: str, scope: Scope = "prefix") -> None:
        """Ask about the command and answer with a standing grant."""
        assert await self.ask(line) is None
        prompt = (await self._parts.service.list_approvals())[-1]
        service = self._parts.service
        assert await service.answer_approval(prompt.nonce, "always", "cli:0", scope=scope)


async def commands(parts: Parts, root: Path) -> Commands:
    message = console_message("go")
    await parts.bus.submit(message)
    return Commands(parts, (await question(parts)).session, root, message)


async def test_prefix_grant_allows_only_other_arguments(tmp_path: Path) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow("git commit -m one")
        result = await work.ask("git commit -m two --amend")
        assert result is not None
        assert result.account == "not asked: cli:0 allowed it from now on (git commit *)"
        for line in (
            "git commit -m x; curl evil.example",
            "git commit -m x\ncurl evil.example",
            "git -c core.pager=./evil commit",
            "git commit -m x && git push",
            "GIT_EDITOR=./evil git commit",
            "git commit -m $(id)",
            "git push origin main",
            "git commit -m x > out",
            "env git commit",
        ):
            assert await work.ask(line) is None, line
        for line in ("ls && git commit -m x 2>&1 | tail -3", "git commit -m x; git commit"):
            assert await work.ask(line), line
        # Reasons to ask that do not depend on arguments.
        assert await work.ask("git commit -m two", "ask-outside") is None
        assert await work.ask("git commit -m two", "taint-way-out") is None


async def test_answer_about_several_prefixes_grants_each(tmp_path: Path) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow("git add . && git commit -m one")
        assert [grant["title"] for grant in await parts.service.list_grants()] == [
            "exec git add * (any arguments)",
            "exec git commit * (any arguments)",
        ]
        result = await work.ask("git commit -m two | cat")
        assert result is not None
        assert result.account == "not asked: cli:0 allowed it from now on (git commit *)"
        assert await work.ask("git add a && git push") is None


async def test_prefix_grant_is_limited_to_its_person_and_place(tmp_path: Path) -> None:
    seed(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    model = [assistant("", (change("1"),))]
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        work = await commands(parts, tmp_path)
        await work.allow("git commit -m one")
        assert await work.of(replace(console_message("x"), chat_id="other")).ask("git commit")
        assert await work.of(console_message("x"), elsewhere).ask("git commit -m 2") is None
        # For a grant, the same owner on another platform is a different person.
        assert await work.of(chat_message("x", "7")).ask("git commit -m 3") is None


async def test_prefix_grant_is_listed_and_revoked(tmp_path: Path) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow("git commit -m one")
        (grant,) = await parts.service.list_grants()
        assert grant["title"] == "exec git commit * (any arguments)"
        assert (grant["folder"], grant["session"]) == (str(tmp_path), "")
        await parts.service.revoke_grants(grant["id"])
        assert await work.ask("git commit -m two") is None


async def test_prefix_grant_ends_when_its_script_changes(tmp_path: Path) -> None:
    seed(tmp_path)
    (tmp_path / "package.json").write_text('{"scripts": {"test": "jest"}}')
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow("npm test")
        assert await work.ask("npm test -- a.js")
        (tmp_path / "package.json").write_text('{"scripts": {"test": "curl evil.example"}}')
        assert await work.ask("npm test -- b.js") is None


@pytest.mark.parametrize("line", ["python x.py", "mkdir x & id", "make"])
async def test_always_without_a_prefix_allows_only_this_command(line: str, tmp_path: Path) -> None:
    seed(tmp_path)
    (tmp_path / "x.py").touch()
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow(line)
        assert await work.ask(line)
        assert await work.ask(f"{line} more") is None
        (grant,) = await parts.service.list_grants()
        assert "any arguments" not in grant["title"]


async def test_call_grant_is_not_extended_to_a_prefix(tmp_path: Path) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow("mkdir one", "call")
        assert await work.ask("mkdir one")
        assert await work.ask("mkdir two") is None


@pytest.mark.parametrize(("line", "scope"), [("make", "call"), ("mkdir one", "prefix")])
@pytest.mark.parametrize("other", ["none", "landlock", "bwrap example.org"])
async def test_grant_ends_when_the_confinement_changes(
    line: str, scope: Scope, other: str, tmp_path: Path
) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow(line, scope)
        assert await work.ask(line)
        work.confinement = other
        assert await work.ask(line) is None


async def test_unbound_command_is_allowed_only_once(tmp_path: Path) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        work = await commands(parts, tmp_path)
        await work.allow("go run main.go", "call")
        assert await parts.service.list_grants() == []
