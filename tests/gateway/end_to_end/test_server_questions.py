"""Questions from MCP servers in a chat with the real program: buttons, a reply, and a kill."""

import sys
from pathlib import Path

import pytest

from tests import fakes
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import button, press, push, questions, wait_for_questions
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

pytest.importorskip("mcp", reason="needs the extra mcp")
SERVER = Path(fakes.__file__).with_name("mcp_server.py")
FIELDS = {
    "size": {"type": "string", "enum": ["small", "large"]},
    "password": {"type": "string"},
}
FORM = {
    "message": "What is it to be?",
    "requestedSchema": {
        "type": "object",
        "properties": FIELDS,
        "required": ["size", "password"],
    },
}
SECRET = "hunter2-7Qx9f3Zk"


def use_server(gateway: GatewayProcess) -> None:
    server = {"command": sys.executable, "args": ["-B", str(SERVER), "asks"], "allow": ["*"]}
    gateway.configure({"mcp_servers": {"shop": server}, "security": {"sandbox": "none"}})


async def test_form_is_answered_by_a_button_and_a_reply_across_a_kill(
    alone: GatewayProcess,
) -> None:
    use_server(alone)
    await alone.start()
    ask = ReplyScript(tool_calls=(Call("mcp__shop__ask", FORM),))
    alone.model.script(ask, ask, "Done.")
    await alone.api.user_says(OWNER, "buy it")
    (question,) = await wait_for_questions(alone)
    assert "the MCP server shop asks" in question.text
    data = button(question, "small")
    # Wait until the send is recorded; otherwise the question would be sent again.
    await alone.posted()
    await alone.kill()
    await alone.start()
    await alone.until(lambda: "Withdrawn: I was restarted" in alone.api.answers(OWNER)[0])
    # The model calls again, and the earlier answer does not apply to that call.
    (second,) = await wait_for_questions(alone)
    assert second.message_id != question.message_id
    assert "Too late" in await push(alone, question, data)
    assert [item.message_id for item in questions(alone)] == [second.message_id]
    await press(alone, second, "large")
    await alone.until(lambda: any("not the model" in item.text for item in questions(alone)))
    (third,) = questions(alone)
    await alone.api.user_says(OWNER, SECRET, reply_to=third.message_id)
    await alone.until(lambda: any("would be sent" in item.text for item in questions(alone)))
    (last,) = questions(alone)
    assert "size: large\npassword: ••••" in last.text
    await press(alone, last, "Send")
    await alone.until(lambda: alone.api.answers(OWNER)[-1] == "Done.")
    result = str(alone.model.requests[-1])
    assert "large" in result
    assert SECRET not in result
    assert SECRET not in "".join(item.text for item in alone.api.chat(OWNER) if item.from_bot)
