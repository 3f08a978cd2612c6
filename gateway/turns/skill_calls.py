"""Skills that messages of chats call for, read before the turn that answers them."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.agent import Agent
from agent.security.policy.base import ToolRequest
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.skills.authoring import wish_in, writing_request
from agent.skills.definition import Skill
from agent.subagents import profile
from agent.types import Context, Message
from gateway.core.messages import InboundMessage
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import is_said, shown_taint

if TYPE_CHECKING:
    from agent.skills.invocation import SkillInvocation


class SkillCallReader:
    """Adds the text of a skill to the message that calls for it with `/NAME`."""

    def __init__(self, *, agent: Agent, database: Store, permissions: TurnPermissions) -> None:
        self._agent = agent
        self._database = database
        self._permissions = permissions

    async def with_skills(self, claim: TurnClaim, question: Message) -> tuple[TurnClaim, Message]:
        """A new turn's claim and question, with the skills that its messages call for; stored
        before it is used, so that a turn that goes on reads the same."""
        for one in self._calls(claim):
            text, taint = "", NOTHING
            if (wish := wish_in(one.content)) is not None:
                root = self._permissions.working_dir(one)
                text = writing_request(wish, root, self._permissions.workspace)
            elif (invocation := await self._invocation(one)) is not None:
                text = self._agent.redactor.clean(await asyncio.to_thread(invocation.text))
                taint = NOTHING if invocation.skill.is_own else UNTRUSTED
                claim = self._as_wanted(claim, invocation.skill)
            if text:
                claim = replace(claim, taint=claim.taint | taint)
                question = replace(question, content=(*question.content, Context(text)))
                await self._database.transact(sessions.add_taint, claim.session, taint)
                await self._database.transact(sessions.amend, claim.session, claim.turn, question)
        return claim, question

    async def with_wishes(self, claim: TurnClaim) -> TurnClaim:
        """The claim of a turn that goes on, with what the skills that began it ask for."""
        for one in self._calls(claim):
            if (invocation := await self._invocation(one)) is not None:
                claim = self._as_wanted(claim, invocation.skill)
        return claim

    def _calls(self, claim: TurnClaim) -> list[InboundMessage]:
        """Messages that may call for a skill."""
        if self._agent.skills is None:
            return []
        lines = [one for one in claim.messages if self._may_call(one)]
        return [one for one in lines if self._may_read(claim, one)]

    async def _invocation(self, message: InboundMessage) -> "SkillInvocation | None":
        from agent.skills.invocation import invocation_in

        assert self._agent.skills is not None, "_calls() is empty without a catalogue"
        root = self._permissions.working_dir(message)
        skills = await asyncio.to_thread(self._agent.skills.load, root)
        return invocation_in(message.content, skills)

    def _may_call(self, message: InboundMessage) -> bool:
        """Only a person's own words do: what a folder's command says is a stranger's."""
        return (
            message.content.startswith("/")
            and is_said(message)
            and not message.forwarded
            and not shown_taint([message])
        )

    def _as_wanted(self, claim: TurnClaim, skill: Skill) -> TurnClaim:
        """With the model and the effort that a skill of the owner's asks for."""
        if not skill.is_own or skill.runs_apart:
            return claim
        if skill.model is not None:
            model, note = profile.model_for(self._agent.models, skill.model, None, claim.model)
            claim = replace(claim, model=model)
            if note:
                self._agent.models.tell(note)
        if skill.thinking is not None:
            claim = replace(claim, thinking=replace(claim.thinking, wanted=skill.thinking))
        return claim

    def _may_read(self, claim: TurnClaim, message: InboundMessage) -> bool:
        """Return whether who wrote it may use skills unasked; otherwise the model may call the
        tool, which asks."""
        permissions = self._permissions.permissions(
            (message,), claim.session, claim.mode, turn=claim.turn
        )
        root = self._permissions.working_dir(message)
        request = ToolRequest(tool="skill", effect="read", arguments={}, workspace=root)
        return permissions.policy.decide(request).verdict == "allow"
