"""Hooks of a running gateway, including through a kill."""

import os

from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.asking import (
    NOTES,
    button,
    notes,
    push,
    seed,
    wait_for_questions,
    write,
)
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.processes import runs

_MARK = f"hook-that-waits-{os.getpid()}"
_STOP = f"""
grep -q '"stop_hook_active": true' && exit 0
: {_MARK}
while [ ! -e go ]; do sleep 0.05; done
echo look at it once more >&2
exit 2
"""


async def test_kill_during_a_hook_repeats_nothing(alone: GatewayProcess) -> None:
    seed(alone)
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": _STOP}]}]}
    alone.configure({"hooks": hooks})
    await alone.start()
    alone.model.script(ReplyScript(tool_calls=write("new\n")), "Done.", "Done.", "Still fine.")
    await alone.api.user_says(OWNER, "change it")
    (question,) = await wait_for_questions(alone)
    await push(alone, question, button(question, "Allow once"))
    assert await runs(_MARK)
    assert notes(alone) == "new\n"
    await alone.kill()
    (alone.workspace / NOTES).write_text("mine\n")
    (alone.workspace / "go").touch()
    await alone.start()
    await alone.until(lambda: alone.api.answers(OWNER)[-1].endswith("Still fine."))
    await alone.idle()
    assert notes(alone) == "mine\n"
    assert len(alone.model.requests) == 4
    assert sum("Still fine." in text for text in alone.api.answers(OWNER)) == 1
    assert "look at it once more" in str(alone.model.requests[-1])
