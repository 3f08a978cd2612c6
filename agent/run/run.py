"""Run of an agent: contributors complete the prompt, turns follow, a store records each step."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agent.run.prompt import PromptContributor, PromptDraft
from agent.run.store import RunStore
from agent.turn.request import AgentServices, TurnRequest

if TYPE_CHECKING:
    from agent.turn.runner import AgentTurn

RunDraftT = TypeVar("RunDraftT", bound=PromptDraft)


class Run(Generic[RunDraftT]):
    """One request to an agent, in the library and in the gateway."""

    def __init__(
        self,
        contributors: Sequence[PromptContributor[RunDraftT]],
        store: RunStore[RunDraftT, Any],
    ) -> None:
        self._contributors = contributors
        self._store = store

    async def prepare(self, draft: RunDraftT) -> None:
        """Complete the draft and store it before the model reads any of it.

        Each contribution is stored before the next contributor runs, so that a resumed run retains
        it.
        """
        for contributor in self._contributors:
            message = draft.message
            await contributor.contribute(draft)
            if draft.message is not message:
                await self._store.amend(draft)
        await self._store.amend(draft)
        for callback in draft.after_store:
            callback()

    def turn(self, agent: AgentServices, request: TurnRequest) -> "AgentTurn":
        """Return a turn of this agent whose steps are stored."""
        # Imported here, because an idle gateway does not need the modules of a turn.
        from agent.turn.runner import AgentTurn

        return AgentTurn(agent, replace(request, progress=self._store.steps(request)))
