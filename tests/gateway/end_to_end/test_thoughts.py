"""A model's thoughts are stored with the session and sent back to it, in every situation."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.anthropic_wire import REDACTED, SIGNATURE
from tests.fakes.model_mind import echo
from tests.fakes.model_script import Call, ReplyScript, refusal
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess

LOOKED = Call("append_file", {"path": "log.txt", "content": "once\n"})


@pytest.fixture
def thinking(alone: GatewayProcess) -> GatewayProcess:
    """Return a gateway with two Anthropic models and an OpenAI model."""
    base = {"api_base": alone.model.base_url, "api_key": KEY}
    names = {"claude": "anthropic/claude-opus-5", "fable": "anthropic/claude-fable-5-1"}
    names["other"] = "openai/other"
    models = [{"model_name": name, "model": model, **base} for name, model in names.items()]
    alone.configure({"agent": {"model": "claude", "effort": "high"}})
    config = json.loads(alone.config.read_text())
    alone.config.write_text(json.dumps({**config, "model_list": models}))
    return alone


def thoughts(gateway: GatewayProcess, n: int = -1) -> tuple[int, int]:
    """Return the numbers of readable and of redacted thoughts in request `n`."""
    raw = gateway.model.requests[n].raw.decode()
    return raw.count(SIGNATURE), raw.count(REDACTED)


async def test_thinking_of_a_killed_turn_is_replayed_unchanged(
    thinking: GatewayProcess,
) -> None:
    await thinking.start()
    thinking.model.script(
        ReplyScript(reasoning="hm, ünïcode", text="I look.", tool_calls=(LOOKED,)),
        ReplyScript(text="x", latency_s=60.0),
    )
    await thinking.api.user_says(OWNER, "go")
    await thinking.until(lambda: len(thinking.model.requests) == 2)
    await thinking.kill()
    await thinking.start()
    await thinking.idle()
    assert thinking.api.answers(OWNER) == ["I look.\n\necho: go"]
    assert thoughts(thinking) == (1, 1)
    assert "hm, ünïcode" in thinking.model.requests[-1].raw.decode()
    assert thinking.model.requests[2].raw == thinking.model.requests[1].raw


async def test_thinking_survives_another_model_and_a_summary(thinking: GatewayProcess) -> None:
    async with thinking:
        for n in range(5):
            # Text by people is preserved verbatim; the model's text becomes a summary.
            text = f"answer {n} " + "x " * 1_500
            thinking.model.script(ReplyScript(reasoning=f"thought {n}", text=text))
            await thinking.answers_to(OWNER, f"question {n}")
        await thinking.answers_to(OWNER, "/model other")
        assert (await thinking.answers_to(OWNER, "and you?"))[-1] == "echo: and you?"
        assert thoughts(thinking) == (0, 0)
        await thinking.answers_to(OWNER, "/model claude")
        await thinking.answers_to(OWNER, "back")
        assert thoughts(thinking) == (5, 5)
        await thinking.answers_to(OWNER, "/compact")
        assert (await thinking.answers_to(OWNER, "still there?"))[-1] == "echo: still there?"
        # The last three rounds are unchanged; the other two thoughts went with their rounds.
        assert 0 < thoughts(thinking)[0] < 5


async def test_rejected_thinking_never_ends_a_conversation(
    thinking: GatewayProcess,
) -> None:
    def mind(body: Mapping[str, Any]) -> ReplyScript:
        if "fable" in body["model"] and thoughts(thinking) != (0, 0):
            return refusal(400, "messages.1.content.0: Invalid `signature` in `thinking` block")
        return echo(body)

    thinking.model.mind = mind
    async with thinking:
        thinking.model.script(ReplyScript(reasoning="hm", text="yes"))
        await thinking.answers_to(OWNER, "hi")
        await thinking.answers_to(OWNER, "/model fable")
        count = len(thinking.model.requests)
        for text in ("one", "two", "three"):
            assert (await thinking.answers_to(OWNER, text))[-1] == f"echo: {text}"
        # The request is rejected once; afterwards, thoughts are left out in advance.
        assert len(thinking.model.requests) - count == 4
