"""Invalid input from Telegram and the model: a single error message, and work continues."""

import json
import re

import pytest

from tests.fakes.faults import reset, status
from tests.fakes.model_script import Break, Call, Dialect, ReplyScript, refusal
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


def update(chat: int, text: str, message_id: int = 900) -> str:
    """Return a message as raw JSON, with `text` inserted verbatim."""
    person = {"id": chat, "is_bot": False, "first_name": "P"}
    message = {
        "message_id": message_id,
        "date": 1,
        "chat": {"id": chat, "type": "private"},
        "from": person,
        "text": "@",
    }
    return f'{{"update_id": UPDATE_ID, "message": {json.dumps(message)}}}'.replace(
        '"@"', f'"{text}"'
    )


async def test_malformed_update_is_skipped(gateway: GatewayProcess, chat: int) -> None:
    gateway.api.fail("getUpdates", reset)
    await gateway.api.user_says(chat, "one")
    await gateway.api.user_says(0, "", raw={"message": {"message_id": "?", "chat": 5}})
    await gateway.api.user_says(0, "", raw={"message": None})
    await gateway.api.user_says(0, "", raw={"some_future_kind": {"x": 1}})
    assert await gateway.answers_to(chat, "two") == ["echo: one", "echo: two"]


async def test_null_fields_of_another_bot_api_server_are_accepted(
    gateway: GatewayProcess, chat: int
) -> None:
    nulls = dict.fromkeys(("callback_query", "edited_message", "my_chat_member"))
    message = json.loads(update(chat, "hello").replace("UPDATE_ID", "0"))["message"]
    absent = dict.fromkeys(("caption", "entities", "reply_to_message", "sender_chat", "photo"))
    await gateway.api.user_says(0, "", raw={**nulls, "message": {**absent, **message}})
    await gateway.idle()
    assert gateway.api.answers(chat) == ["echo: hello"]


async def test_undecodable_updates_are_counted_and_named(
    gateway: GatewayProcess, chat: int
) -> None:
    before = (await gateway.status())["updates_undecoded"] or 0
    broken = {"message_id": "?", "chat": {"id": chat, "type": "private"}, "text": "my words"}
    await gateway.api.user_says(0, "", raw={"message": broken})
    assert await gateway.answers_to(chat, "after") == ["echo: after"]
    assert (await gateway.status())["updates_undecoded"] == before + 1
    ran = await gateway.kore("logs", "-n", "200")
    (line,) = [item for item in ran.out.splitlines() if "could not be decoded" in item][-1:]
    assert "my words" not in ran.out
    (seq,) = re.findall(r"kore replay (\d+)", line)
    again = await gateway.kore("replay", seq)
    assert again.code == 1
    assert "still cannot be decoded: ValueError" in again.err


async def test_message_of_unknown_kind_is_answered(gateway: GatewayProcess, chat: int) -> None:
    message = json.loads(update(chat, "").replace("UPDATE_ID", "0"))["message"]
    await gateway.api.user_says(0, "", raw={"message": {**message, "hologram": {"x": 1}}})
    await gateway.idle()
    (answer,) = gateway.api.answers(chat)
    assert "can't read this kind of message" in answer


async def test_update_that_is_not_json_does_not_block_the_rest(
    gateway: GatewayProcess, chat: int
) -> None:
    await gateway.api.user_says(0, "", raw='{"update_id": UPDATE_ID, "message": {"text": "\\x"}}')
    assert await gateway.answers_to(chat, "after") == ["echo: after"]


async def test_lone_surrogates_are_replaced(gateway: GatewayProcess, chat: int) -> None:
    await gateway.api.user_says(0, "", raw=update(chat, "a\\ud83d b"))
    await gateway.idle()
    (answer,) = gateway.api.answers(chat)
    assert answer.startswith("echo: a")
    assert answer.endswith(" b")


async def test_invalid_utf_8_is_replaced(gateway: GatewayProcess, chat: int) -> None:
    await gateway.api.user_says(
        0, "", raw=update(chat, "a@b").encode().replace(b"a@b", b"a\xff\xfeb")
    )
    await gateway.idle()
    (answer,) = gateway.api.answers(chat)
    assert answer.startswith("echo: a")


async def test_huge_update_is_skipped(gateway: GatewayProcess, chat: int) -> None:
    await gateway.api.user_says(chat, "before")
    await gateway.api.user_says(0, "", raw=update(chat, "x" * 30_000_000))
    assert await gateway.answers_to(chat, "after") == ["echo: before", "echo: after"]
    assert "could not be decoded and was stored: the answer is longer" in gateway.log_text()


