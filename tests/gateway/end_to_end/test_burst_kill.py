"""Bursts of messages and kill -9: each message is answered once, together or separately."""

import re
from collections.abc import Callable, Mapping

import pytest

from tests.fakes.model_mind import worker
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess

CHAT = 7
_UNSURE = "↻ Full answer; an incomplete version may be above"
BURST = ("job 1", "job 2", "job 3 slow")


def _is_asked_for(alone: GatewayProcess, count: int) -> bool:
    """Return whether the model received exactly this number of burst messages in a request."""
    return any(
        sum(text in str(request.body["messages"]) for text in BURST) == count
        for request in alone.model.requests
    )


# Number of messages before the kill, and the condition that triggers it.
_MOMENTS: Mapping[str, tuple[int, Callable[[GatewayProcess], object]]] = {
    "handed out": (1, lambda alone: not alone.api.polling),
    "stored": (1, lambda alone: not alone.api.pending_updates),
    "asked": (1, lambda alone: _is_asked_for(alone, 1)),
    "all stored": (3, lambda alone: not alone.api.pending_updates),
    "two joined": (2, lambda alone: _is_asked_for(alone, 2)),
    "three joined": (3, lambda alone: _is_asked_for(alone, 3)),
    "shown in part": (3, lambda alone: alone.api.answers(CHAT)),
    "about to end": (
        3,
        lambda alone: alone.model.waiting and "editMessageText" in alone.methods(CHAT),
    ),
}


_SHORT = ("stored", "two joined", "about to end")


@pytest.mark.parametrize(
    "moment",
    [m if m in _SHORT else pytest.param(m, marks=pytest.mark.slow) for m in _MOMENTS],
)
async def test_kill_in_a_burst_loses_and_repeats_nothing(
    alone: GatewayProcess, moment: str
) -> None:
    count, has_come = _MOMENTS[moment]
    alone.configure({"telegram": {"queue": "join"}})
    jobs = worker(alone.workspace)

    def mind(body: Mapping[str, object]) -> ReplyScript:
        reply = jobs(body)
        if moment == "about to end" and "done 3" in reply.text:
            return ReplyScript(text=reply.text, pieces=8, chunk_delay_s=0.2, waits_at=8)
        return reply

    alone.model.mind = mind
    alone.model.latency_s = 0.3
    await alone.start()
    for n, text in enumerate(BURST[:count], 1):
        await alone.api.user_says(CHAT, text)
        if n < count and "stored" not in moment:
            await alone.until(lambda n=n: _is_asked_for(alone, n))  # type: ignore[misc]
    await alone.until(lambda: has_come(alone))
    await alone.kill()
    for text in BURST[count:]:
        await alone.api.user_says(CHAT, text)
    alone.model.mind = jobs
    await alone.start()
    await alone.idle()
    answers = alone.api.answers(CHAT)
    if moment == "shown in part" and _UNSURE in answers[-1]:
        # The kill came before the gateway received the id of its first message.
        del answers[-2]
    done = [n for answer in answers for n in re.findall(r"done (\d)", answer)]
    assert sorted(done) == ["1", "2", "3"], answers
