from gateway.core.messages import Entity, OutboundFile, OutboundPart, Route
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart, PreviewRow

ROUTE = Route("chat", "bot", "-5", "12")
LANE = ROUTE.lane


def put(db: Transaction, id_: str, *texts: str, **more: str) -> None:
    outbox.put(db, None, [OutgoingReply(id_, ROUTE, [OutboundPart(t) for t in texts], **more)], 1.0)  # type: ignore[arg-type]


def head(db: Transaction, now: float = 10.0) -> PendingPart:
    due = outbox.head(db, LANE, now)
    assert isinstance(due, PendingPart)
    return due


def test_reply_keeps_its_route_and_format(db: Transaction) -> None:
    bold = OutboundPart("𝐛old", (Entity("text_link", 0, 2, {"url": "x"}),))
    reply = OutgoingReply("d", ROUTE, [bold, OutboundPart("rest")], "notice", "77", "e1")
    outbox.put(db, None, [reply], 1.0)
    first = head(db).message
    assert (first.route, first.content, first.kind) == (ROUTE, bold, "notice")
    assert (first.reply_to, first.event_id, first.last) == ("77", "e1", False)
    outbox.sent(db, head(db).seq, "1", LANE, 2.0)
    second = head(db).message
    assert (second.part, second.reply_to, second.last) == (1, None, True)


def test_reply_keeps_its_files(db: Transaction) -> None:
    files = (
        OutboundFile("a.png", path="/kept/1", kind="photo", size_bytes=3),
        OutboundFile("b.md", text="# b"),
    )
    outbox.put(
        db, None, [OutgoingReply("d", ROUTE, [OutboundPart("two of them", files=files)])], 1.0
    )
    assert head(db).message.content == OutboundPart("two of them", files=files)


def test_same_delivery_is_queued_once(db: Transaction) -> None:
    put(db, "d", "one")
    put(db, "d", "other")
    assert head(db).message.content.text == "one"
    assert db.one("SELECT count(*) FROM outbox") == (1,)


def test_only_the_head_is_due(db: Transaction) -> None:
    put(db, "a", "one", "two")
    first = head(db)
    outbox.take(db, first.seq)
    outbox.reschedule(db, first.seq, 50.0, ambiguous=False)
    assert outbox.head(db, LANE, 49.0) == 50.0
    assert head(db, 50.0).seq == first.seq
    following = outbox.sent(db, first.seq, "1", LANE, 50.0)
    assert isinstance(following, PendingPart)
    assert following.message.content.text == "two"
    assert outbox.sent(db, following.seq, "2", LANE, 50.0) is None


def test_message_in_flight_is_marked_unless_it_is_an_edit(db: Transaction) -> None:
    put(db, "a", "new")
    put(db, "b", "edit")
    db.run("UPDATE outbox SET provider_message_id = '9' WHERE delivery_id = 'b'")
    db.run("UPDATE outbox SET state = 'inflight'")
    assert outbox.recover(db) == 1
    rows = db.all("SELECT state, maybe_duplicate, ambiguous_attempts FROM outbox ORDER BY seq")
    assert rows == [("pending", 1, 1), ("pending", 0, 0)]


def test_streaming_row_is_not_sent_before_its_final_text(db: Transaction) -> None:
    db.run("INSERT INTO turn (id, lane, state, created_at) VALUES (1, 'x', 'running', 0)")
    reply = OutgoingReply("t1", ROUTE, [OutboundPart("whole"), OutboundPart("more")])
    assert outbox.begin_stream(db, 1, reply, 0, 1.0) == PreviewRow(None, lost=False)
    assert outbox.head(db, LANE, 10.0) is None
    outbox.set_preview(db, "t1", 0, "9")
    outbox.recover(db)
    assert outbox.begin_stream(db, 1, reply, 0, 1.0) == PreviewRow("9", lost=False)
    outbox.put(db, 1, [reply], 2.0)
    message = head(db).message
    assert (message.content.text, message.provider_message_id) == ("whole", "9")
    assert not message.maybe_duplicate


def test_preview_without_an_id_is_lost_in_a_crash(db: Transaction) -> None:
    db.run("INSERT INTO turn (id, lane, state, created_at) VALUES (1, 'x', 'running', 0)")
    reply = OutgoingReply("t1", ROUTE, [OutboundPart("whole")])
    outbox.begin_stream(db, 1, reply, 0, 1.0)
    outbox.recover(db)
    assert outbox.begin_stream(db, 1, reply, 0, 1.0) == PreviewRow(None, lost=True)
    outbox.put(db, 1, [reply], 2.0)
    assert head(db).message.maybe_duplicate
    assert head(db).message.preview_lost
    # A possible duplicate of the answer outweighs the lost preview.
    outbox.reschedule(db, head(db).seq, 0.0, ambiguous=True)
    assert not head(db).message.preview_lost


def test_stream_follows_waiting_messages_of_its_route(db: Transaction) -> None:
    db.run("INSERT INTO turn (id, lane, state, created_at) VALUES (1, 'x', 'running', 0)")
    reply = OutgoingReply("t1", ROUTE, [OutboundPart("whole")])
    put(db, "a", "earlier")
    assert outbox.begin_stream(db, 1, reply, 0, 1.0) is None
    outbox.sent(db, head(db).seq, "1", LANE, 2.0)
    assert outbox.begin_stream(db, 1, reply, 0, 3.0) == PreviewRow(None, lost=False)
    outbox.set_preview(db, "t1", 0, "9")
    put(db, "b", "later")
    assert outbox.begin_stream(db, 1, reply, 0, 4.0) == PreviewRow("9", lost=False)


def test_whole_lane_can_be_abandoned(db: Transaction) -> None:
    put(db, "a", "one", "two")
    put(db, "b", "three")
    outbox.give_up(db, head(db).seq, "gone", whole_lane=True)
    assert outbox.head(db, LANE, 10.0) is None
    assert not outbox.has_mail(db, LANE)


def test_formatting_can_be_dropped(db: Transaction) -> None:
    outbox.put(
        db, None, [OutgoingReply("a", ROUTE, [OutboundPart("x", (Entity("bold", 0, 1),))])], 1.0
    )
    outbox.make_plain(db, head(db).seq)
    assert head(db).message.content == OutboundPart("x")


def test_postponed_message_can_be_made_due(db: Transaction) -> None:
    put(db, "a", "x")
    outbox.reschedule(db, head(db).seq, 1e9, ambiguous=False)
    outbox.due_now(db, LANE)
    assert head(db).message.content.text == "x"
