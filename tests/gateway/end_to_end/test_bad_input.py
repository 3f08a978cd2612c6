"""Nonsense from Telegram and from the model: one sentence where it belongs, and on it goes."""

import json

import pytest

from tests.fakes.faults import reset, status
from tests.fakes.model_script import Break, Call, Dialect, ReplyScript, refusal
from tests.gateway.end_to_end.gateway_process import GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


def update(chat: int, text: str, message_id: int = 900) -> str:
    """A message as raw JSON; `text` stands in it verbatim."""
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


async def test_a_broken_update_among_good_ones_is_left_out(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.api.fail("getUpdates", reset)
    await gateway.api.user_says(chat, "one")
    await gateway.api.user_says(0, "", raw={"message": {"message_id": "?", "chat": 5}})
    await gateway.api.user_says(0, "", raw={"message": None})
    await gateway.api.user_says(0, "", raw={"some_future_kind": {"x": 1}})
    assert await gateway.told(chat, "two") == ["echo: one", "echo: two"]


async def test_an_update_that_is_no_json_does_not_block_the_rest(
    gateway: GatewayProcess, chat: int
) -> None:
    await gateway.api.user_says(0, "", raw='{"update_id": UPDATE_ID, "message": {"text": "\\x"}}')
    assert await gateway.told(chat, "after") == ["echo: after"]


async def test_lone_surrogates_are_made_safe(gateway: GatewayProcess, chat: int) -> None:
    await gateway.api.user_says(0, "", raw=update(chat, "a\\ud83d b"))
    await gateway.idle()
    (answer,) = gateway.api.answers(chat)
    assert answer.startswith("echo: a")
    assert answer.endswith(" b")


async def test_bytes_that_are_no_utf8_are_made_safe(gateway: GatewayProcess, chat: int) -> None:
    await gateway.api.user_says(
        0, "", raw=update(chat, "a@b").encode().replace(b"a@b", b"a\xff\xfeb")
    )
    await gateway.idle()
    (answer,) = gateway.api.answers(chat)
    assert answer.startswith("echo: a")


async def test_a_huge_update_is_left_out_and_the_rest_goes_on(
    gateway: GatewayProcess, chat: int
) -> None:
    await gateway.api.user_says(chat, "before")
    await gateway.api.user_says(0, "", raw=update(chat, "x" * 30_000_000))
    assert await gateway.told(chat, "after") == ["echo: before", "echo: after"]
    assert "is left out" in gateway.written()


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
async def test_whatever_the_model_says_gets_one_answer(
    gateway: GatewayProcess, chat: int, reply: ReplyScript
) -> None:
    gateway.model.script(reply)
    (answer,) = await gateway.told(chat, "hi")
    assert answer.strip()
    assert (await gateway.told(chat, "next"))[-1] == "echo: next"


async def test_an_unknown_tool_is_something_the_model_can_mend(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.model.script(ReplyScript(tool_calls=(Call("fly", {"to": "moon"}),)), "I cannot fly.")
    assert await gateway.told(chat, "fly") == ["I cannot fly."]
    told = gateway.model.requests[-1].body["messages"][-1]
    assert told["role"] == "tool"
    assert "fly" in told["content"]


@pytest.mark.parametrize("arguments", [{"pth": "x"}, {"path": 5}, "{not json", "[]", ""], ids=str)
async def test_wrong_arguments_are_something_the_model_can_mend(
    gateway: GatewayProcess, chat: int, arguments: object
) -> None:
    call = Call("read_file", arguments)  # type: ignore[arg-type]
    gateway.model.script(ReplyScript(tool_calls=(call,)), "Mended.")
    assert await gateway.told(chat, "read") == ["Mended."]
    told = gateway.model.requests[-1].body["messages"][-1]
    assert told["role"] == "tool"
    assert told["content"]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (refusal(401, "Incorrect API key provided: sk-other-12345678"), "key-refused"),
        (refusal(404, "The model does not exist"), "rejected"),
        (refusal(400, "nonsense"), "rejected"),
    ],
    ids=["401", "404", "400"],
)
async def test_a_refusal_is_one_sentence_with_a_code(
    gateway: GatewayProcess, chat: int, reply: ReplyScript, code: str
) -> None:
    gateway.model.script(reply)
    (answer,) = await gateway.told(chat, "hi")
    assert answer.startswith("⚠️ I could not answer: ")
    assert f"({code})" in answer
    assert "sk-other" not in answer
    assert "Traceback" not in answer
    assert (await gateway.told(chat, "next"))[-1] == "echo: next"


async def test_a_model_with_trouble_is_asked_again(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(refusal(503, "overloaded"), ReplyScript(breaks=Break("refuse")))
    assert await gateway.told(chat, "hi") == ["echo: hi"]
    assert len(gateway.model.requests) == 3


async def test_a_model_that_stays_in_trouble_is_told(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.mind = lambda body: refusal(500, "boom")
    (answer,) = await gateway.told(chat, "hi")
    assert "(unavailable)" in answer
    assert len(gateway.model.requests) == 3


async def test_a_call_from_a_cut_stream_never_runs(gateway: GatewayProcess, chat: int) -> None:
    cut = Call("write_file", {"path": f"cut-{chat}.txt", "content": "x" * 50})
    gateway.model.script(ReplyScript(tool_calls=(cut,), pieces=6, breaks=Break("eof", after=4)))
    assert await gateway.told(chat, "hi") == ["echo: hi"]
    assert not (gateway.workspace / f"cut-{chat}.txt").exists()


async def test_a_server_that_answers_in_html_is_polled_again(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.api.fail("getUpdates", status(502))
    await gateway.told(chat, "one")
    assert await gateway.told(chat, "two") == ["echo: one", "echo: two"]
