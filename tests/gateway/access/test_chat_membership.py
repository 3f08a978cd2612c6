"""Chats that a bot joins or is removed from."""

import secrets
from pathlib import Path
from typing import Any

from gateway.channels.base import ChatUnreachable
from gateway.core.channel_events import Batch, MembershipChange
from gateway.core.messages import OutboundPart, Route, Sender
from gateway.store.cipher import Cipher
from gateway.store.repositories.delivery import chats
from gateway.store.repositories.delivery.outbox import OutgoingReply
from tests.gateway import stored
from tests.gateway.parts import Parts, chat_message, opened, running

GROUP = Route("chat", "bot", "-5")
_numbers = iter(range(1000))


def membership_change(
    route: Route = GROUP, *, present: bool, was: bool, **more: Any
) -> MembershipChange:
    fields = {"title": "'Ops' (-5)", "actor": "'Bob' (8)", "is_private": False} | more
    name = f"bot:{next(_numbers)}"
    return MembershipChange(route, name, is_present=present, was_present=was, **fields)


async def messages_after(parts: Parts, *changes: MembershipChange) -> list[tuple[str, str]]:
    """Return the (chat, text) pairs sent after these membership changes."""
    await parts.bus.accept("chat", "bot", Batch([], membership_changes=changes))
    return await parts.stored("outbox", "chat", "body", state="pending", order="seq")


async def test_owner_is_notified_of_joined_and_left_groups(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, [], owner="chat:7") as parts:
        assert await messages_after(parts, membership_change(present=True, was=False)) == [
            ("7", "I was added to the group 'Ops' (-5) by 'Bob' (8).")
        ]
        promoted = membership_change(present=True, was=True)
        assert len(await messages_after(parts, promoted)) == 1
        (_, removed) = await messages_after(parts, membership_change(present=False, was=True))
        assert removed == ("7", "I was removed from the group 'Ops' (-5) by 'Bob' (8).")
        again = membership_change(present=False, was=True)
        assert len(await messages_after(parts, again)) == 2


async def test_notices_of_many_groups_are_limited(tmp_path: Path) -> None:
    async with opened(tmp_path, [], owner="chat:7") as parts:
        many = [
            membership_change(Route("chat", "bot", f"-{n}"), present=True, was=False)
            for n in range(50)
        ]
        assert len(await messages_after(parts, *many)) == 5


async def test_notices_of_repeated_joins_are_limited(tmp_path: Path) -> None:
    async with opened(tmp_path, [], owner="chat:7") as parts:
        results: list[tuple[str, str]] = []
        for n in range(20):
            there = n % 2 == 0
            results = await messages_after(parts, membership_change(present=there, was=not there))
        assert len(results) == 5


async def unreachable(parts: Parts, *chat_ids: str) -> list[tuple[str, str]]:
    """Return the (chat, text) pairs sent after these chats refused text."""
    for number, chat_id in enumerate(chat_ids):
        # Drain the outbox, so that this chat does not refuse a notice about the previous chat.
        await parts.until_count(0, "outbox", state="pending")
        await parts.until_count(0, "outbox", state="inflight")
        parts.platform.fail(chat_id, ChatUnreachable("blocked"))
        route = Route("chat", "bot", chat_id)
        await parts.sender.post(OutgoingReply(f"d:{number}", route, [OutboundPart("x")]))
        await parts.until_stored("outbox", delivery_id=f"d:{number}", state="dead")
    return await parts.stored("outbox", "chat", "body", kind="notice", order="seq")


async def test_owner_is_notified_of_chats_that_reject_text(tmp_path: Path) -> None:
    async with running(tmp_path, [], owner="chat:7") as parts:
        message = chat_message("/status", "8", sender=Sender("8", "Bob"))
        await parts.bus.accept("chat", "bot", Batch([message]))
        results = await unreachable(parts, "8", "-5", "7")
    assert results == [
        (
            "7",
            "I can't write to Bob (8) any more: blocked. "
            "Queued messages for this person were dropped.",
        ),
        (
            "7",
            "I can't write to the chat -5 any more: blocked. Queued messages for it were dropped.",
        ),
    ]


async def test_notice_takes_no_name_from_a_forged_message(tmp_path: Path) -> None:
    cipher = Cipher(secrets.token_bytes(32), "KORE_STORE_KEY")
    async with running(tmp_path, [], owner="chat:7", cipher=cipher) as parts:
        message = chat_message("/status", "8", sender=Sender("8", "Bob"))
        await parts.bus.accept("chat", "bot", Batch([message]))
        await parts.until_stored("outbox", chat="8", state="sent")
        await parts.database.transact(stored.change, "inbox", {"payload": "forged"})
        await unreachable(parts, "8")
        await parts.until_stored("outbox", chat="7", state="sent")
    assert "I can't write to the chat 8" in parts.platform.texts("7")[-1]


async def test_notices_of_chats_that_reject_text_are_limited(tmp_path: Path) -> None:
    async with running(tmp_path, [], owner="chat:7") as parts:
        results = await unreachable(parts, *(f"-{n}" for n in range(1, 20)))
    assert len(results) == 5


async def test_no_notice_is_sent_without_an_owner(tmp_path: Path) -> None:
    async with opened(tmp_path, []) as parts:
        assert await messages_after(parts, membership_change(present=True, was=False)) == []


async def test_pending_work_of_a_chat_ends_when_the_bot_is_removed(tmp_path: Path) -> None:
    async with opened(tmp_path, [], owner="chat:7") as parts:
        await parts.bus.accept("chat", "bot", Batch([chat_message("/stop", "-5", private=False)]))
        await parts.bus.accept(
            "chat", "bot", Batch([chat_message("/stop", "-5", private=False, thread_id="9")])
        )
        left = await messages_after(parts, membership_change(present=False, was=True))
        assert [chat for chat, _ in left] == ["7"]
        dead = await parts.stored("outbox", "dead_reason", state="dead")
        assert dead == [("removed from the group",)] * 2
        (out,) = await parts.database.transact(chats.unreachable_chats)
        assert (out["chat"], out["reason"]) == ("chat:bot:-5", "removed from the group")
        await parts.bus.accept("chat", "bot", Batch([chat_message("hi", "-5", private=False)]))
        assert await parts.database.transact(chats.unreachable_chats) == []


async def test_blocked_chat_is_reported_only_with_pending_messages(tmp_path: Path) -> None:
    person = Route("chat", "bot", "8")
    gone = {"present": False, "was": True, "is_private": True, "title": "'Bob' (8)"}
    async with opened(tmp_path, [], owner="chat:7") as parts:
        assert await messages_after(parts, membership_change(person, **gone)) == []
        message = chat_message("/stop", "8", sender=Sender("8", "Bob"))
        await parts.bus.accept("chat", "bot", Batch([message]))
        assert await messages_after(parts, membership_change(person, **gone)) == [
            ("7", "'Bob' (8) has blocked me. Their queued messages were dropped.")
        ]
        owner = Route("chat", "bot", "7")
        assert await messages_after(parts, membership_change(owner, **gone)) == []


async def test_notice_goes_to_the_last_chat_of_the_owner(tmp_path: Path) -> None:
    async with running(tmp_path, [], owner="chat:@ann:x") as parts:
        await parts.bus.accept(
            "chat", "bot", Batch([chat_message("/status", "!room", sender=Sender("@ann:x"))])
        )
        notices = await unreachable(parts, "-5")
    assert [chat for chat, _ in notices] == ["!room"]
