"""`/model`: the model of a conversation."""

from sqlite3 import Connection

from agent.errors import ConfigError
from agent.providers.models import PROFILES
from gateway.commands.call import CommandCall
from gateway.store import sessions


def answer(call: CommandCall, connection: Connection) -> str:
    models, name = call.office.agent.models, call.argument
    now_chosen = chosen(call, connection)
    if not name:
        known = ", ".join(f"`{model.name}`" for model in models.known)
        more = f" Configured: {known}." if known else ""
        profiles = ", ".join(f"`{profile}`" for profile in PROFILES)
        return (
            f"Model: `{now_chosen}`.{more} `/model NAME` chooses another, or a profile: {profiles}."
        )
    offered = {models.default, *PROFILES, *(model.name for model in models.known)}
    if not call.is_owner and name not in offered:
        return f"Only the owner may choose a model that is not configured. It stays `{now_chosen}`."
    try:
        models.check(name)
    except ConfigError as exc:
        return f"{exc}. It stays `{now_chosen}`."
    # Whoever chooses a model, also the same one again, has a reason to think that it answers.
    models.hurry(name)
    sessions.choose_model(connection, call.begun_session(connection), name)
    return f"Model of this conversation: `{name}`."


def chosen(call: CommandCall, connection: Connection) -> str:
    """The model that this conversation is answered by."""
    own = sessions.chosen_model(connection, call.session) if call.session else None
    return own or call.office.agent.models.default
