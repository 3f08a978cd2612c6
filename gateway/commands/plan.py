"""`/build`: carry out the plan from plan mode, or continue planning."""

from agent.i18n import t
from agent.prompts import load_prompt
from gateway.commands.declaration import PERMISSIONS, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.commands.sessions import scope_of
from gateway.commands.settings import choosable_modes, current_mode, mode_meaning, refused_mode
from gateway.commands.turn_start import begin_turn
from gateway.core.errors import CommandRefused
from gateway.core.keyboard import KeyboardChoice
from gateway.core.turn_choice import PLAN_CHOICES, TurnChoice, choices_list, translated
from gateway.sessions import finished_plan
from gateway.sessions.mode_choice import choose_mode
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions


def plan_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    return [
        KeyboardChoice(choice.label, choice.command, choice.argument, of_session=True)
        for choice in translated(_choosable(call, tx))
        if call.session is not None and finished_plan.choices_of(tx, call.session)
    ]


def _choosable(call: CommandCall, tx: Transaction) -> list[TurnChoice]:
    """Return the choices whose mode this person may choose here."""
    modes = choosable_modes(call, tx)
    return [choice for choice in PLAN_CHOICES if choice.mode in modes]


@chat_command(
    "build",
    "carry out a finished plan, or keep planning",
    group=PERMISSIONS,
    position=25,
    choices=plan_choices,
)
def answer_build(call: CommandCall, tx: Transaction) -> str:
    """Carry out the plan of this conversation, or of another conversation with `fresh ID`."""
    name, _, prefix = call.argument.partition(" ")
    choice = next((choice for choice in PLAN_CHOICES if choice.argument == name.casefold()), None)
    if choice is None:
        return (
            f"{t('After a plan in plan mode:')}\n{choices_list(translated(_choosable(call, tx)))}"
        )
    source = call.session
    if choice.is_fresh and prefix:
        source = next(iter(sessions.ids_with_prefix(tx, prefix.strip(), scope_of(call))), None)
    plan = finished_plan.find(tx, source) if source is not None else None
    if source is None or plan is None:
        raise CommandRefused(t("There is no plan here that waits for your choice."))
    mode = choice.mode
    if mode is None or mode == "plan":
        finished_plan.close(tx, source)
        return t("Still in plan mode: say what to change in the plan.")
    current = current_mode(call, tx)
    refusal = refused_mode(call, mode, current)
    if refusal is not None:
        raise CommandRefused(refusal)
    finished_plan.close(tx, source)
    session = _fresh_session(call, tx, source) if choice.is_fresh else source
    by = {"who": call.message.principal, "chat": call.message.session_key}
    choose_mode(tx, session, mode, current, by, call.now)
    handed_over = plan.text if choice.is_fresh else None
    begin_turn(call, tx, session, load_prompt("carry_out_plan"), handed_over)
    meaning = mode_meaning(mode)
    if choice.is_fresh:
        return t(
            "Carrying out the plan in conversation `{id}`. Mode: `{mode}`, {meaning}.",
            id=session,
            mode=mode,
            meaning=meaning,
        )
    return t("Carrying out the plan. Mode: `{mode}`, {meaning}.", mode=mode, meaning=meaning)


def _fresh_session(call: CommandCall, tx: Transaction, source: str) -> str:
    """Return the conversation to work in: a new one, or this one for the plan of another
    conversation.
    """
    session = call.session
    if session is None or session == source:
        message = call.message
        session = sessions.create_session(tx, message.principal, call.now, lane=message.session_key)
    finished_plan.hand_over(tx, source, session)
    return session
