"""Approvals in words: what exactly would happen, what may be answered, and what was."""

from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t
from agent.security.policy.base import Answer
from agent.text.visible import escape_for_approval

CHOICES = mark_for_translation("[y] once  [s] for this session  [a] always  [n] no")
_VERDICTS: dict[Answer, str] = {
    "once": mark_for_translation("allowed once"),
    "session": mark_for_translation("allowed for this session"),
    "always": mark_for_translation("always allowed (exactly this)"),
    "deny": mark_for_translation("denied"),
}


def subject(asked: ApprovalAsked) -> str:
    """Exactly what would happen, every character visible; a diff is shown beside it."""
    arguments = {**asked.arguments, **_beside(asked)}
    if isinstance(command := arguments.get("command"), str):
        others = [f"  {name}: {value}" for name, value in arguments.items() if name != "command"]
        return escape_for_approval("\n".join([f"{asked.tool}: {command}", *others]))
    if asked.diff is not None and "path" in arguments:
        return escape_for_approval(f"{asked.tool}: {arguments['path']}")
    told = "\n".join(f"  {name}: {value}" for name, value in arguments.items())
    return escape_for_approval(f"{asked.tool}\n{told}" if told else asked.tool)


def _beside(asked: ApprovalAsked) -> dict[str, str]:
    """What the arguments alone do not tell."""
    found = {"in": asked.folder, "sends": asked.sends}
    return {name: text for name, text in found.items() if text}


def verdict(answer: Answer) -> str:
    return t(_VERDICTS[answer])
