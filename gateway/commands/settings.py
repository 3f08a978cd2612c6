"""`/mode`, `/plan` and `/auto`: how much runs in a conversation without a question."""

from sqlite3 import Connection

from agent.i18n import mark_for_translation, t
from agent.security.policy.base import MODES, PermissionMode, is_mode
from gateway.access.permission_modes import mode_of
from gateway.commands.dispatcher import CommandCall
from gateway.core.keyboard import KeyboardChoice
from gateway.store.repositories import audit_outbox, sessions
from gateway.store.repositories.audit_outbox import AuditNote

_MODE_MEANINGS: dict[PermissionMode, str] = {
    "plan": mark_for_translation("looks and answers, changes nothing"),
    "ask": mark_for_translation("asks before commands and changes of existing files"),
    "accept-edits": mark_for_translation(
        "changes files of the workspace without asking, asks before most commands"
    ),
    "auto": mark_for_translation("runs all that your role allows, without asking"),
}


def mode_choices(call: CommandCall, connection: Connection) -> list[KeyboardChoice]:
    return [KeyboardChoice(mode, "mode", mode, of_session=True) for mode in MODES]


def answer_mode(call: CommandCall, connection: Connection) -> str:
    """Show or choose the mode of a conversation.

    Only the owner may loosen it; others may tighten it, and in their own chat take that back.
    """
    message, session = call.message, call.session
    first = call.office.first_mode(message.channel)
    stored = sessions.chosen_mode(connection, session) if session else None
    current = mode_of(message, stored, first, owner=call.is_owner)
    wanted = call.argument.casefold() if call.name == "mode" else call.name
    if not wanted:
        lines = [t("Mode: `{current}`. `/mode NAME` chooses another:", current=current)]
        return "\n".join([*lines, *(f"- `{mode}` {t(_MODE_MEANINGS[mode])}" for mode in MODES)])
    if not is_mode(wanted):
        known = ", ".join(f"`{mode}`" for mode in MODES)
        return t(
            "There is no such mode; there are {known}. It stays `{current}`.",
            known=known,
            current=current,
        )
    limit = first if message.private else current
    if not call.is_owner and MODES.index(wanted) > MODES.index(limit):
        return t(
            "Only the owner may choose `{wanted}` here. It stays `{current}`.",
            wanted=wanted,
            current=current,
        )
    session = call.begun_session(connection)
    sessions.choose_mode(connection, session, wanted)
    if MODES.index(wanted) > MODES.index(current):
        reason = f"{current} became {wanted} by {message.principal}"
        params = {"mode": wanted, "who": message.principal, "chat": message.session_key}
        audit_outbox.put(connection, AuditNote(call.now, "mode", reason, params, session=session))
    return t(
        "Mode of this conversation: `{mode}`, {meaning}.",
        mode=wanted,
        meaning=t(_MODE_MEANINGS[wanted]),
    )
