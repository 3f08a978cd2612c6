"""Approvals as people see them in Telegram: questions with buttons."""

import re
import shutil

import pytest

from gateway.ops.audit.trail import entries
from tests.fakes.faults import status
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import (
    NOTES,
    button,
    notes,
    press,
    push,
    questions,
    run,
    seed,
    wait_for_questions,
    write,
)
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP = -100


def last_result(gateway: GatewayProcess) -> str:
    """Return the result of the last call, as the model received it."""
    results = [
        str(message["content"])
        for request in gateway.model.requests
        for message in request.body["messages"]
        if message["role"] == "tool"
    ]
    return results[-1]


async def test_only_the_owner_may_answer(gateway: GatewayProcess) -> None:
    seed(gateway)
    gateway.model.script(ReplyScript(tool_calls=write("group\n")))
    await gateway.api.user_says(GROUP, "@kore_test_bot change it", user_id=OWNER)
    (question,) = await wait_for_questions(gateway, GROUP)
    text = await press(gateway, question, "Allow once", user_id=8)
    assert text == "Only the owner may answer this question."
    assert notes(gateway) == "old\n"
    # The owner's private chat is a different session.
    message = await gateway.api.user_says(OWNER, "hi")
    await gateway.until(lambda: gateway.api.answers(OWNER))
    copy = gateway.api.chats.get(OWNER, message.message_id)
    assert copy is not None
    text = await push(gateway, copy, button(question, "Allow once"), user_id=OWNER)
    assert text == "This question belongs to another chat."
    assert await press(gateway, question, "Deny", user_id=OWNER) == "⛔ Denied."
    await gateway.idle()
    assert notes(gateway) == "old\n"
    assert await push(gateway, question, "a:o:guessed", user_id=OWNER)
    assert gateway.api.answers(GROUP)[-1] == "echo: change it"


async def test_question_of_another_person_goes_to_the_owner(
    gateway: GatewayProcess, chat: int
) -> None:
    seed(gateway)
    await gateway.answers_to(OWNER, "I am here")
    gateway.model.script(ReplyScript(tool_calls=(Call("remember", {"text": "tea"}),)), "Noted.")
    await gateway.api.user_says(chat, "remember that I like tea")
    (question,) = await wait_for_questions(gateway)
    assert f"Requested by telegram:{chat}" in question.text
    await gateway.until(lambda: gateway.api.answers(chat))
    assert "needs the owner's approval" in gateway.api.answers(chat)[0]
    await press(gateway, question, "Allow once")
    await gateway.idle()
    assert gateway.api.answers(chat)[-1] == "Noted."


async def test_message_during_an_approval_is_answered_afterwards(gateway: GatewayProcess) -> None:
    seed(gateway)
    gateway.model.script(ReplyScript(tool_calls=write("new\n")))
    await gateway.api.user_says(OWNER, "change it")
    (question,) = await wait_for_questions(gateway)
    await gateway.api.user_says(OWNER, "yes, allow it")
    waits = f"⏸ Waiting for your answer to question {question.text.split()[2].rstrip(':')}"
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1].startswith(waits))
    await gateway.api.user_says(OWNER, "once more")
    await gateway.api.user_says(5, "and I?")
    await gateway.until(lambda: gateway.api.answers(5) == ["echo: and I?"])
    assert notes(gateway) == "old\n"
    await press(gateway, question, "Allow once")
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1] == "echo: once more")
    assert gateway.api.answers(OWNER)[-3:] == [
        *("echo: change it", "echo: yes, allow it", "echo: once more"),
    ]
    assert sum(text.startswith("⏸") for text in gateway.api.answers(OWNER)) == 1
    assert notes(gateway) == "new\n"


async def test_reply_to_the_question_denies_with_a_reason(gateway: GatewayProcess) -> None:
    seed(gateway)
    earlier = len(gateway.api.answers(GROUP))
    gateway.model.script(ReplyScript(tool_calls=write("new\n")), "I see.")
    await gateway.api.user_says(GROUP, "@kore_test_bot change it", user_id=OWNER)
    (question,) = await wait_for_questions(gateway, GROUP)
    # A reply by another person is an ordinary message.
    await gateway.api.user_says(GROUP, "no!", user_id=8, reply_to=question.message_id)
    await gateway.until(lambda: gateway.api.answers(GROUP)[-1].startswith("⏸"))
    assert questions(gateway, GROUP) == [question]
    await gateway.api.user_says(
        GROUP, "Use other.txt instead", user_id=OWNER, reply_to=question.message_id
    )
    await gateway.until(lambda: "I see." in gateway.api.answers(GROUP))
    await gateway.idle()
    closed = next(
        item for item in gateway.api.chat(GROUP) if item.message_id == question.message_id
    )
    assert f"⛔ Denied by Person {OWNER} (telegram:{OWNER}): Use other.txt" in (closed.text or "")
    assert "Use other.txt instead" in last_result(gateway)
    answers = gateway.api.answers(GROUP)[earlier:]
    echoes = [text for text in answers if "echo:" in text or "no!" in text]
    assert [("no!" in text, "other.txt instead" in text) for text in echoes] == [(True, False)]
    assert notes(gateway) == "old\n"


