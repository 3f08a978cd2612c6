"""`/goal`: a condition that Kore works towards until it is met."""

import re
from dataclasses import replace
from typing import TypeVar

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.markdown import escape_markdown
from gateway.core.records import CommandAnswer
from gateway.store.port import Transaction
from gateway.store.repositories import goals
from gateway.store.repositories.goals import Goal
from gateway.turns.goals import RequestedLimits

NumberT = TypeVar("NumberT", int, float)

# Arguments that change a goal instead of setting one.
_CHANGES = ("pause", "resume", "clear")
MAX_GOAL_CHARS = 4_000
# Phones turn two hyphens into one dash.
_LIMIT = re.compile(r"\s*(?:--|[—–])(turns|time|cost)[= ](\S+)\s*\Z")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(m|min|h)?\Z")
_EXAMPLES = {"turns": "10", "time": "45m", "cost": "3"}
_USAGE = mark_for_translation(
    "`/goal TEXT` sets a goal: I work until it is met and show the evidence. Limits may follow:"
    " `--turns 10`, `--time 45m` or `2h`, `--cost 3` (dollars). `/goal` shows it;"
    " `/goal pause`, `/goal resume` and `/goal clear` change it."
)


@chat_command(
    "goal", "work until a goal is met; show, pause, resume, clear it", group=WORK, position=35,
    at_once=True,
)  # fmt: skip
def answer_goal(call: CommandCall, tx: Transaction) -> str | CommandAnswer:
    goal = goals.find(tx, call.session) if call.session else None
    word = call.argument.strip().casefold()
    if not word:
        return t(_USAGE) if goal is None else call.services.goals.describe(tx, goal)
    if goal is not None and not _may_change(call, goal):
        raise CommandRefused(t("Only the person who set the goal, or the owner, can change it."))
    if word in _CHANGES:
        return _change(call, tx, goal, word)
    try:
        new = read_goal(call.argument)
        session = call.begun_session(tx)
        goal = call.services.goals.begin(tx, call.message, session, new.text, new.limits, call.now)
    except KoreError as exc:
        raise CommandRefused(f"⚠️ {escape_markdown(_sentence(exc))}") from exc
    text = f"{t('Goal set.')}\n{call.services.goals.describe(tx, goal)}"
    return CommandAnswer(text, goal.outcome)


def _change(call: CommandCall, tx: Transaction, goal: Goal | None, word: str) -> CommandAnswer:
    """Pause, resume or remove the goal.

    The answer has the new state only in the lane of the goal; another lane has no work to wait for.
    """
    service = call.services.goals
    if goal is None:
        raise CommandRefused(t("This conversation has no goal."))
    if word != "clear" and goal.state == "met":
        raise CommandRefused(t("The goal is met already. `/goal TEXT` sets another one."))
    if word == "resume":
        goal = service.resume(tx, goal, call.message, call.now)
    else:
        change = service.pause_for if word == "pause" else service.remove_for
        goal = change(tx, goal, call.message, call.now)
    is_here = goal.lane == call.message.session_key
    return CommandAnswer(service.describe(tx, goal), goal.outcome if is_here else None)


def _may_change(call: CommandCall, goal: Goal) -> bool:
    return call.is_owner or call.message.principal == goal.principal


@frozen
class NewGoal:
    """Goal as a person wrote it, with the limits that follow it."""

    text: str
    limits: RequestedLimits


def read_goal(argument: str) -> NewGoal:
    """Read the text of a goal and the limits that follow it. Raises `KoreError`."""
    text, limits = argument.strip(), RequestedLimits()
    while match := _LIMIT.search(text):
        text = text[: match.start()]
        limits = _with_limit(limits, match[1], match[2])
    if text.lstrip().startswith("--"):
        raise KoreError(
            t(
                "{option} is unknown; the limits are --turns, --time and --cost",
                option=text.split()[0],
            )
        )
    if not text.strip():
        raise KoreError(t("the goal is missing: write it before the limits"))
    if len(text) > MAX_GOAL_CHARS:
        raise KoreError(
            t(
                "the goal is too long ({n:,} of at most {most:,})",
                n=len(text),
                most=MAX_GOAL_CHARS,
            )
        )
    return NewGoal(text, limits)


def _with_limit(limits: RequestedLimits, name: str, value: str) -> RequestedLimits:
    try:
        if name == "turns":
            return replace(limits, turns=_positive(int(value)))
        if name == "cost":
            return replace(limits, cost_usd=_positive(float(value.lstrip("$"))))
        if (match := _DURATION.match(value)) is None:
            raise ValueError(value)
        seconds = float(match[1]) * (3600 if match[2] == "h" else 60)
        return replace(limits, seconds=_positive(seconds))
    except ValueError as exc:
        raise KoreError(
            t(
                "--{name}: {value!r} is not a limit such as {example}",
                name=name,
                value=value[:40],
                example=_EXAMPLES[name],
            )
        ) from exc


def _positive(value: NumberT) -> NumberT:
    """Return the value. Raises ValueError unless it is positive and finite."""
    if not 0 < value < 10**9:
        raise ValueError(value)
    return value


def _sentence(exc: KoreError) -> str:
    text = str(exc)
    return f"{text[:1].upper()}{text[1:]}."
