"""`/cost`: the figures of a chat, and for the owner those of all."""

from collections.abc import Iterator
from sqlite3 import Connection

from agent.spending import Spent, dollars
from gateway.caps import Day
from gateway.commands.call import CommandCall
from gateway.store import spending as store


def answer(call: CommandCall, connection: Connection) -> str:
    return "\n".join(_lines(call, connection))


def _lines(call: CommandCall, connection: Connection) -> Iterator[str]:
    began = Day.of(call.now).began
    if call.session is not None:
        yield f"Last answer: {in_words(store.of_last_turn(connection, call.session))}"
        yield f"This conversation: {in_words(store.of_session(connection, call.session))}"
    chat = store.of_chat(connection, store.chat_of(call.message), began)
    yield f"This chat today: {in_words(chat)}"
    if call.office.door.access.is_owner_alone(call.message):
        yield f"All chats today: {in_words(store.of_all(connection, began))}"


def in_words(spent: Spent) -> str:
    usage = spent.usage
    tokens = f"{usage.input:,} tokens in"
    if usage.cached:
        tokens += f" ({usage.cached:,} from a cache)"
    return f"{_cost(spent)}, {tokens}, {usage.output:,} out"


def _cost(spent: Spent) -> str:
    if not spent.unpriced:
        return dollars(spent.nano)
    if spent.unpriced == spent.calls:
        return "cost unknown"
    return f"{dollars(spent.nano)} and {spent.unpriced:,} calls of unknown price"
