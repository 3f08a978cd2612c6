from pathlib import Path

from gateway.core.messages import CONSOLE, OutboundPart, Route
from gateway.store.copying import ENGINE_TABLES
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.repositories.user_data import erasure
from tests.gateway.store.transactions import open_transaction


def test_every_table_is_classified(tmp_path: Path) -> None:
    # A new table may contain personal texts: classify it in erasure.py, and decide in
    # user_data.export whether it is exported.
    tx = open_transaction(tmp_path / "kore.db")
    tables = tx.table_names()
    tx.close()
    assert set(tables) - ENGINE_TABLES == (erasure.PERSONAL | erasure.IMPERSONAL) - ENGINE_TABLES


def test_unknown_person_has_no_data(tmp_path: Path) -> None:
    tx = open_transaction(tmp_path / "kore.db")
    assert not erasure.traces(tx, "telegram:1").has_data
    assert erasure.erase(tx, "telegram:1", 0) == []
    tx.close()


def test_deleted_message_keeps_only_its_event_id(tmp_path: Path) -> None:
    tx = open_transaction(tmp_path / "kore.db")
    tx.run(
        "INSERT INTO inbox (channel, account, event_id, lane, principal, payload, received_at)"
        " VALUES ('telegram', '1', '7:5', 'telegram:1:7', 'telegram:7', '{\"content\": \"x\"}', 0)"
    )
    assert erasure.traces(tx, "telegram:7").inbox == 1
    erasure.erase(tx, "telegram:7", 0)
    row = tx.all(
        "SELECT event_id, lane, principal, payload, dead_reason FROM inbox WHERE channel ="
        " 'telegram' AND account = '1'"
    )
    tx.close()
    assert row == [("7:5", "", "", "{}", "deleted")]


def test_person_with_only_a_job_is_erased(tmp_path: Path) -> None:
    tx = open_transaction(tmp_path / "kore.db")
    tx.run(
        "INSERT INTO job (made_by, kind, template, principal, channel, account, chat, rule, zone,"
        " catch_up, created_at) VALUES ('m', 'reminder', 'tea', 'cli:0', 'cli', 'local', 'main',"
        " 'at 1795338000', 'UTC', 'once', 0)"
    )
    traces = erasure.traces(tx, "cli:0")
    assert (traces.has_data, traces.jobs) == (True, 1)
    erasure.erase(tx, "cli:0", 0)
    assert not erasure.traces(tx, "cli:0").has_data
    tx.close()


def test_console_sees_the_first_answer_after_its_data_is_deleted(tmp_path: Path) -> None:
    route = Route(CONSOLE, "local", "main")

    def deliver(delivery: str) -> int:
        outbox.put(tx, None, [OutgoingReply(delivery, route, [OutboundPart(delivery)])], 1.0)
        due = outbox.head(tx, route.lane, 2.0)
        assert isinstance(due, PendingPart)
        outbox.sent(tx, due.seq, "", route.lane, 2.0)
        return due.seq

    tx = open_transaction(tmp_path / "kore.db")
    tx.run(
        "INSERT INTO inbox (channel, account, event_id, lane, principal, payload, received_at)"
        " VALUES ('cli', 'local', 'e', ?, 'cli:0', '{}', 0)",
        (route.lane,),
    )
    last_shown = max(deliver("one"), deliver("two"))
    erasure.erase(tx, "cli:0", 0)
    assert tx.one("SELECT count(*) FROM outbox") == (0,)
    deliver("three")
    (missed,) = outbox.handed_out_after(tx, route.lane, last_shown, 10)
    tx.close()
    assert missed.content.text == "three"


def test_notices_about_a_person_are_erased(tmp_path: Path) -> None:
    owner = Route("telegram", "bot", "1")
    names = ("presence:telegram:bot:7:1.5", "presence:telegram:bot:77:1.5")
    tx = open_transaction(tmp_path / "kore.db")
    for name in names:
        outbox.put(tx, None, [OutgoingReply(name, owner, [OutboundPart("Eve")])], 1.0)
    erasure.erase(tx, "telegram:7", 0)
    left = tx.all("SELECT delivery_id FROM outbox")
    tx.close()
    assert left == [(names[1],)]
