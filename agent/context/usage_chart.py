"""Text chart of a model's context usage."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.context.compaction.compactor import Conversation
from agent.context.focused_files import FocusedFile
from agent.context.token_budget import FULL, ContextBudget
from agent.i18n import mark_for_translation, plural, t
from agent.providers.token_estimate import estimate_all, estimate_text
from agent.text.display_width import display_width, padded
from agent.text.visible import escape_line

WIDTH = 20
MAX_FILES = 10
_NAMES = {
    "prompt": mark_for_translation("prompt"),
    "tools": mark_for_translation("tools"),
    "memory": mark_for_translation("memory"),
    "summary": mark_for_translation("summary"),
    "messages": mark_for_translation("messages"),
    "results": mark_for_translation("results"),
    "free": mark_for_translation("free"),
}


def parts(room: ContextBudget, conversation: Conversation, memory: str) -> dict[str, int]:
    """Return the model's tokens by category; `memory` is the memory part of the prompt."""
    remembered = min(estimate_text(memory) if memory else 0, room.prompt)
    results = [message for message in conversation.messages if message.role == "tool"]
    result_tokens = estimate_all(results)
    summary = estimate_text(conversation.summary.front) if conversation.summary else 0
    estimates = {
        "prompt": room.prompt - remembered,
        "tools": room.tools,
        "memory": remembered,
        "summary": summary,
        "messages": conversation.tokens - summary - result_tokens,
        "results": result_tokens,
    }
    tokens_by_part = {name: round(tokens * room.factor) for name, tokens in estimates.items()}
    tokens_by_part["free"] = max(room.window - sum(tokens_by_part.values()), 0)
    return tokens_by_part


def usage_chart(room: ContextBudget, tokens_by_part: Mapping[str, int]) -> str:
    """Return a line per category; the length of its bar is its share of the window."""
    used = sum(tokens for name, tokens in tokens_by_part.items() if name != "free")
    share = _percent(used, room.window)
    lines = [
        t("{used:,} of {window:,} tokens ({share})", used=used, window=room.window, share=share)
    ]
    names = {name: t(_NAMES[name]) for name in tokens_by_part}
    columns = max(9, *map(display_width, names.values()))
    lines += [
        f"{padded(names[name], columns)} {_bar(tokens, room.window)} {tokens:>9,}"
        for name, tokens in tokens_by_part.items()
    ]
    lines.append(t("older messages are summarized at {n:.0f} %", n=FULL * 100))
    return "\n".join(lines)


def files_table(files: Sequence[FocusedFile], folder: Path, messages: int) -> str:
    """Return a line per file: its tokens, and the number of `messages` since its last use."""
    if not files:
        return ""
    rows = [
        (
            _short_path(file.path, folder),
            t("evicted") if file.is_evicted else f"{file.tokens:,}",
            plural(messages - file.message, "{n} message ago", "{n} messages ago")
            if file.message < messages
            else t("just now"),
        )
        for file in files[:MAX_FILES]
    ]
    columns = [max(display_width(row[at]) for row in rows) for at in range(2)]
    lines = [t("files, most recently used first:")]
    for path, size, age in rows:
        space = " " * (columns[1] - display_width(size))
        lines.append(f"{padded(path, columns[0])}  {space}{size}  {age}")
    if len(files) > MAX_FILES:
        more = len(files) - MAX_FILES
        lines.append(plural(more, "and {n} more file", "and {n} more files"))
    return "\n".join(lines)


def _short_path(path: str, folder: Path) -> str:
    inside = Path(path).is_relative_to(folder)
    return escape_line(str(Path(path).relative_to(folder)) if inside else path)


def _bar(tokens: int, window: int) -> str:
    filled = min(round(tokens * WIDTH / window), WIDTH)
    if tokens and not filled:
        return "▏" + "·" * (WIDTH - 1)
    return "█" * filled + "·" * (WIDTH - filled)


def _percent(tokens: int, window: int) -> str:
    share = tokens / window
    return t("under 1 %") if 0 < share < 0.01 else f"{share * 100:.0f} %"
