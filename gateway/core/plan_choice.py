"""Choices after a plan: leave plan mode and carry it out, or keep planning."""

from collections.abc import Sequence
from dataclasses import replace

from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.policy.base import PermissionMode

COMMAND = "build"


@frozen
class PlanChoice:
    """A choice: its `key`, its `label`, and the `text` of the message that makes it.

    `mode` is the permission mode afterwards. With `is_fresh`, the work begins in a new
    conversation, whose first message is the plan.
    """

    key: str
    text: str
    label: str
    mode: PermissionMode
    is_fresh: bool = False

    @property
    def argument(self) -> str:
        return self.text.partition(" ")[2]


PLAN_CHOICES = (
    PlanChoice(
        "b", f"/{COMMAND} free", mark_for_translation("build, editing freely"), "accept-edits"
    ),
    PlanChoice("a", f"/{COMMAND} ask", mark_for_translation("build, asking"), "ask"),
    PlanChoice(
        "f", f"/{COMMAND} fresh", mark_for_translation("in a fresh conversation"), "ask", True
    ),
    PlanChoice("k", f"/{COMMAND} keep", mark_for_translation("keep planning"), "plan"),
)


def translated(choices: Sequence[PlanChoice]) -> tuple[PlanChoice, ...]:
    """Return the choices with labels in the current language."""
    return tuple(replace(choice, label=t(choice.label)) for choice in choices)


def choices_line(choices: Sequence[PlanChoice]) -> str:
    """Return translated choices as one line for a keyboard: `[b] build, … · [k] keep planning`."""
    return " · ".join(f"[{choice.key}] {choice.label}" for choice in choices)


def choices_list(choices: Sequence[PlanChoice]) -> str:
    """Return translated choices as a markdown list of the messages that make them."""
    return "\n".join(f"- `{choice.text}`: {choice.label}" for choice in choices)


def choice_of(choices: Sequence[PlanChoice], typed: str) -> PlanChoice | None:
    """Return the choice whose key, or whose message, was typed."""
    words = typed.casefold().split()
    return next(
        (choice for choice in choices if words in ([choice.key], choice.text.split())), None
    )
