"""Background commands, listed in the message that opens a turn."""

from agent.records import frozen
from agent.run.prompt import PromptDraft
from agent.turn.request import AgentServices


@frozen
class BackgroundFacts:
    """Implements `PromptContributor`. Once the prompt is stored, the commands count as reported."""

    agent: AgentServices

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.is_resumed:
            return
        toolbox, session = self.agent.toolbox, draft.session
        if facts := await toolbox.facts(session):
            draft.append(f"[{'; '.join(facts)}]")
        draft.after_store.append(lambda: toolbox.mark_reported(session))
