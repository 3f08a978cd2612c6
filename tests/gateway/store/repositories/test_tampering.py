"""Rejection of rows changed with the database's password but without the key."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.policy.base import Answered
from agent.security.taint.taint import BOTH, PRIVATE
from agent.types import ToolResult, user
from gateway.core.messages import Button, InboundMessage, Media, OutboundPart
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction
from gateway.store.repositories import jobs
from gateway.store.repositories.access import approvals, grants, members
from gateway.store.repositories.access.members import ANYBODY, Person
from gateway.store.repositories.conversations import search, session_admin, sessions
from gateway.store.repositories.conversations.search import Scope
from gateway.store.repositories.conversations.session_admin import SessionOwner
from gateway.store.repositories.delivery import chats, inbox, outbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution import claims, subagent_tasks, turns
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.jobs import Job
from tests.gateway import stored
from tests.gateway.parts import chat_message
from tests.gateway.store.repositories.launches import launched
from tests.gateway.store.repositories.stored_approvals import (
    ASKED,
    CALL,
    CIPHER,
    EVE,
    OWNER,
    ask,
    begin,
)
from tests.gateway.store.transactions import (
    OpenServerTransaction,
    OpenTransaction,
    open_transaction,
)


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[OpenTransaction | OpenServerTransaction]:
    with open_transaction(tmp_path / "kore.db", cipher=CIPHER) as tx:
        yield tx


@pytest.fixture(params=[CIPHER, None], ids=["sealed", "plain"])
def transaction(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Transaction]:
    """Open a store with a key, and a store without a key."""
    with open_transaction(tmp_path / "kore.db", cipher=request.param) as tx:
        yield tx


def test_approval_of_another_version_is_requested_again(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db", cipher=None) as tx:
        key, _ = ask(tx, begin(tx))
        content = '{"title": "exec ls", "tool": "exec"}'
        stored.change(tx, "approval", {"question": content}, nonce="n1")
        assert approvals.open_questions(tx) == []
        assert approvals.find_decision(tx, key) is None
        assert stored.read(tx, "approval", "state") == [("withdrawn",)]


def test_answer_is_read_as_given(transaction: Transaction) -> None:
    key, question = ask(transaction, begin(transaction))
    approvals.close_approval(transaction, question, "always", "telegram:1", 2.0)
    answer = approvals.find_decision(transaction, key)
    assert isinstance(answer, Answered)
    assert answer.answer == "always"
    assert grants.find_grant(transaction, ASKED.principal, "s", "bound") == ("", "telegram:1")
    assert len(grants.list_grants(transaction)) == 1


def test_forged_answer_is_ignored(tx: Transaction) -> None:
    key, _ = ask(tx, begin(tx))
    values = {"state": "always", "answered_by": "telegram:1", "answered_at": 2.0}
    stored.change(tx, "approval", values, nonce="n1")
    assert approvals.find_decision(tx, key) is None


@pytest.mark.parametrize("question", ["", "[]"])
def test_answer_to_an_emptied_question_is_ignored(tx: Transaction, question: str) -> None:
    key, _ = ask(tx, begin(tx))
    values = {"state": "once", "answered_by": "telegram:1", "answered_at": 2.0}
    stored.change(tx, "approval", {**values, "question": question}, nonce="n1")
    assert approvals.find_decision(tx, key) is None


@pytest.mark.parametrize("text", ["", "[]"])
def test_grant_with_empty_texts_allows_nothing(tx: Transaction, text: str) -> None:
    """The hash of a grant can be computed without the key."""
    tx.run(
        "INSERT INTO permission_grant (principal, session, grant_hash, title, folder, granted_by,"
        " granted_at) VALUES ('telegram:2', '', 'hash', ?, ?, 'telegram:1', 1)",
        (text, text),
    )
    assert grants.find_grant(tx, "telegram:2", "s", "hash") is None
    assert grants.list_grants(tx) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [("principal", "telegram:2"), ("args_hash", "other"), ("chat", "2"), ("asker", "telegram:2")],
)
def test_changed_question_cannot_be_answered_and_its_call_asks_again(
    tx: Transaction, column: str, value: str
) -> None:
    claim = begin(tx)
    _, question = ask(tx, claim)
    stored.change(tx, "approval", {column: value}, nonce="n1")
    with pytest.raises(SealBroken):
        approvals.close_approval(tx, question, "once", "telegram:1", 2.0)
    assert approvals.find(tx, "n1") is None
    assert approvals.open_questions(tx) == []
    assert stored.read(tx, "turn", "state", id=claim.turn) == [("running",)]


def test_ended_turn_withdraws_its_questions(transaction: Transaction) -> None:
    claim = begin(transaction)
    key, _ = ask(transaction, claim)
    turns.finish(transaction, claim.turn, claim.session, turns.FinishedTurn([], []), 3.0)
    answer = approvals.find_decision(transaction, key)
    assert isinstance(answer, Answered)
    assert answer.answer == "deny"


@pytest.mark.parametrize(
    ("column", "value"), [("principal", "telegram:2"), ("grant_hash", "h"), ("granted_by", "cli:0")]
)
def test_changed_grant_allows_nothing(tx: Transaction, column: str, value: str) -> None:
    _, question = ask(tx, begin(tx))
    approvals.close_approval(tx, question, "always", "telegram:1", 2.0)
    stored.change(tx, "permission_grant", {column: value}, granted_at=2.0)
    (row,) = stored.read(tx, "permission_grant", "principal", "grant_hash")
    assert grants.find_grant(tx, row[0], "s", row[1]) is None
    assert grants.list_grants(tx) == []


def test_members_are_read_as_approved(transaction: Transaction) -> None:
    members.add_member(transaction, OWNER, owner=True, approved_by="cli:0", now=1.0)
    members.add_member(transaction, EVE, owner=False, approved_by="telegram:1", now=2.0)
    members.add_member(
        transaction, replace(OWNER, name="Anne"), owner=False, approved_by="x", now=3.0
    )
    result = {member.person.name: member.owner for member in members.members(transaction)}
    assert result == {"Eve": False, "Anne": True}
    members.add_member(transaction, EVE, owner=True, approved_by="cli:0", now=4.0)
    assert {member.person.name: member.owner for member in members.members(transaction)} == {
        "Anne": False,
        "Eve": True,
    }
    assert members.remove_member(transaction, "telegram", "2", until=99.0)
    assert members.has_request(transaction, EVE, 5.0)
    assert members.requests(transaction, 5.0) == []


def test_forged_row_makes_no_member_or_owner(tx: Transaction) -> None:
    members.add_member(tx, OWNER, owner=False, approved_by="cli:0", now=1.0)
    stored.change(tx, "member", {"is_owner": 1}, sender="1")
    values = {"account": "main", "is_owner": 0, "approved_by": "cli:0", "approved_at": 1.0}
    for sender, name in (("2", ""), ("3", "Eve")):
        stored.add(tx, "member", channel="telegram", sender=sender, name=name, **values)
    assert members.members(tx) == []


def test_requests_and_invitations_are_read_as_created(transaction: Transaction) -> None:
    nobody = Person("telegram", "main", ANYBODY)
    members.open_request(transaction, EVE, "2", b"code", (1.0, 9.0))
    members.open_request(transaction, nobody, "", b"invited", (1.0, 9.0))
    ((request, code),) = members.requests(transaction, 2.0)
    assert (request.person, request.chat, code) == (EVE, "2", b"code")
    assert members.invitation(transaction, "telegram", "main", 2.0) == b"invited"
    assert members.reject(transaction, "telegram", "2", until=20.0)
    assert members.requests(transaction, 2.0) == []
    assert members.has_request(transaction, EVE, 15.0)


def test_forged_row_is_not_an_invitation(tx: Transaction) -> None:
    members.open_request(tx, EVE, "2", b"code", (1.0, 9.0))
    stored.change(tx, "pairing", {"code_hash": b"known"}, sender="2")
    values = {"name": "", "chat": "", "code_hash": b"known", "asked_at": 1.0, "expires_at": 9.0}
    stored.add(tx, "pairing", channel="telegram", account="main", sender=ANYBODY, **values)
    assert members.requests(tx, 2.0) == []
    assert members.invitation(tx, "telegram", "main", 2.0) is None


def test_taint_and_mode_of_a_session_are_copied_to_a_fork(transaction: Transaction) -> None:
    session = sessions.create_session(transaction, "telegram:1", 1.0)
    assert sessions.taint_of(transaction, session) == frozenset()
    sessions.add_taint(transaction, session, PRIVATE)
    sessions.choose_mode(transaction, session, "plan")
    fork = session_admin.fork(transaction, session, SessionOwner("telegram:2"), 2.0)
    for result, principal in ((session, "telegram:1"), (fork, "telegram:2")):
        assert sessions.taint_of(transaction, result) == PRIVATE
        assert sessions.chosen_mode(transaction, result) == "plan"
        (info,) = sessions.recent(transaction, 1, session=result)
        assert (info.principal, info.taint) == (principal, "private")


@pytest.mark.parametrize(
    "values", [{"taint": ""}, {"permission_mode": "auto"}, {"principal": "telegram:2"}]
)
def test_changed_session_gets_the_strictest_marks(tx: Transaction, values: dict[str, str]) -> None:
    session = sessions.create_session(tx, "telegram:1", 1.0)
    sessions.add_taint(tx, session, PRIVATE)
    sessions.choose_mode(tx, session, "plan")
    stored.change(tx, "session", values, id=session)
    # No later change makes the row valid again.
    sessions.add_taint(tx, session, BOTH)
    sessions.choose_mode(tx, session, "auto")
    row = sessions.load_row(tx, session)
    assert row.taint == BOTH
    assert row.mode == "ask"
    mine = Scope("telegram:2")
    assert sessions.recent(tx, 9, mine) == []
    assert sessions.ids_with_prefix(tx, session, mine) == []


PART = OutboundPart("the answer", buttons=(Button("Allow", "a:n1:once"),))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("chat", "2"), ("account", "other"), ("thread", "5"), ("channel", "slack")),
        *(("buttons", "[]"), ("kind", "approval")),
    ],
)
def test_reply_with_a_changed_route_or_buttons_is_not_sent(
    tx: Transaction, column: str, value: str
) -> None:
    reply = OutgoingReply("t1", ASKED.route, [PART])
    outbox.put(tx, None, [reply], 1.0)
    stored.change(tx, "outbox", {column: value}, delivery_id="t1")
    with pytest.raises(SealBroken):
        outbox.head(tx, ASKED.session_key, 2.0)
    with pytest.raises(SealBroken):
        outbox.leave_topic(tx, 1)
    with pytest.raises(SealBroken):
        outbox.make_plain(tx, 1)


def test_part_moved_out_of_its_topic_can_be_read(transaction: Transaction) -> None:
    route = replace(ASKED.route, thread_id="7")
    outbox.put(transaction, None, [OutgoingReply("t1", route, [PART])], 1.0)
    outbox.leave_topic(transaction, 1)
    due = outbox.head(transaction, route.lane, 2.0)
    assert isinstance(due, outbox.PendingPart)
    assert due.message.route.thread_id is None
    assert due.message.content == PART
    outbox.make_plain(transaction, 1)
    due = outbox.head(transaction, route.lane, 2.0)
    assert isinstance(due, outbox.PendingPart)
    assert due.message.content.text == "the answer"


@pytest.mark.parametrize("column", ["lane", "principal"])
def test_message_is_answered_in_its_own_conversation(tx: Transaction, column: str) -> None:
    inbox.accept(
        tx, InboxBatch(ASKED.channel, ASKED.account, 1.0, {"offset": "5"}), [InboxEntry(ASKED)]
    )
    stored.change(tx, "inbox", {column: "telegram:main:2"}, event_id="1:1")
    (lane,) = stored.read(tx, "inbox", "lane")[0]
    assert inbox.waiting_messages(tx, lane) == []


def accept(tx: Transaction, *messages: InboundMessage) -> None:
    inbox.accept(tx, InboxBatch(ASKED.channel, ASKED.account, 1.0), [*map(InboxEntry, messages)])


def waiting_texts(tx: Transaction) -> list[str]:
    return [message.content for message in inbox.waiting_messages(tx, ASKED.session_key)]


def test_messages_behind_a_changed_message_are_answered(tx: Transaction) -> None:
    accept(tx, ASKED, chat_message("next", event_id="1:2", message_id="2"))
    stored.change(tx, "inbox", {"payload": "forged"}, event_id="1:1")
    assert waiting_texts(tx) == ["next"]


def test_edit_of_a_changed_message_is_a_new_message(tx: Transaction) -> None:
    accept(tx, ASKED)
    stored.change(tx, "inbox", {"payload": "forged"}, event_id="1:1")
    accept(tx, replace(ASKED, content="hello", event_id="1:2", edited=True))
    assert waiting_texts(tx) == ["hello"]


@pytest.mark.parametrize("follows", [True, False])
def test_part_of_an_album_is_stored_behind_a_changed_part(tx: Transaction, follows: bool) -> None:
    photo = replace(ASKED, content="[photo]", album="9", media=(Media("photo", unique="a"),))
    accept(tx, replace(photo, follows=follows))
    stored.change(tx, "inbox", {"payload": "forged"}, event_id="1:1")
    accept(tx, replace(photo, event_id="1:2", message_id="2"))
    assert waiting_texts(tx) == ["[photo]"]


def test_last_private_message_is_the_last_valid_one(tx: Transaction) -> None:
    accept(tx, ASKED, replace(ASKED, content="later", event_id="1:2"))
    stored.change(tx, "inbox", {"payload": "forged"}, event_id="1:2")
    assert chats.last_private_message(tx, ASKED.principal) == ASKED
    stored.change(tx, "inbox", {"payload": "forged"}, event_id="1:1")
    assert chats.last_private_message(tx, ASKED.principal) is None


@pytest.mark.parametrize("column", ["memory", "file_views", "folder"])
def test_conversation_continues_without_a_changed_text(tx: Transaction, column: str) -> None:
    claim = begin(tx)
    turns.finish(tx, claim.turn, claim.session, turns.FinishedTurn([], []), 2.0)
    stored.change(tx, "session", {column: "forged"}, id=claim.session)
    accept(tx, replace(ASKED, event_id="1:2"))
    again = claims.claim(
        tx, ASKED.session_key, 3.0, lambda _: False, lambda m, _: user(m[-1].content)
    )
    assert isinstance(again, TurnClaim)
    assert again.session == claim.session


def test_changed_line_of_a_group_is_omitted(tx: Transaction) -> None:
    for number, text in enumerate(("first", "second")):
        line = replace(ASKED, content=text, event_id=f"1:{number}")
        chats.add_group_context(tx, [line])
    stored.change(tx, "group_context", {"text": "forged"}, event_id="1:0")
    context = chats.take_group_context(tx, ASKED.route.lane)
    assert context is not None
    assert "second" in context


def test_stop_ignores_a_changed_subagent_task(tx: Transaction) -> None:
    task = launched(tx, begin(tx), ASKED.session_key)
    stored.change(tx, "task", {"title": "forged"}, id=task.id)
    assert subagent_tasks.below(tx, ASKED.session_key) == []
    assert subagent_tasks.facts(tx, task.caller) == []


def test_result_has_the_taint_of_its_tool(transaction: Transaction) -> None:
    claim = begin(transaction)
    turns.finish_call(transaction, claim.turn, CALL, ToolResult("found", taint=BOTH))
    assert turns.known_results(transaction, claim.turn)["c1"].taint == BOTH


def test_result_without_its_taint_is_rejected(tx: Transaction) -> None:
    claim = begin(tx)
    turns.finish_call(tx, claim.turn, CALL, ToolResult("found", taint=BOTH))
    stored.change(tx, "step", {"taint": ""}, turn_id=claim.turn)
    with pytest.raises(SealBroken):
        turns.known_results(tx, claim.turn)


def test_session_with_a_changed_owner_is_not_found(tx: Transaction) -> None:
    session = sessions.create_session(tx, "telegram:1", 1.0)
    sessions.append_messages(tx, session, None, [user("a secret")], 1.0)
    stored.change(tx, "session", {"principal": "telegram:2"}, id=session)
    assert sessions.last_of(tx, "telegram:2") is None
    assert search.newest(tx, Scope("telegram:2"), 9) == []
    assert search.around(tx, session, 1, Scope("telegram:2"), 9) == []


def test_changed_job_does_nothing_and_does_not_stop_others(tx: Transaction) -> None:
    for number in (1, 2):
        job = Job(0, f"c{number}", "reminder", ASKED, "telegram:1", "at 5", "UTC", due_at=5.0)
        jobs.put(tx, job)
    stored.change(tx, "job", {"principal": "telegram:2"}, made_by="c1")
    channel = f"{ASKED.channel}:{ASKED.account}"
    assert [item.made_by for item in jobs.due(tx, [channel], 9.0, 9)] == ["c2"]
