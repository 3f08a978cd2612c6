"""Style of the answers that a conversation has chosen."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from agent.records import frozen
from agent.security.taint.taint import UNTRUSTED
from gateway.store.repositories.conversations.choices import STYLE
from gateway.turns.agents.styles import OutputStyle
from gateway.turns.prompt import TurnDraft


@frozen
class AnswerStyle:
    """Implements `PromptContributor`: the selected style overrides the chat's persona.

    Sub-agents are not affected: they answer as their caller needs it.
    """

    find: Callable[[str], OutputStyle | None]

    async def contribute(self, draft: TurnDraft) -> None:
        name = draft.claim.choices.get(STYLE)
        if name is None or not draft.reads_workspace:
            return
        style = await asyncio.to_thread(self.find, name)
        if style is not None:
            draft.audience = replace(draft.audience, persona=style.text)
            if not style.is_own:
                draft.taint |= UNTRUSTED
