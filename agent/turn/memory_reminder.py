"""Before a conversation is summarized, its model is asked what to keep in memory."""

from agent.context.compaction.compactor import Conversation
from agent.errors import ConfigError
from agent.prompts import load_prompt
from agent.turn.context_usage import PromptAudience, measure_context, tokens_of
from agent.turn.request import AgentServices
from agent.types import Context, Taint

# Of what makes a window count as full.
_SHARE = 0.7
# Of the model's window: below, nothing needs to be looked at closer.
_SURELY_ROOM = 0.2


def memory_reminder(
    agent: AgentServices,
    speaking: PromptAudience,
    conversation: Conversation,
    taint: frozenset[Taint],
) -> Context | None:
    """What the newest message says of it, in a conversation that will soon be full and was not told
    yet.

    None after untrusted text: then a person would be asked about each line, out of the blue.
    """
    text = load_prompt("remember_now").strip()
    try:
        if conversation.tokens < agent.models.open(speaking.model).context_tokens * _SURELY_ROOM:
            return None
        if "untrusted" in taint or agent.toolbox.find("remember") is None:
            return None
        room = measure_context(agent, speaking)
        if tokens_of(agent, speaking, conversation, room) < room.full_at_tokens * _SHARE:
            return None
    except ConfigError:
        # The turn says so.
        return None
    is_told = any(
        isinstance(part, Context) and part.text == text
        for message in conversation.messages
        for part in message.content
    )
    return None if is_told else Context(text)
