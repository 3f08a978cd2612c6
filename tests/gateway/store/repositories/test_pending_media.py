from dataclasses import replace
from typing import Any

from gateway.core.messages import InboundMessage, Media, Sender
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox, pending_media
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims
from tests.gateway.parts import chat_message

AWAITED = Media("photo", remote="r1", unique="u1")


def accept(db: Transaction, *messages: InboundMessage, now: float = 1.0) -> set[str]:
    return inbox.accept(
        db, InboxBatch("chat", "bot", now), [InboxEntry(message) for message in messages]
    )


def waiting(db: Transaction, message: InboundMessage) -> list[str]:
    """Return the texts of the next claim and of the messages that join it."""
    rows = inbox.waiting_rows(db, message.session_key, together=True)
    return [result.content for _, result in rows]


def there(media: Media) -> Media:
    return replace(media, path=f"inbox/{media.unique}")


def settle(db: Transaction, seq: int, media: Media) -> None:
    pending_media.settle(db, seq, there(media), [], 2.0)


def part(text: str, unique: str, **more: Any) -> InboundMessage:
    media = (Media("photo", remote=f"r-{unique}", unique=unique),)
    return chat_message(text, media=media, album="1:9", **more)


def test_message_and_later_messages_wait_for_its_file(db: Transaction) -> None:
    first, behind = chat_message("[photo]", media=(AWAITED,)), chat_message("behind")
    accept(db, first, behind)
    assert waiting(db, first) == []
    (seq,) = pending_media.rows(db)
    row = pending_media.find(db, seq)
    assert row is not None
    assert row.awaited == AWAITED
    assert pending_media.release(db, row) is None
    settle(db, seq, AWAITED)
    row = pending_media.find(db, seq)
    assert row is not None
    assert pending_media.release(db, row) == first.session_key
    assert waiting(db, first) == ["[photo]", "behind"]
    assert pending_media.rows(db) == []


def test_available_media_does_not_delay_a_message(db: Transaction) -> None:
    message = chat_message("[photo]", media=(there(AWAITED),))
    accept(db, message)
    assert waiting(db, message) == ["[photo]"]


def test_parts_of_an_album_become_one_message(db: Transaction) -> None:
    first = part("[photo] cats", "a")
    accept(db, first)
    accept(db, part("[photo] dogs", "b"), part("[video]", "c"), now=1.5)
    (seq,) = pending_media.rows(db)
    row = pending_media.find(db, seq)
    assert row is not None
    assert row.message.content == "[album of 3] cats\ndogs"
    assert [attachment.unique for attachment in row.message.media] == ["a", "b", "c"]
    assert row.ready_at == 1.5 + pending_media.QUIET_S
    assert db.one("SELECT count(*) FROM inbox WHERE dead_reason LIKE 'part of %'")[0]


def test_album_that_grew_meanwhile_is_not_released(db: Transaction) -> None:
    accept(db, part("[photo]", "a"))
    (seq,) = pending_media.rows(db)
    seen = pending_media.find(db, seq)
    assert seen is not None
    accept(db, part("[photo]", "b"), now=1.5)
    for unique in "ab":
        settle(db, seq, Media("photo", remote=f"r-{unique}", unique=unique))
    assert pending_media.release(db, seen) is None
    now = pending_media.find(db, seq)
    assert now is not None
    assert pending_media.release(db, now)


def test_repeated_part_is_recognized(db: Transaction) -> None:
    first, second = part("[photo]", "a"), part("[photo]", "b")
    accept(db, first, second)
    accept(db, second, first)
    assert len(pending_media.rows(db)) == 1
    row = pending_media.find(db, pending_media.rows(db)[0])
    assert row is not None
    assert len(row.message.media) == 2


def test_late_part_is_its_own_message(db: Transaction) -> None:
    first = part("[photo]", "a")
    accept(db, first)
    (seq,) = pending_media.rows(db)
    settle(db, seq, first.media[0])
    row = pending_media.find(db, seq)
    assert row is not None
    pending_media.release(db, row)
    accept(db, part("[photo]", "b"))
    assert len(pending_media.rows(db)) == 1
    assert waiting(db, first) == ["[photo]"]


def test_other_people_cannot_add_to_an_album(db: Transaction) -> None:
    accept(db, part("[photo]", "a"))
    accept(db, part("[photo]", "b", sender=Sender("8", "Eve")))
    assert len(pending_media.rows(db)) == 2