@pytest.mark.parametrize(
    "reply",
    [
        ReplyScript(status=200, text=""),
        ReplyScript(status=200, text=" \n "),
        ReplyScript(text="never seen", breaks=Break("garbage")),
        ReplyScript(text="<html><body>502</body></html>", dialect=Dialect(plain_json=True)),
        ReplyScript(text="\x00\x1b[2J\u202e odd \ufffe"),
        ReplyScript(text="**_`[((<b>" * 50),
    ],
    ids=["empty", "blank", "garbage", "html", "control", "marks"],
)
async def test_every_model_reply_gives_one_answer(
    gateway: GatewayProcess, chat: int, reply: ReplyScript
) -> None:
    gateway.model.script(reply)
    (answer,) = await gateway.answers_to(chat, "hi")
    assert answer.strip()
    assert (await gateway.answers_to(chat, "next"))[-1] == "echo: next"


async def test_model_recovers_from_an_unknown_tool(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(ReplyScript(tool_calls=(Call("fly", {"to": "moon"}),)), "I cannot fly.")
    assert await gateway.answers_to(chat, "fly") == ["I cannot fly."]
    result = gateway.model.requests[-1].body["messages"][-1]
    assert result["role"] == "tool"
    assert "fly" in result["content"]


@pytest.mark.parametrize("arguments", [{"pth": "x"}, {"path": 5}, "{not json", "[]", ""], ids=str)
async def test_model_recovers_from_invalid_arguments(
    gateway: GatewayProcess, chat: int, arguments: object
) -> None:
    call = Call("read_file", arguments)  # type: ignore[arg-type]
    gateway.model.script(ReplyScript(tool_calls=(call,)), "Mended.")
    assert await gateway.answers_to(chat, "read") == ["Mended."]
    result = gateway.model.requests[-1].body["messages"][-1]
    assert result["role"] == "tool"
    assert result["content"]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (refusal(401, "Incorrect API key provided: sk-other-12345678"), "key-refused"),
        (refusal(404, "The model does not exist"), "rejected"),
        (refusal(400, "nonsense"), "rejected"),
    ],
    ids=["401", "404", "400"],
)
async def test_rejection_is_one_sentence_with_a_code(
    gateway: GatewayProcess, chat: int, reply: ReplyScript, code: str
) -> None:
    mind, gateway.model.mind = gateway.model.mind, lambda _: reply
    answer = (await gateway.answers_to(OWNER, "hi"))[-1]
    assert answer.startswith("⚠️ I could not answer: ")
    assert f"({code})" in answer
    assert "sk-other" not in answer
    assert "Traceback" not in answer
    # Other people do not learn the reason.
    (answer,) = await gateway.answers_to(chat, "hi")
    assert answer.startswith("⚠️ The model did not answer. ")
    assert code not in answer
    gateway.model.mind = mind
    assert (await gateway.answers_to(chat, "next"))[-1] == "echo: next"


async def test_temporary_model_failure_is_retried(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(refusal(503, "overloaded"), ReplyScript(breaks=Break("refuse")))
    assert await gateway.answers_to(chat, "hi") == ["echo: hi"]
    assert len(gateway.model.requests) == 3


async def test_permanent_model_failure_is_reported(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.mind = lambda body: refusal(500, "boom")
    answer = (await gateway.answers_to(OWNER, "hi"))[-1]
    assert "(unavailable)" in answer
    # Each attempt is followed by another without optional parts (ADR 0146).
    assert len(gateway.model.requests) == 6


async def test_call_from_a_truncated_stream_never_runs(gateway: GatewayProcess, chat: int) -> None:
    cut = Call("write_file", {"path": f"cut-{chat}.txt", "content": "x" * 50})
    gateway.model.script(ReplyScript(tool_calls=(cut,), pieces=6, breaks=Break("eof", after=4)))
    assert await gateway.answers_to(chat, "hi") == ["echo: hi"]
    assert not (gateway.workspace / f"cut-{chat}.txt").exists()


async def test_server_that_answers_with_html_is_polled_again(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.api.fail("getUpdates", status(502))
    await gateway.answers_to(chat, "one")
    assert await gateway.answers_to(chat, "two") == ["echo: one", "echo: two"]
