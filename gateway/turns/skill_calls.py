"""Skills that messages of chats call for, read before the turn that answers them."""

import asyncio
from dataclasses import replace

from agent.agent import Agent
from agent.security.policy.base import ToolRequest
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.skills.authoring import wish_in, writing_request
from agent.skills.catalog import SkillCatalog
from agent.skills.definition import Skill
from agent.subagents import profile
from agent.types import Context, Message
from gateway.core.messages import InboundMessage
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import is_said, shown_taint


class SkillCallReader:
    """Adds the text of a skill to the message that calls for it with `/NAME`."""

    def __init__(self, *, agent: Agent, database: Store, permissions: TurnPermissions) -> None:
        self._agent = agent
        self._database = database
        self._permissions = permissions

    async def with_skills(self, claim: TurnClaim, question: Message) -> tuple[TurnClaim, Message]:
        """A new turn's claim and question, with the skills that its messages call for; stored
        before it is used, so that a turn that goes on reads the same."""
        catalog = self._agent.skills
        lines = [one for one in claim.messages if self._may_call(one)]
        if catalog is None or not lines:
            return claim, question
        for one in lines:
            if self._may_read(claim, one):
                claim, question = await self._with_skill(claim, question, one, catalog)
        return claim, question

    def _may_call(self, message: InboundMessage) -> bool:
        """Only a person's own words do: what a folder's command says is a stranger's."""
        return (
            message.content.startswith("/")
            and is_said(message)
            and not message.forwarded
            and not shown_taint([message])
        )

    async def _with_skill(
        self, claim: TurnClaim, question: Message, message: InboundMessage, catalog: SkillCatalog
    ) -> tuple[TurnClaim, Message]:
        from agent.skills.invocation import invocation_in

        root = self._permissions.working_dir(message)
        if (wish := wish_in(message.content)) is not None:
            request = Context(writing_request(wish, root, self._permissions.workspace))
            question = replace(question, content=(*question.content, request))
            await self._database.transact(sessions.amend, claim.session, claim.turn, question)
            return claim, question
        skills = await asyncio.to_thread(catalog.load, root)
        if (invocation := invocation_in(message.content, skills)) is None:
            return claim, question
        text = self._agent.redactor.clean(await asyncio.to_thread(invocation.text))
        question = replace(question, content=(*question.content, Context(text)))
        taint = NOTHING if invocation.skill.is_own else UNTRUSTED
        claim = replace(claim, taint=claim.taint | taint)
        if taint:
            await self._database.transact(sessions.add_taint, claim.session, taint)
        await self._database.transact(sessions.amend, claim.session, claim.turn, question)
        return self._as_wanted(claim, invocation.skill), question

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
        """Whether who wrote it may use skills at all."""
        permissions = self._permissions.permissions(
            (message,), claim.session, claim.mode, turn=claim.turn
        )
        root = self._permissions.working_dir(message)
        request = ToolRequest(tool="skill", effect="read", arguments={}, workspace=root)
        return permissions.policy.decide(request).verdict != "deny"
