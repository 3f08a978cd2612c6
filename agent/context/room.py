"""What of a model's window is left for the conversation, in tokens as we estimate them."""

from collections.abc import Sequence
from dataclasses import replace

from agent.context.token_budget import estimate_text
from agent.providers.base import ToolSpec
from agent.records import frozen

# Of the window: from here on a conversation is made shorter as soon as nobody waits for it.
FULL = 0.75
# The messages that a conversation may have before it counts as full, however short they are.
MANY = 1_000
SMALLEST = 500
_REPLY_SHARE = 0.2
_REPLY_TOKENS = 8_000


@frozen
class ContextBudget:
    """A window of `window` tokens as the model counts them. All else is estimated; `factor` is
    how many of the model's tokens one of ours is."""

    window: int
    prompt: int
    tools: int
    reserve: int
    factor: float = 1.0

    @property
    def fixed(self) -> int:
        """What each request holds besides messages."""
        return self.prompt + self.tools

    @property
    def limit(self) -> int:
        """The most that messages may take."""
        return max(int((self.window - self.reserve) / self.factor) - self.fixed, SMALLEST)

    @property
    def mark(self) -> int:
        """Messages that take more than this make the window count as full."""
        full = int(self.window * FULL / self.factor) - self.fixed
        return min(max(full, self.limit // 2), self.limit)

    def counted(self, factor: float) -> "ContextBudget":
        return self if factor == self.factor else replace(self, factor=factor)

    def is_full(self, tokens: int, messages: int) -> bool:
        return tokens > self.mark or messages > MANY


def budget_for(
    window: int,
    system: str,
    tools: Sequence[ToolSpec],
    max_tokens: int | None = None,
    factor: float = 1.0,
) -> ContextBudget:
    """`max_tokens` is what a reply may have, if that is set."""
    specs = (f"{spec.name}{spec.description}{spec.parameters}" for spec in tools)
    reserve = min(max_tokens or _REPLY_TOKENS, int(window * _REPLY_SHARE))
    return ContextBudget(
        window, estimate_text(system), sum(map(estimate_text, specs)), reserve, factor
    )