async def test_deny_command_gives_a_reason_in_any_chat(gateway: GatewayProcess) -> None:
    seed(gateway)
    assert (await gateway.answers_to(OWNER, "/deny"))[-1] == (
        "There is no open question here that you can answer."
    )
    gateway.model.script(ReplyScript(tool_calls=write("new\n")), "Well.")
    await gateway.api.user_says(OWNER, "change it")
    await wait_for_questions(gateway)
    await gateway.api.user_says(5, "/deny it")
    refusal = "There is no open question here that you can answer."
    await gateway.until(lambda: refusal in gateway.api.answers(5))
    await gateway.api.user_says(OWNER, "/deny notes.txt is mine")
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1] == "Well.")
    await gateway.idle()
    assert not questions(gateway)
    assert "notes.txt is mine" in last_result(gateway)
    assert notes(gateway) == "old\n"


async def test_stop_withdraws_the_question(gateway: GatewayProcess) -> None:
    seed(gateway)
    gateway.model.script(ReplyScript(tool_calls=write("new\n")))
    await gateway.api.user_says(OWNER, "change it")
    (question,) = await wait_for_questions(gateway)
    data = button(question, "Allow once")
    await gateway.api.user_says(OWNER, "/stop")
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1] == "⏹ Stopped.")
    await gateway.idle()
    assert not questions(gateway)
    assert "Withdrawn" in await push(gateway, question, data)
    assert notes(gateway) == "old\n"


async def test_new_conversation_withdraws_the_question(gateway: GatewayProcess) -> None:
    seed(gateway)
    gateway.model.script(ReplyScript(tool_calls=write("new\n")))
    await gateway.api.user_says(OWNER, "change it")
    await wait_for_questions(gateway)
    await gateway.api.user_says(OWNER, "/status")
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1].startswith("Kore "))
    assert len(questions(gateway)) == 1
    await gateway.api.user_says(OWNER, "/new")
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1].startswith("New conversation"))
    await gateway.idle()
    assert gateway.api.answers(OWNER)[-2] == "⏹ Stopped."
    assert questions(gateway) == []
    assert notes(gateway) == "old\n"


async def test_open_questions_are_distinguished(gateway: GatewayProcess) -> None:
    seed(gateway)
    for text in ("first", "second"):
        gateway.model.script(ReplyScript(tool_calls=write(f"{text}\n", f"{text}.txt")))
        (gateway.workspace / f"{text}.txt").write_text("old\n")
        chat = OWNER if text == "first" else GROUP
        await gateway.api.user_says(chat, f"@kore_test_bot {text}", user_id=OWNER)
        await wait_for_questions(gateway, chat)
    (result,), (two,) = questions(gateway), questions(gateway, GROUP)
    assert "first.txt" in result.text.split("\n")[0]
    assert "second.txt" in two.text.split("\n")[0]
    assert result.text.split("\n")[0] != two.text.split("\n")[0]
    assert (await gateway.status())["open_questions"] == 2
    await press(gateway, two, "Allow once", user_id=OWNER)
    await gateway.until(lambda: gateway.api.answers(GROUP)[-1].startswith("echo: second"))
    await press(gateway, result, "Deny")
    await gateway.idle()
    assert (gateway.workspace / "first.txt").read_text() == "old\n"
    assert (gateway.workspace / "second.txt").read_text() == "second\n"


async def test_always_allows_only_this_command(gateway: GatewayProcess) -> None:
    seed(gateway)
    gateway.model.script(ReplyScript(tool_calls=write("new\n")), "Done.")
    await gateway.api.user_says(OWNER, "change it")
    (question,) = await wait_for_questions(gateway)
    await press(gateway, question, "Always allow exactly this")
    await gateway.idle()
    seed(gateway)
    await gateway.answers_to(OWNER, "/new")
    gateway.model.script(ReplyScript(tool_calls=write("new\n")), "Again.")
    assert (await gateway.answers_to(OWNER, "change it"))[-1] == "Again."
    assert notes(gateway) == "new\n"
    gateway.model.script(ReplyScript(tool_calls=write("newer\n")), "Once more.")
    await gateway.api.user_says(OWNER, "change it")
    (question,) = await wait_for_questions(gateway)
    await press(gateway, question, "Deny")
    await gateway.idle()
    assert notes(gateway) == "new\n"


