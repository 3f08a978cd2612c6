"""Choices that are offered after a turn: to carry out a plan, or to keep a procedure as a skill."""

from collections.abc import Sequence
from dataclasses import replace

from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.policy.base import PermissionMode


@frozen
class TurnChoice:
    """Choice: its `key`, its `label`, and the `text` of the command that makes it.

    `mode` is the permission mode afterwards, or None if it does not change. With `is_fresh`, the
    work begins in a new conversation, whose first message is the plan.
    """

    key: str
    text: str
    label: str
    mode: PermissionMode | None = None
    is_fresh: bool = False

    @property
    def command(self) -> str:
        return self.text.partition(" ")[0].removeprefix("/")

    @property
    def argument(self) -> str:
        return self.text.partition(" ")[2]

    @property
    def leaves_plan_mode(self) -> bool:
        return self.mode not in (None, "plan")


PLAN_CHOICES = (
    TurnChoice("b", "/build free", mark_for_translation("build, editing freely"), "accept-edits"),
    TurnChoice("a", "/build ask", mark_for_translation("build, asking"), "ask"),
    TurnChoice("f", "/build fresh", mark_for_translation("in a fresh conversation"), "ask", True),
    TurnChoice("k", "/build keep", mark_for_translation("keep planning"), "plan"),
)

SKILL_CHOICES = (
    TurnChoice("y", "/learn yes", mark_for_translation("keep how this was done as a skill")),
    TurnChoice("n", "/learn no", mark_for_translation("no")),
    TurnChoice("d", "/learn never", mark_for_translation("don't ask again")),
)

# Reverts "don't ask again"; it is never offered.
SKILL_REMINDER = TurnChoice("", "/learn ask", mark_for_translation("ask after long turns again"))


def translated(choices: Sequence[TurnChoice]) -> tuple[TurnChoice, ...]:
    """Return the choices with labels in the current language."""
    return tuple(replace(choice, label=t(choice.label)) for choice in choices)


def choices_line(choices: Sequence[TurnChoice]) -> str:
    """Return translated choices as one line for a keyboard: `[b] build, … · [k] keep planning`."""
    return " · ".join(f"[{choice.key}] {choice.label}" for choice in choices)


def choices_list(choices: Sequence[TurnChoice]) -> str:
    """Return translated choices as a markdown list of the messages that make them."""
    return "\n".join(f"- `{choice.text}`: {choice.label}" for choice in choices)


def choice_of(choices: Sequence[TurnChoice], typed: str) -> TurnChoice | None:
    """Return the choice whose key, or whose message, was typed."""
    words = typed.casefold().split()
    return next(
        (choice for choice in choices if words in ([choice.key], choice.text.split())), None
    )
