"""Questions of a worker's turn, which people answer at the front."""

import signal
import sys
from pathlib import Path

import pytest

from tests import fakes
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import (
    button,
    notes,
    press,
    push,
    questions,
    seed,
    wait_for_questions,
    write,
)
from tests.gateway.end_to_end.gateway_process import OWNER
from tests.gateway.workers.worker_group import WorkerGroup

pytestmark = pytest.mark.asyncio(loop_scope="module")
_SERVER = Path(fakes.__file__).with_name("mcp_server.py")
SECTIONS = {
    "mcp_servers": {
        "shop": {"command": sys.executable, "args": ["-B", str(_SERVER), "asks"], "allow": ["*"]}
    },
    "security": {"sandbox": "none"},
}
FORM = {
    "message": "What is it to be?",
    "requestedSchema": {
        "type": "object",
        "properties": {"size": {"type": "string", "enum": ["small", "large"]}},
        "required": ["size"],
    },
}


async def released(group: WorkerGroup) -> None:
    """Wait until the turn that waits for an answer has no worker."""

    async def is_free() -> bool:
        return bool(await group.rows("turn", "id", state="waiting", is_claimed=0, worker=None))

    await group.until(is_free)


async def test_other_worker_continues_after_approval(group: WorkerGroup) -> None:
    seed(group.front)
    group.model.script(ReplyScript(tool_calls=write("new\n"), waits_at=0), "Changed.")
    await group.api.user_says(OWNER, "change it")
    worker = await group.holder(OWNER)
    group.model.let_go()
    (question,) = await wait_for_questions(group.front)
    await released(group)
    worker.signal(signal.SIGTERM)
    assert await worker.exit_code() == 0
    assert notes(group.front) == "old\n"
    assert await press(group.front, question, "Allow once") == "✅ Allowed once."
    await group.idle()
    assert group.api.answers(OWNER)[-1] == "Changed."
    assert notes(group.front) == "new\n"
    assert not questions(group.front)
    assert len(group.model.requests) == 2
    await group.start_workers(worker)


async def test_deny_with_a_text_gives_the_model_the_reason(group: WorkerGroup) -> None:
    seed(group.front)
    group.model.script(ReplyScript(tool_calls=write("new\n")), "Well.")
    await group.api.user_says(OWNER, "change it")
    await wait_for_questions(group.front)
    await group.api.user_says(OWNER, "/deny notes.txt is mine")
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "Well.")
    await group.idle()
    assert not questions(group.front)
    assert "notes.txt is mine" in str(group.model.requests[-1].body["messages"])
    assert notes(group.front) == "old\n"


async def test_stop_withdraws_the_question_of_a_worker(group: WorkerGroup) -> None:
    seed(group.front)
    group.model.script(ReplyScript(tool_calls=write("new\n")))
    await group.api.user_says(OWNER, "change it")
    (question,) = await wait_for_questions(group.front)
    data = button(question, "Allow once")
    await group.api.user_says(OWNER, "/stop")
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "⏹ Stopped.")
    await group.idle()
    assert not questions(group.front)
    assert "Withdrawn" in await push(group.front, question, data)
    assert notes(group.front) == "old\n"


async def test_server_question_in_a_worker_is_answered_at_the_front(group: WorkerGroup) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    ask = ReplyScript(tool_calls=(Call("mcp__shop__ask", FORM),))
    group.model.script(ask, "Done.")
    await group.api.user_says(OWNER, "buy it")
    (question,) = await wait_for_questions(group.front)
    assert "the MCP server shop asks" in question.text
    await press(group.front, question, "large")
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "Done.")
    await group.idle()
    assert "large" in str(group.model.requests[-1].body["messages"][-1])

    # The answer has tainted the session, so that the next call would need approval.
    await group.answers_to(OWNER, "/new")
    # The worker dies: another worker repeats the call and asks again.
    group.model.script(ask, ask, "Done again.")
    await group.api.user_says(OWNER, "buy another")
    (question,) = await wait_for_questions(group.front)
    data = button(question, "small")
    worker = await group.holder(OWNER)
    await group.front.posted()
    await group.kill(worker)
    await group.front.until(
        lambda: [item for item in questions(group.front) if item.message_id != question.message_id]
    )
    (second,) = questions(group.front)
    assert "Too late" in await push(group.front, question, data)
    await press(group.front, second, "small")
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "Done again.")
    await group.start_workers(worker)