async def test_changed_file_asks_again(gateway: GatewayProcess) -> None:
    seed(gateway)
    gateway.model.script(ReplyScript(tool_calls=write("fresh\n")), "Done.")
    await gateway.api.user_says(OWNER, "change it")
    (first,) = await wait_for_questions(gateway)
    (gateway.workspace / NOTES).write_text("changed\n")
    await press(gateway, first, "Allow once")
    await gateway.until(lambda: questions(gateway) and questions(gateway) != [first])
    (second,) = questions(gateway)
    assert "-changed" in second.text
    assert notes(gateway) == "changed\n"
    await press(gateway, second, "Allow once")
    await gateway.idle()
    assert notes(gateway) == "fresh\n"


async def test_audit_log_names_the_decider(gateway: GatewayProcess) -> None:
    recorded: list[str] = []

    async def go(label: str) -> None:
        seed(gateway)
        gateway.model.script(ReplyScript(tool_calls=write(f"{label}\n")), "Done.")
        await gateway.api.user_says(OWNER, "change it")
        (question,) = await wait_for_questions(gateway)
        if label == "/stop":
            gateway.model.forget_script()
            await gateway.api.user_says(OWNER, label)
        else:
            await press(gateway, question, label)
        await gateway.until(lambda: not questions(gateway))
        await gateway.idle()
        recorded.append(list(entries(gateway.home / "audit"))[-1]["reason"])

    for label in ("Allow once", "Deny", "Allow exactly this for this session", "/stop"):
        await go(label)
    seed(gateway)
    again = ReplyScript(tool_calls=write("Allow exactly this for this session\n"))
    gateway.model.script(again, "Done.")
    await gateway.answers_to(OWNER, "change it")
    recorded.append(list(entries(gateway.home / "audit"))[-1]["reason"])
    owner = f"Person {OWNER} (telegram:{OWNER})"
    assert [re.sub(r"^.*; |question \d+", "", reason) for reason in recorded] == [
        f"asked, and {owner} allowed it once",
        f"asked, and {owner} denied it",
        f"asked, and {owner} allowed it for this session",
        " about write_file: asked, and the question was withdrawn",
        f"not asked: {owner} allowed it for this session",
    ]


async def test_oversized_diff_is_sent_as_a_file(gateway: GatewayProcess) -> None:
    seed(gateway)
    content = "".join(f"line {n} of many\n" for n in range(1_000))
    gateway.model.script(ReplyScript(tool_calls=write(content)))
    await gateway.api.user_says(OWNER, "write much")
    (question,) = await wait_for_questions(gateway)
    assert "⚠️ The middle is cut; the file above has the full text" in (question.text or "")
    (sent,) = [effect for effect in gateway.api.sent if effect.method == "sendDocument"]
    assert sent.message_id is not None
    assert sent.message_id < question.message_id
    assert b"+line 500 of many" in sent.files[0].data
    await press(gateway, question, "Allow once", user_id=OWNER)
    await gateway.idle()
    assert notes(gateway) == content


async def test_question_with_a_rejected_file_is_denied(gateway: GatewayProcess) -> None:
    seed(gateway)
    before = notes(gateway)
    content = "".join(f"line {n} of very many\n" for n in range(1_000))
    gateway.api.fail("sendDocument", status(400, description="Bad Request: file is broken"))
    gateway.model.script(ReplyScript(tool_calls=write(content)), ReplyScript(text="I see."))
    await gateway.api.user_says(OWNER, "write too much")
    await gateway.until(lambda: "I see." in gateway.api.answers(OWNER)[-1:])
    await gateway.idle()
    assert questions(gateway) == []
    assert (
        "is denied: the file with the full text could not be sent here"
        in (gateway.api.answers(OWNER)[-2])
    )
    assert notes(gateway) == before


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_prefix_and_host_are_allowed_by_a_button(gateway: GatewayProcess) -> None:
    gateway.workspace.mkdir(parents=True, exist_ok=True)
    gateway.model.script(ReplyScript(tool_calls=(run("mkdir -v one"),)), "One.")
    await gateway.api.user_says(OWNER, "make it")
    (question,) = await wait_for_questions(gateway)
    assert (
        await press(gateway, question, "Always allow mkdir * (any arguments)")
        == "✅ Always allowed: mkdir *."
    )
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1] == "One.")
    gateway.model.script(ReplyScript(tool_calls=(run("mkdir -v two"),)), "Two.")
    assert (await gateway.answers_to(OWNER, "make another"))[-1] == "Two."
    assert (gateway.workspace / "two").is_dir()
    fetch = Call("exec", {"command": "curl -sS http://site.invalid/", "network": "site.invalid"})
    gateway.model.script(ReplyScript(tool_calls=(fetch,)), "Fetched.")
    await gateway.api.user_says(OWNER, "fetch it")
    (question,) = await wait_for_questions(gateway)
    text = await press(gateway, question, "Always allow network to site.invalid for all commands")
    assert text == "✅ Always allowed: network to site.invalid."
    await gateway.until(lambda: gateway.api.answers(OWNER)[-1] == "Fetched.")
    await gateway.idle()
    assert "The host 'site.invalid' cannot be found" in last_result(gateway)
