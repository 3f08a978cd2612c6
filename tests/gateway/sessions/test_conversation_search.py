"""Past conversations found by `memory_search`, and who may find them."""

import asyncio
from dataclasses import replace

import pytest

from agent.errors import KoreError
from agent.types import Message, Taint, Text, ToolCall, assistant, user
from gateway.access.control import AccessControl
from gateway.core.messages import InboundMessage, Sender
from gateway.sessions.conversation_search import ConversationSearch
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import search, sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.sqlite.engine import SqliteStore
from tests.gateway import stored
from tests.gateway.parts import chat_message, console_message
from tests.gateway.store import faults
from tests.gateway.store.repositories.conversations import talk

OWNER, EIGHT = Sender("7"), Sender("8")


def recall(database: SqliteStore, *messages: InboundMessage) -> ConversationSearch:
    access = AccessControl("chat:7", {("chat", "bot"): ("8",)}, {})
    return ConversationSearch(database, access, TurnClaim(0, 0, "now", list(messages)))


async def recall_texts(database: SqliteStore, words: str, *messages: InboundMessage) -> list[str]:
    return sorted(item.text for item in await recall(database, *messages)(words, 10))


@pytest.fixture
async def canaries(database: SqliteStore) -> SqliteStore:
    def store(tx: Transaction) -> None:
        talk(tx, "canary of the owner")
        talk(tx, "canary of eight", principal="chat:8", home="chat:bot:2")
        talk(tx, "canary of eight in a group", principal="chat:8", home="chat:bot:-5")
        talk(tx, "canary of the owner in a group", home="chat:bot:-5")
        talk(tx, "canary of the owner on another bot", home="chat:other:1")
        talk(tx, "canary at the terminal", principal="cli:0", home="cli:local:main")

    await database.transact(store)
    return database


async def test_owner_in_private_finds_this_chat_and_the_terminal(canaries: SqliteStore) -> None:
    assert await recall_texts(canaries, "canary", chat_message("x", sender=OWNER)) == [
        "canary at the terminal",
        "canary of the owner",
    ]


async def test_owner_at_the_terminal_finds_only_their_own(
    canaries: SqliteStore,
) -> None:
    assert await recall_texts(canaries, "canary", console_message("x", sender=Sender("0"))) == [
        "canary at the terminal",
        "canary of the owner",
        "canary of the owner in a group",
        "canary of the owner on another bot",
    ]


async def test_other_person_finds_only_their_own_of_this_chat(canaries: SqliteStore) -> None:
    assert await recall_texts(canaries, "canary", chat_message("x", "2", sender=EIGHT)) == [
        "canary of eight"
    ]


@pytest.mark.parametrize(("sender", "whose"), [(OWNER, "the owner"), (EIGHT, "eight")])
async def test_group_search_finds_only_this_group(
    canaries: SqliteStore, sender: Sender, whose: str
) -> None:
    message = chat_message("x", "-5", sender=sender, private=False)
    assert await recall_texts(canaries, "canary", message) == [f"canary of {whose} in a group"]


async def test_search_is_rejected_after_another_person_joins_the_turn(
    canaries: SqliteStore,
) -> None:
    find = recall(canaries, chat_message("x", "-5", sender=OWNER, private=False))
    assert len(await find("canary", 5)) == 1
    find.claim.messages.append(chat_message("y", "-5", sender=EIGHT, private=False))
    with pytest.raises(KoreError, match="several people"):
        await find("canary", 5)


async def test_person_joining_during_indexing_is_considered(database: SqliteStore) -> None:
    def store(tx: Transaction) -> None:
        talk(tx, *(f"canary {number}" for number in range(1200)), home="chat:bot:-5")
        search.forget_all(tx)

    await database.transact(store)
    find = recall(database, chat_message("x", "-5", sender=OWNER, private=False))
    under_way = asyncio.create_task(find("canary", 5))
    await asyncio.sleep(0)  # let it wait for the index
    find.claim.messages.append(chat_message("y", "-5", sender=EIGHT, private=False))
    with pytest.raises(KoreError, match="several people"):
        await under_way


async def test_single_word_matches_if_no_message_has_all(database: SqliteStore) -> None:
    await database.transact(talk, "the castle on the hill", "a boat")
    message = chat_message("x", sender=OWNER)
    assert await recall_texts(database, "castle in Lisbon?", message) == ["the castle on the hill"]
    assert await recall_texts(database, "zebra crossing", message) == []


