"""`/learn`: turn the procedure of a long turn into a skill."""

from agent.i18n import t
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.commands.turn_start import begin_turn
from gateway.core.errors import CommandRefused
from gateway.core.keyboard import KeyboardChoice
from gateway.core.turn_choice import SKILL_CHOICES, SKILL_REMINDER, choices_list, translated
from gateway.sessions import skill_offer
from gateway.store.port import Transaction


def learn_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    if call.session is None or not skill_offer.is_open(tx, call.session):
        return []
    return [
        KeyboardChoice(choice.label, choice.command, choice.argument, of_session=True)
        for choice in translated(SKILL_CHOICES)
    ]


@chat_command(
    "learn",
    "keep how a long turn was done as a skill",
    group=WORK,
    position=75,
    choices=learn_choices,
    audience="owner",
)
def answer_learn(call: CommandCall, tx: Transaction) -> str:
    """Answer the offer after a long turn; `never` and `ask` apply to all conversations."""
    choice = call.argument.casefold()
    if not call.is_owner:
        raise CommandRefused(t("Only the owner can do that."))
    if choice == SKILL_REMINDER.argument:
        skill_offer.allow(tx)
        return t("After a long turn I offer to keep how it was done as a skill.")
    if choice == "never":
        skill_offer.forbid(tx)
        if call.session is not None:
            skill_offer.close(tx, call.session)
        return t("I don't ask about skills any more. `/learn ask` changes that.")
    if choice not in ("yes", "no"):
        choices = translated((*SKILL_CHOICES, SKILL_REMINDER))
        return f"{t('After a long turn:')}\n{choices_list(choices)}"
    if call.session is None or not skill_offer.is_open(tx, call.session):
        raise CommandRefused(
            t("Nothing is offered here now. `/skills new` keeps how something was done.")
        )
    skill_offer.close(tx, call.session)
    if choice == "no":
        return t("No skill then.")
    begin_turn(call, tx, call.session, "/skills new")
    return t("Writing a draft: you see it and decide.")
