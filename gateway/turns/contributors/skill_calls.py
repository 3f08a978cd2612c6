"""Skills that people invoke with `/NAME`, read before the turn begins."""

import asyncio
from dataclasses import replace

from agent.agent import Agent
from agent.context.active_skills import SKILL_TOOL
from agent.records import frozen
from agent.security.policy.base import ToolRequest
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.skills.authoring import find_skill_request, writing_request
from agent.skills.definition import Skill
from agent.skills.invocation import SkillInvocation, invocation_in
from agent.subagents import profile
from gateway.core.messages import InboundMessage
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import TurnDraft, is_said, shown_taint


@frozen
class SkillCalls:
    """Implements `PromptContributor`: the text, model and thinking of an invoked skill.

    The message of a resumed turn contains the text already.
    """

    agent: Agent
    permissions: TurnPermissions

    async def contribute(self, draft: TurnDraft) -> None:
        if self.agent.skills is None:
            return
        for message in filter(_may_call, draft.claim.messages):
            if self._may_read(draft.claim, message):
                await self._add_skill(draft, message)

    async def _add_skill(self, draft: TurnDraft, message: InboundMessage) -> None:
        if (wish := find_skill_request(message.content)) is not None:
            if not draft.is_resumed:
                root = self.permissions.working_dir(message)
                draft.append(writing_request(wish, root, self.permissions.workspace))
        elif (invocation := await self._invocation(message)) is not None:
            self._apply_settings(draft, invocation.skill)
            if not draft.is_resumed:
                text = self.agent.redactor.clean(await asyncio.to_thread(invocation.text))
                draft.append(text, taint=NOTHING if invocation.skill.is_own else UNTRUSTED)

    async def _invocation(self, message: InboundMessage) -> SkillInvocation | None:
        assert self.agent.skills is not None, "checked by the caller"
        root = self.permissions.working_dir(message)
        skills = await asyncio.to_thread(self.agent.skills.load, root)
        return invocation_in(message.content, skills)

    def _apply_settings(self, draft: TurnDraft, skill: Skill) -> None:
        """Apply the model and the thinking of a skill that belongs to the owner."""
        if not skill.is_own or skill.runs_apart:
            return
        if skill.model is not None and draft.claim.messages[-1].model is None:
            audience = draft.audience
            model, note = profile.model_for(self.agent.models, skill.model, None, audience.model)
            draft.audience = replace(audience, model=model)
            if note:
                self.agent.models.tell(note)
        if skill.thinking is not None:
            draft.thinking = skill.thinking

    def _may_read(self, claim: TurnClaim, message: InboundMessage) -> bool:
        """Return whether the sender may use skills without approval.

        Otherwise the model may call the tool, which requests approval.
        """
        permissions = self.permissions.permissions(
            (message,), claim.session, claim.mode, turn=claim.turn
        )
        root = self.permissions.working_dir(message)
        request = ToolRequest(tool=SKILL_TOOL, effect="read", arguments={}, workspace=root)
        return permissions.policy.decide(request).verdict == "allow"


def _may_call(message: InboundMessage) -> bool:
    """Return whether a message contains only a person's own words, without untrusted content."""
    return (
        message.content.startswith("/")
        and is_said(message)
        and not message.forwarded
        and not shown_taint([message])
    )
