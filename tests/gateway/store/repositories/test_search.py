from pathlib import Path

import pytest

from agent.types import Message, Text, ToolCall, assistant, user
from gateway.store.cipher import Cipher
from gateway.store.errors import SearchRefused
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import search, session_admin, sessions
from gateway.store.repositories.conversations.search import CHUNK, Scope
from gateway.store.repositories.conversations.session_admin import SessionOwner
from tests.gateway.store.repositories.conversations import talk
from tests.gateway.store.transactions import open_transaction

ALL = Scope()


def snippets(db: Transaction, words: str, scope: Scope = ALL) -> list[str]:
    return [hit.snippet for hit in search.find(db, words, scope, 20)]


@pytest.mark.parametrize(
    "words",
    [
        "zurich", "ZÜRICH", "rep", "report Zürich", '"the report"', "東", "東京", "京タワ", "ไทย",
        "2025-11", "서울", "re*", "Ｚürich",
    ],
)  # fmt: skip
def test_message_is_found_by_its_words_and_their_prefixes(db: Transaction, words: str) -> None:
    talk(db, "in reports/Zürich: the report of 2025-11 東京タワー ภาษาไทย 서울시", "else")
    assert [hit.n for hit in search.find(db, words, ALL, 9)] == [1]


@pytest.mark.parametrize("words", ["ürich", "other", "京東", '"report the"', "zurich other"])
def test_absent_words_are_not_found(db: Transaction, words: str) -> None:
    talk(db, "Where is the report about Zürich and 東京?")
    assert snippets(db, words) == []


@pytest.mark.parametrize(
    "words", ['"', "' OR 1=1 --", "a NEAR/2 b", "text:a", "^a", "(a", "a AND", "a\0b"]
)
def test_query_operators_are_plain_words(db: Transaction, words: str) -> None:
    talk(db, "unrelated")
    assert snippets(db, f"{words} absent") == []


def test_query_without_words_is_rejected(db: Transaction) -> None:
    with pytest.raises(SearchRefused, match="no-words"):
        snippets(db, '" ! ?')


def test_snippet_shows_the_matching_words(db: Transaction) -> None:
    talk(db, "x " * 200 + "the *Zürich*\nreport" + " y" * 200)
    (hit,) = search.find(db, "zurich report", ALL, 5)
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["Zürich", "report"]
    assert (hit.snippet[0], hit.snippet[-1]) == ("…", "…")
    assert len(hit.snippet) < 150


def test_session_is_found_by_name_first_and_only_with_access(
    db: Transaction,
) -> None:
    here = talk(db, "we speak of boats")
    session_admin.rename(db, here, "Zürich 東京旅行 boats")
    hits = search.look_up(db, "zurich 旅行", Scope(), 9)
    assert [(hit.session, hit.role, hit.n) for hit in hits] == [(here, "name", 0)]
    assert [hit.role for hit in search.look_up(db, "boats", Scope(), 9)] == ["name", "user"]
    assert [hit.role for hit in search.look_up(db, "boats", Scope(), 1)] == ["name"]
    assert not search.look_up(db, "boats", Scope("chat:somebody", "chat:bot:1"), 9)


def test_tool_results_and_volatile_facts_are_not_found(db: Transaction) -> None:
    session = talk(db, "hello")
    call = ToolCall("1", "look", {"at": "canary"}, '{"at": "canary"}')
    result = Message("tool", (Text("canary"),), (), "1")
    moment = user("now", "canary time")
    sessions.append_messages(db, session, None, [assistant("", (call,)), result, moment], 3.0)
    assert snippets(db, "canary") == []


def test_person_finds_only_their_own_conversations_of_this_chat(db: Transaction) -> None:
    talk(db, "canary mine")
    talk(db, "canary of a topic", home="chat:bot:1:5")
    talk(db, "canary elsewhere", home="chat:bot:12")
    talk(db, "canary of another", principal="chat:8")
    talk(db, "canary at the console", principal="cli:0", home="cli:local:main")
    own = Scope("chat:7", "chat:bot:1")
    assert set(snippets(db, "canary", own)) == {"canary mine", "canary of a topic"}
    wide = Scope("chat:7", "chat:bot:1", console=True)
    assert set(snippets(db, "canary", wide)) - set(snippets(db, "canary", own)) == {
        "canary at the console"
    }
    assert len(snippets(db, "canary")) == 5


def indexed(db: Transaction, word: str) -> int:
    """Return the number of index entries for the word, including entries without a text."""
    matches, values = db.search.matches([word])
    return len(db.all(matches, values))


def test_older_messages_are_indexed_in_chunks_and_once(db: Transaction) -> None:
    talk(db, *(f"number{n} canary" for n in range(CHUNK + 3)))
    search.forget_all(db)
    assert snippets(db, "canary") == []
    assert not search.enter_older(db)
    talk(db, "a new canary")
    while not search.enter_older(db):
        pass
    assert len(search.find(db, "canary", ALL, 9999)) == CHUNK + 4
    assert search.enter_older(db)
    assert indexed(db, "canary") == CHUNK + 4


def test_rolled_back_transaction_leaves_no_words(db: Transaction) -> None:
    session = talk(db, "hello")
    db.run("BEGIN")
    sessions.append_messages(db, session, None, [user("canary")], 3.0)
    db.run("ROLLBACK")
    assert indexed(db, "canary") == 0


def test_messages_shared_with_a_fork_are_found_once(db: Transaction) -> None:
    session = talk(db, "canary one")
    fork = session_admin.fork(db, session, SessionOwner("chat:7", "chat:bot:1"), 3.0)
    sessions.append_messages(db, fork, None, [user("canary two")], 4.0)
    search.forget_all(db)
    while not search.enter_older(db):
        pass
    hits = search.find(db, "canary", ALL, 9)
    assert [(hit.session, hit.snippet) for hit in hits] == [
        (fork, "canary two"), (session, "canary one"),
    ]  # fmt: skip


def test_sealed_database_has_no_index_and_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    sealed = open_transaction(path, cipher=Cipher(bytes(32), "KEY"))
    talk(sealed, "canaryword")
    assert sealed.one("SELECT count(*) FROM search_entry") == (0,)
    with pytest.raises(SearchRefused, match="sealed"):
        search.enter_older(sealed)
    assert b"canaryword" not in sealed.content()
    sealed.close()
