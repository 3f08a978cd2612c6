"""`/model`: the model of a conversation."""

from sqlite3 import Connection

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.registry import PROFILES
from gateway.commands.dispatcher import CommandCall
from gateway.core.keyboard import KeyboardChoice
from gateway.core.markdown import code, escape_markdown
from gateway.store.repositories import sessions
from gateway.turns.agent_profiles import with_model

_MAX_MODEL_BUTTONS = 12


def model_choices(call: CommandCall, connection: Connection) -> list[KeyboardChoice]:
    known = [model.name for model in call.office.agent.models.known]
    names = dict.fromkeys([*known, *PROFILES])
    return [KeyboardChoice(name, "model", name, of_session=True) for name in names][
        :_MAX_MODEL_BUTTONS
    ]


def answer_model(call: CommandCall, connection: Connection) -> str:
    models, name = call.office.agent.models, call.argument
    now_chosen = model_of_call(call, connection)
    if not name:
        known = ", ".join(code(model.name) for model in models.known)
        profiles = ", ".join(f"`{profile}`" for profile in PROFILES)
        return t(
            "Model: {model}. Configured: {known}. `/model NAME` chooses another, or a profile: "
            "{profiles}."
            if known
            else "Model: {model}. `/model NAME` chooses another, or a profile: {profiles}.",
            model=code(now_chosen),
            known=known,
            profiles=profiles,
        )
    offered = {models.default, *PROFILES, *(model.name for model in models.known)}
    if not call.is_owner and name not in offered:
        return t(
            "Only the owner may choose a model that is not configured. It stays {now_chosen}.",
            now_chosen=code(now_chosen),
        )
    try:
        models.check(name)
    except ConfigError as exc:
        return t(
            "{exc}. It stays {now_chosen}.",
            exc=escape_markdown(str(exc)),
            now_chosen=code(now_chosen),
        )
    # Whoever chooses a model, also the same one again, has a reason to think that it answers.
    models.hurry(name)
    sessions.choose_model(connection, call.begun_session(connection), name)
    return t("Model of this conversation: {name}.", name=code(name))


def model_of_call(call: CommandCall, connection: Connection) -> str:
    """The model that this conversation is answered by."""
    own = sessions.chosen_model(connection, call.session) if call.session else None
    models, speaking = call.office.agent.models, call.office.speaking(call.message)
    return with_model(speaking, call.message, own, models).model or models.default
