"""Reminder to save important facts before a conversation is summarized."""

from dataclasses import replace

from agent.context.compaction.compactor import Conversation
from agent.errors import ConfigError
from agent.prompts import load_prompt
from agent.records import frozen
from agent.run.prompt import PromptDraft
from agent.turn.context_usage import PromptAudience, measure_context, tokens_of
from agent.turn.request import AgentServices
from agent.types import Context

# Share of a full window above which the model is reminded.
_REMINDER_SHARE = 0.7
# Share of the model's window below which the conversation is not measured.
_SURELY_ROOM_SHARE = 0.2


@frozen
class MemoryReminder:
    """Implements `PromptContributor` for conversations that will soon be summarized.

    A conversation is reminded once, and never after untrusted text: the person would have to
    approve every line without an apparent reason.
    """

    agent: AgentServices

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.is_resumed or not draft.may_remember or "untrusted" in draft.taint:
            return
        messages = [*draft.earlier_messages, draft.message]
        conversation = replace(draft.conversation, messages=messages)
        try:
            if not self._is_nearly_full(draft.audience, conversation):
                return
        except ConfigError:
            # The turn reports the error.
            return
        reminder = Context(load_prompt("remember_now").strip())
        if not any(reminder in message.content for message in messages):
            draft.append(reminder.text)

    def _is_nearly_full(self, audience: PromptAudience, conversation: Conversation) -> bool:
        """Return whether the window is nearly full. Raise `ConfigError` without a usable model."""
        agent = self.agent
        window_tokens = agent.models.open(audience.model).context_tokens
        if conversation.tokens < window_tokens * _SURELY_ROOM_SHARE:
            return False
        if not agent.toolbox.has("memory"):
            return False
        budget = measure_context(agent, audience)
        tokens = tokens_of(agent, audience, conversation, budget)
        return tokens >= budget.full_at_tokens * _REMINDER_SHARE
