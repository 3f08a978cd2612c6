"""`/cost`: the figures of a chat, and for the owner those of all."""

from collections.abc import Iterator
from sqlite3 import Connection

from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.store.repositories import usage
from gateway.turns.usage_limits import BillingDay
from gateway.turns.usage_text import usage_text


def answer_cost(call: CommandCall, connection: Connection) -> str:
    return "\n".join(_cost_lines(call, connection))


def _cost_lines(call: CommandCall, connection: Connection) -> Iterator[str]:
    began = BillingDay.of(call.now).began
    if call.session is not None:
        last = usage.of_last_turn(connection, call.session)
        yield t("Last answer: {spent}", spent=usage_text(last))
        session = usage.of_session(connection, call.session)
        yield t("This conversation: {spent}", spent=usage_text(session))
    chat = usage.of_chat(connection, usage.chat_of(call.message), began)
    yield t("This chat today: {spent}", spent=usage_text(chat))
    if call.office.door.access.is_owner_alone(call.message):
        yield t("All chats today: {spent}", spent=usage_text(usage.of_all(connection, began)))