async def test_question_does_not_find_itself(database: SqliteStore) -> None:
    def store(tx: Transaction) -> tuple[str, int]:
        session = talk(tx, "canary before")
        turn = 1
        row = {"lane": "chat:bot:1", "state": "running", "progress": 1, "created_at": 3.0}
        stored.add(tx, "turn", id=turn, session=session, **row)
        sessions.append_messages(tx, session, turn, [user("where is the canary?")], 3.0)
        return session, turn

    session, turn = await database.transact(store)
    find = recall(database, chat_message("x", sender=OWNER))
    find = replace(find, claim=replace(find.claim, session=session, turn=turn))
    assert [item.text for item in await find("canary", 1)] == ["canary before"]


async def test_messages_older_than_the_index_are_found(database: SqliteStore) -> None:
    def store(tx: Transaction) -> None:
        talk(tx, *(f"canary {number}" for number in range(1200)))
        faults.empty_index(tx)

    await database.transact(store)
    assert await recall_texts(database, "canary 1199", chat_message("x", sender=OWNER)) == [
        "canary 1199"
    ]


async def test_hit_carries_the_taint_of_its_session(database: SqliteStore) -> None:
    stranger: frozenset[Taint] = frozenset({"untrusted"})
    session = await database.transact(talk, "canary")
    await database.transact(sessions.add_taint, session, stranger)
    (hit,) = await recall(database, chat_message("x", sender=OWNER))("canary", 5)
    assert hit.place.startswith(f"{session}:1, ")
    assert hit.place.endswith("the person")
    assert (hit.text, hit.taint) == ("canary", stranger)


async def test_rare_word_of_a_question_and_its_forms_match(
    database: SqliteStore,
) -> None:
    await database.transact(
        talk, "the ferry leaves at nine", "what did we do", "the wedding is in June", "北京的会议"
    )
    message = chat_message("x", sender=OWNER)
    assert await recall_texts(database, "When does the ferry go?", message) == [
        "the ferry leaves at nine"
    ]
    assert await recall_texts(database, "weddings this year", message) == ["the wedding is in June"]
    assert await recall_texts(database, "我们在北京什么时候开会", message) == ["北京的会议"]


async def test_context_of_a_hit_is_returned(database: SqliteStore) -> None:
    session = await database.transact(talk, *(f"part {n} of it" for n in range(1, 21)))
    find = recall(database, chat_message("x", sender=OWNER))
    (hit,) = await find("part 12", 1)
    name, number = hit.place.split(",")[0].split(":")
    assert name == session
    around = await find.around(name, int(number))
    assert [item.text for item in around] == [f"part {n} of it" for n in range(7, 18)]
    # Results have ids, which later reads can use.
    assert around[-1].place.startswith(f"{session}:17, ")
    assert (await find.around(session, 20))[-1].text == "part 20 of it"
    assert list(await find.around(session, 21)) == []


async def test_long_messages_around_a_hit_are_shortened(database: SqliteStore) -> None:
    session = await database.transact(talk, "a" * 9000, "b" * 9000)
    first, second = await recall(database, chat_message("x", sender=OWNER)).around(session, 2)
    assert first.text == "a" * 1500 + "… (7,500 more characters)"
    assert second.text == "b" * 6000 + "… (3,000 more characters)"


async def test_calls_and_results_are_omitted_with_their_taint_kept(database: SqliteStore) -> None:
    call = ToolCall("c", "exec", {}, "{}")
    stranger: frozenset[Taint] = frozenset({"untrusted"})

    def store(tx: Transaction) -> str:
        session = talk(tx, "look")
        more = [assistant("", (call,)), Message("tool", (Text("x"),), tool_call_id="c")]
        sessions.append_messages(tx, session, None, [*more, assistant("There.")], 2.0)
        sessions.add_taint(tx, session, stranger)
        return session

    session = await database.transact(store)
    hits = await recall(database, chat_message("x", sender=OWNER)).around(session, 1)
    assert [(hit.text, hit.taint) for hit in hits] == [("look", stranger), ("There.", stranger)]
    assert hits[1].place.endswith(", you")


async def test_context_requires_access_to_the_hit(canaries: SqliteStore) -> None:
    def ids(tx: Transaction) -> list[str]:
        return [id_ for (id_,) in stored.read(tx, "session", "id")]

    async def texts(message: InboundMessage) -> list[str]:
        find = recall(canaries, message)
        hits = [await find.around(item, 1) for item in await canaries.transact(ids)]
        return sorted(hit.text for around in hits for hit in around)

    for message in (
        chat_message("x", sender=OWNER),
        chat_message("x", "2", sender=EIGHT),
        chat_message("x", "-5", sender=EIGHT, private=False),
        console_message("x", sender=Sender("0")),
    ):
        assert await texts(message) == await recall_texts(canaries, "canary", message)
    both = recall(canaries, chat_message("x", "-5", sender=OWNER, private=False))
    both.claim.messages.append(chat_message("y", "-5", sender=EIGHT, private=False))
    with pytest.raises(KoreError, match="several people"):
        await both.around("s", 1)