def test_following_album_part_does_not_start_a_message(db: Transaction) -> None:
    accept(db, replace(part("[photo]", "a", follows=True), album="1:8"))
    assert pending_media.rows(db) == []
    # The part that mentions the bot may come after the others.
    accept(db, part("[photo]", "b", follows=True), part("[photo] look", "c"))
    row = pending_media.find(db, pending_media.rows(db)[0])
    assert row is not None
    assert row.message.content == "[album of 2] look"


def test_parts_before_the_addressed_one_belong_to_its_album(db: Transaction) -> None:
    assert accept(db, part("[photo]", "a", follows=True)) == set()
    accept(db, part("[photo]", "b", follows=True))
    assert pending_media.rows(db) == []
    named = part("[photo] look", "c")
    assert accept(db, named) == {named.session_key}
    (seq,) = pending_media.rows(db)
    row = pending_media.find(db, seq)
    assert row is not None
    assert row.message.content == "[album of 3] look"
    assert sorted(attachment.unique or "" for attachment in row.message.media) == ["a", "b", "c"]
    # The parts now belong to the album permanently.
    assert pending_media.forget_early(db, 1000.0) is None
    assert db.one("SELECT count(*) FROM inbox") == (3,)


def test_repeated_early_part_is_recognized(db: Transaction) -> None:
    early = part("[photo]", "a", follows=True)
    accept(db, early)
    accept(db, early)
    accept(db, early, part("[photo] look", "c"))
    row = pending_media.find(db, pending_media.rows(db)[0])
    assert row is not None
    assert row.message.content == "[album of 2] look"


def test_early_parts_of_other_people_are_excluded(db: Transaction) -> None:
    accept(db, part("[photo]", "a", follows=True, sender=Sender("8", "Eve")))
    accept(db, part("[photo] look", "c"))
    row = pending_media.find(db, pending_media.rows(db)[0])
    assert row is not None
    assert row.message.content == "[photo] look"


def test_unclaimed_early_parts_are_deleted(db: Transaction) -> None:
    accept(db, part("[photo] mine", "a", follows=True), now=1.0)
    accept(db, part("[photo] mine", "b", follows=True), now=2.0)
    assert pending_media.forget_early(db, 1.0 + pending_media.EARLY_S) == 1.0
    assert db.one("SELECT count(*) FROM inbox") == (1,)
    # After a restart, the remaining parts may still arrive.
    pending_media.begin_again(db, 100.0)
    assert pending_media.forget_early(db, 50.0) == pending_media.EARLY_S
    assert pending_media.forget_early(db, 100.0) is None
    assert db.one("SELECT count(*) FROM inbox") == (0,)


def test_number_of_early_parts_is_limited(db: Transaction) -> None:
    accept(db, *(part("[photo]", str(n), follows=True) for n in range(150)))
    assert db.one("SELECT count(*) FROM inbox") == (100,)


def test_edit_that_addresses_the_bot_is_read(db: Transaction) -> None:
    early = part("[photo] look", "a", follows=True)
    accept(db, early)
    edit = replace(early, event_id=f"{early.event_id}:2", edited=True, follows=False)
    assert accept(db, edit) == {edit.session_key}
    row = pending_media.find(db, pending_media.rows(db)[0])
    assert row is not None
    assert row.message.content == "[photo] look"


def test_changed_caption_keeps_the_files(db: Transaction) -> None:
    first = part("[photo] cats", "a", message_id="5")
    accept(db, first)
    accept(db, part("[photo]", "b"))
    (seq,) = pending_media.rows(db)
    settle(db, seq, first.media[0])
    edit = replace(first, content="[photo] my cats", edited=True, event_id="1:5:99")
    accept(db, edit)
    row = pending_media.find(db, seq)
    assert row is not None
    assert row.message.content == "[album of 2] my cats"
    assert [attachment.path for attachment in row.message.media] == ["inbox/a", None]


def test_commands_are_found_behind_a_held_message(db: Transaction) -> None:
    first = chat_message("[photo]", media=(AWAITED,))
    accept(db, first, chat_message("/status"))
    claim = claims.claim_at_once(db, first.session_key, lambda item: item.content == "/status")
    assert claim is not None
