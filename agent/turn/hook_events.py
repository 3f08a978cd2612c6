"""Events that hooks handle, in the format of Claude Code.

The settings, the commands and the table in docs/hooks.md use these definitions.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from agent.records import frozen

HookEventName = Literal[
    "SessionStart",
    "SessionEnd",
    "Setup",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "PreCompact",
    "Stop",
    "SubagentStop",
]
HOOK_EVENTS: tuple[HookEventName, ...] = get_args(HookEventName)

# Limit for the timeouts of hooks.
MAX_TIMEOUT_S = 600.0

# Input of every event; the second group is added in sub-agents.
COMMON_INPUT = ("session_id", "cwd", "hook_event_name")
SUBAGENT_INPUT = ("agent_id", "agent_type")
_TOOL_INPUT = ("tool_name", "kore_tool_name", "tool_input", "tool_use_id")
_COMMENTS = "the model reads the reason"
_CONTINUES = "the model continues with the reason"
_SHOWN = "you see the reason"


@frozen
class HookEvent:
    """Event with its input, its matcher and the effect of its hooks.

    `block` describes the effect of exit code 2 and of the decision `block`. `matched` is the input
    that a matcher is compared with, and `matches` describes it in the table. With `takes_text`,
    plain output is text for the model. `takes_prompts`: hooks of the type `prompt` may handle it.
    """

    when: str
    block: str
    input: tuple[str, ...] = ()
    matched: str = ""
    matches: str = ""
    can_block: bool = True
    takes_text: bool = False
    takes_prompts: bool = False
    timeout_s: float = 60


DEFINITIONS: Mapping[HookEventName, HookEvent] = {
    "SessionStart": HookEvent(
        "before the first answer of a new conversation",
        _SHOWN,
        ("source",),
        matched="source",
        matches="`startup`",
        can_block=False,
        takes_text=True,
    ),
    "SessionEnd": HookEvent(
        "after `/new`, after `/resume` of another conversation, and after a run of the library "
        "without `session`",
        _SHOWN,
        ("reason",),
        matched="reason",
        matches="`clear`, `resume`, `other`",
        can_block=False,
        timeout_s=1.5,
    ),
    "Setup": HookEvent(
        "with `kore hooks setup` and `kore hooks setup --maintenance`",
        _SHOWN,
        ("trigger",),
        matched="trigger",
        matches="`init`, `maintenance`",
        can_block=False,
    ),
    "UserPromptSubmit": HookEvent(
        "before the answer to a message",
        "the message is not answered",
        ("prompt",),
        takes_text=True,
        takes_prompts=True,
    ),
    "UserPromptExpansion": HookEvent(
        "before the answer to a message that begins with the `/NAME` of a skill, a command or a "
        "prompt of an MCP server",
        "the message is not answered",
        ("expansion_type", "command_name", "command_args", "command_source", "prompt"),
        matched="command_name",
        matches="the name",
        takes_text=True,
        takes_prompts=True,
    ),
    "PreToolUse": HookEvent(
        "before a tool call",
        "the call is not made; " + _COMMENTS,
        _TOOL_INPUT,
        matches="the tool",
        takes_prompts=True,
    ),
    "PostToolUse": HookEvent(
        "after a tool call that succeeded",
        _COMMENTS,
        (*_TOOL_INPUT, "tool_response"),
        matches="the tool",
        takes_prompts=True,
    ),
    "PostToolUseFailure": HookEvent(
        "after a tool call that began and failed",
        _COMMENTS,
        (*_TOOL_INPUT, "error", "is_interrupt"),
        matches="the tool",
        takes_prompts=True,
    ),
    "Notification": HookEvent(
        "while you are asked for an approval; not where nobody can be asked, or an earlier answer "
        "counts",
        _SHOWN,
        ("message", "notification_type"),
        matched="notification_type",
        matches="`permission_prompt`",
        can_block=False,
    ),
    "PreCompact": HookEvent(
        "before older messages are summarized",
        "they are not summarized",
        ("trigger", "custom_instructions"),
        matched="trigger",
        matches="`manual` (`/compact`), `auto`",
    ),
    "Stop": HookEvent(
        "when the model is done",
        _CONTINUES,
        ("stop_hook_active", "last_assistant_message"),
        takes_prompts=True,
    ),
    "SubagentStop": HookEvent(
        "when a sub-agent is done",
        _CONTINUES,
        ("stop_hook_active", "last_assistant_message", *SUBAGENT_INPUT),
        matched="agent_type",
        matches="the agent",
        takes_prompts=True,
    ),
}


def event_table() -> str:
    """Return the events as a table in Markdown, for docs/hooks.md."""
    rows = ["| Event | When | `matcher` | Input | Exit code 2 or `block` | `prompt` |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for name in HOOK_EVENTS:
        event = DEFINITIONS[name]
        fields = ", ".join(f"`{field}`" for field in event.input)
        prompts = "yes" if event.takes_prompts else ""
        cells = (f"`{name}`", event.when, event.matches, fields, event.block, prompts)
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(rows)
