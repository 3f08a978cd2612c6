"""What /cost says: the figures of a chat, and for the owner those of all."""

from collections.abc import Iterator
from sqlite3 import Connection

from agent.spending import Spent, dollars
from gateway.caps import Day
from gateway.messages import InboundMessage
from gateway.store import spending as store


def cost(
    connection: Connection, message: InboundMessage, session: str | None, now: float, *, all_: bool
) -> str:
    """Markdown; with `all_` the sum over all chats stands there, too."""
    return "\n".join(_lines(connection, message, session, now, all_))


def _lines(
    connection: Connection, message: InboundMessage, session: str | None, now: float, all_: bool
) -> Iterator[str]:
    began = Day.of(now).began
    if session is not None:
        yield f"Last answer: {in_words(store.of_last_turn(connection, session))}"
        yield f"This conversation: {in_words(store.of_session(connection, session))}"
    chat = store.of_chat(connection, store.chat_of(message), began)
    yield f"This chat today: {in_words(chat)}"
    if all_:
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
