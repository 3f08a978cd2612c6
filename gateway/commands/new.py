"""`/new`: a new conversation for this chat; what ran in the background of the old one ends."""

from sqlite3 import Connection

from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import code
from gateway.sessions.background_work import ended_now
from gateway.store.repositories import sessions


async def answer_new(call: CommandCall) -> str:
    begun, is_left = await call.office.database.run(_begin_session, call)
    told = t("New conversation `{id}`. The earlier one is kept.", id=begun)
    if call.session is None or not is_left:
        return told
    toolbox = call.office.agent.toolbox
    ended = ended_now(toolbox.tasks(call.session), code)
    await toolbox.end(call.session)
    return f"{told} {ended}".rstrip()


def _begin_session(connection: Connection, call: CommandCall) -> tuple[str, bool]:
    """The new conversation, and whether no chat is in the old one any more."""
    message, old = call.message, call.session
    if old is not None and sessions.is_begun_by(connection, old, call.claim.seq):
        return old, False  # a repetition: a crash came before the answer was stored
    begun = sessions.create_session(
        connection, message.principal, call.now, lane=message.session_key
    )
    sessions.note_begun_by(connection, begun, call.claim.seq)
    if old is not None:
        sessions.keep_queue_mode(connection, old, begun)
        sessions.carry_trace(connection, old, begun)
    return begun, old is not None and not sessions.is_in_use(connection, old)
