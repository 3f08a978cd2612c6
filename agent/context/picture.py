"""What fills a model's window, as a small picture of bars."""

from collections.abc import Mapping

from agent.context.budget import estimate, estimate_text
from agent.context.compaction import Conversation
from agent.context.room import FULL, Room

WIDTH = 20


def parts(room: Room, conversation: Conversation, memory: str) -> dict[str, int]:
    """The model's tokens by what takes them; `memory` is the part of the prompt that remembers."""
    remembered = min(estimate_text(memory) if memory else 0, room.prompt)
    results = [message for message in conversation.messages if message.role == "tool"]
    result_tokens = sum(map(estimate, results))
    summary = estimate_text(conversation.summary.front) if conversation.summary else 0
    taken = {
        "prompt": room.prompt - remembered,
        "tools": room.tools,
        "memory": remembered,
        "summary": summary,
        "messages": conversation.tokens - summary - result_tokens,
        "results": result_tokens,
    }
    found = {name: round(tokens * room.factor) for name, tokens in taken.items()}
    found["free"] = max(room.window - sum(found.values()), 0)
    return found


def picture(room: Room, found: Mapping[str, int]) -> str:
    """A line for each part; a bar is as long as its share of the window."""
    used = sum(tokens for name, tokens in found.items() if name != "free")
    lines = [f"{used:,} of {room.window:,} tokens ({_percent(used, room.window)})"]
    lines += [
        f"{name:<9} {_bar(tokens, room.window)} {tokens:>9,}" for name, tokens in found.items()
    ]
    lines.append(f"old messages become a summary at {FULL * 100:.0f} %")
    return "\n".join(lines)


def _bar(tokens: int, window: int) -> str:
    filled = min(round(tokens * WIDTH / window), WIDTH)
    if tokens and not filled:
        return "▏" + "·" * (WIDTH - 1)
    return "█" * filled + "·" * (WIDTH - filled)


def _percent(tokens: int, window: int) -> str:
    share = tokens / window
    return "under 1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"
