"""Runner of turns, from claim to commit."""

import time
from collections.abc import Callable, Sequence

from agent.agent import Agent
from agent.run.prompt import PromptContributor
from agent.run.run import Run
from agent.turn.journal import CancelToken
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.turns import EndCause
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.compaction import CompactionService
from gateway.turns.prompt import TurnDraft
from gateway.turns.requests import TurnRequests
from gateway.turns.screens import TurnScreens
from gateway.turns.store import TurnStore, TurnStores
from gateway.turns.usage.meter import StoreUsageMeter


class TurnRunner:
    """Runner for claimed turns. One instance serves all lanes."""

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        agent: Agent,
        contributors: Sequence[PromptContributor[TurnDraft]],
        stores: TurnStores,
        requests: TurnRequests,
        screens: TurnScreens,
        subagents: SubagentCoordinator,
        usage: StoreUsageMeter,
        compactions: CompactionService,
    ) -> None:
        self.compose = requests.compose
        self.pin, self.evict = stores.pin, stores.evict
        self._agent = agent
        self._contributors = contributors
        self._stores = stores
        self._requests = requests
        self._screens = screens
        self._subagents = subagents
        self._usage = usage
        self._compactions = compactions

    @property
    def is_draining(self) -> bool:
        """True if turns are suspended at their next journaled step and no new turn begins."""
        return self._stores.is_draining

    def drain(self) -> None:
        self._stores.is_draining = True

    async def run(
        self, claim: TurnClaim, stop: CancelToken, has_news: Callable[[], bool] = lambda: True
    ) -> bool:
        """Run a turn to its commit. Return whether messages then wait in its lane.

        `has_news` returns whether messages have arrived since the claim. Raise `TurnSuspended` if
        the process stops during the turn, `AwaitingAnswer` if a person must answer first, and
        `FolderReplaced` if the session's folder was replaced by another one.
        """
        began = time.monotonic()
        tasks = await self._subagents.of(claim)
        task = tasks[0] if tasks else None
        store = TurnStore(self._stores, claim, tasks, has_news)
        run = Run(self._contributors, store)
        draft = await self._requests.draft(claim, store)
        await run.prepare(draft)
        async with self._usage.meter(claim, task) as meter:
            request = await self._requests.request(draft, store, task, meter, stop)
            if claim.stop_requested:
                stop.request()
            turn, is_owner = run.turn(self._agent, request), request.environment.owner
            if task is None:
                outcome = await self._screens.show(
                    turn, claim, request.exposure, store.earlier_messages, is_owner=is_owner
                )
            else:
                outcome = await self._screens.show_subagent(turn, task, is_owner=is_owner)
            outcome.spent = meter.spent
        has_more = await store.finish(outcome)
        self._screens.end(claim)
        await self._usage.end_turn(claim, request.model, outcome, outcome.spent, began)
        if task is None:
            self._compactions.consider(claim, store.window, request.model)
        return has_more

    async def give_up(
        self, claim: TurnClaim, sentence: str, *, cause: EndCause = "given_up"
    ) -> None:
        """End a turn that cannot run, and notify the chat."""
        self.evict(claim.session)
        self._usage.turns.give_up(claim.messages[-1], sentence)
        tasks = await self._subagents.of(claim)
        await self._stores.committer.give_up(claim, tasks, sentence, cause=cause)
        self._screens.end(claim)
        self._screens.show_failure(tasks, sentence)
