"""Groups that the bot joins and leaves, and topics that are closed while it works."""

import pytest

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_owner_is_notified_of_group_changes_in_private(gateway: GatewayProcess) -> None:
    gateway.api.bot_becomes(-81, "left", "member", by=9)
    await gateway.until(lambda: gateway.api.answers(OWNER))
    assert "I was added to the group 'Group -81' (-81) by 'Person 9' (9)." in (
        gateway.api.answers(OWNER)
    )
    gateway.api.bot_becomes(-81, "member", "kicked", by=9)
    await gateway.until(lambda: "I was removed" in gateway.api.answers(OWNER)[-1])
    status = (await gateway.answers_to(OWNER, "/status"))[-1]
    assert "Chats I cannot write to: telegram:123456:-81 (removed from the group)" in status
    assert "polling, last contact" in status
    listed = await gateway.kore("status")
    assert "telegram:123456:-81: removed from the group" in listed.out


async def test_chat_is_unreachable_after_the_bot_was_kicked(
    gateway: GatewayProcess,
) -> None:
    gateway.model.script(ReplyScript(text="late", latency_s=0.3))
    await gateway.api.user_says(-82, "@kore_test_bot go")
    gateway.api.chats.blocked.add(-82)
    await gateway.idle()
    (unreachable,) = [
        item for item in (await gateway.status())["unreachable"] if "-82" in item["chat"]
    ]
    assert "bot was kicked" in unreachable["reason"]
    gateway.api.chats.blocked.discard(-82)
    assert (await gateway.answers_to(-82, "@kore_test_bot back"))[-1] == "echo: back"
    assert not [item for item in (await gateway.status())["unreachable"] if "-82" in item["chat"]]


async def test_group_that_forbids_files_gets_text_and_a_notice(gateway: GatewayProcess) -> None:
    group = -85
    gateway.api.chats.without_files.add(group)
    (gateway.workspace / "r.txt").write_text("hello")
    call = Call("send_file", {"path": "r.txt", "caption": "The *report*."})
    gateway.model.script(ReplyScript(tool_calls=(call,)), "There it is.")
    note = "📎 Not sent, because this chat does not allow it: r.txt."
    assert await gateway.answers_to(group, "@kore_test_bot send it") == [
        f"The report.\n\n{note}",
        "There it is.",
    ]
    assert "-85" not in str((await gateway.status())["unreachable"])
    assert list((gateway.home / "outgoing").iterdir()) == []


async def test_long_answer_to_a_group_that_forbids_files_is_sent_as_messages(
    gateway: GatewayProcess,
) -> None:
    group = -86
    gateway.api.chats.without_files.add(group)
    answer = "\n\n".join(f"Paragraph {n}. " + "word " * 150 for n in range(30))
    gateway.model.script(answer)
    shown = await gateway.answers_to(group, "@kore_test_bot tell me all")
    assert len(shown) > 5
    text = "".join(shown)
    assert [n for n in range(30) if text.count(f"Paragraph {n}. ") != 1] == []
    assert "This file" not in text


async def test_owner_is_notified_when_a_chat_becomes_unreachable(gateway: GatewayProcess) -> None:
    group = -87
    gateway.model.script(ReplyScript(text="late", latency_s=0.3), "later")
    await gateway.api.user_says(group, "@kore_test_bot go")
    gateway.api.chats.muted.add(group)
    await gateway.until(lambda: any("-87" in answer for answer in gateway.api.answers(OWNER)))
    notice = gateway.api.answers(OWNER)[-1]
    assert notice.startswith("I can't write to the chat -87 any more: ")
    assert "not enough rights to send text messages" in notice
    await gateway.api.user_says(group, "@kore_test_bot again")
    await gateway.idle()


@pytest.mark.parametrize("description", ["message thread not found", "TOPIC_CLOSED"])
async def test_answer_to_a_closed_topic_goes_to_the_chat(
    gateway: GatewayProcess, description: str
) -> None:
    group = -83 if description == "TOPIC_CLOSED" else -84
    gateway.api.chats.closed_as = description
    gateway.model.script(ReplyScript(text="The *answer*.", latency_s=0.3))
    await gateway.api.user_says(group, "@kore_test_bot go", thread_id=5)
    gateway.api.chats.closed_threads.add((group, 5))
    await gateway.idle()
    (shown,) = [shown for shown in gateway.api.chat(group) if shown.from_bot]
    assert shown.text == "↪ From a closed or deleted topic:\nThe answer."
    assert shown.thread_id is None
    (italic,) = shown.entities
    assert shown.text[italic["offset"] :][: italic["length"]] == "answer"
    # A file has the notice too, with or without a caption.
    (gateway.workspace / "r.txt").write_text("hello")
    call = Call("send_file", {"path": "r.txt"})
    gateway.api.chats.closed_threads.clear()
    gateway.model.script(ReplyScript(tool_calls=(call,), latency_s=0.3), "")
    await gateway.api.user_says(group, "@kore_test_bot send", thread_id=5)
    gateway.api.chats.closed_threads.add((group, 5))
    await gateway.idle()
    assert gateway.api.answers(group)[-2:] == [
        "↪ From a closed or deleted topic:",
        "↪ From a closed or deleted topic:\nDone.",
    ]
    # The topic's session is still separate.
    gateway.api.chats.closed_threads.clear()
    await gateway.answers_to(group, "@kore_test_bot again", thread_id=5)
    assert "go" in gateway.model.requests[-1].raw.decode()
