"""Audit trail and costs of a running gateway, including after a kill."""

import json
from typing import Any

from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess


def usage(tokens: int) -> dict[str, Any]:
    return {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}


def price_settings(model: ModelServer, **limits: float) -> dict[str, Any]:
    """Return settings in which a million tokens cost a dollar."""
    entry = {
        "model_name": "stand-in",
        "model": "openai/fake",
        "api_base": model.base_url,
        "api_key": KEY,
        "price_input_usd": 1,
        "price_output_usd": 1,
    }
    return {"model_list": [entry], "limits": limits}


def configure(gateway: GatewayProcess, sections: dict[str, Any]) -> None:
    config = json.loads(gateway.config.read_text())
    gateway.config.write_text(json.dumps(config | sections))


async def test_audit_log_has_every_decision_after_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    write = Call("write_file", {"path": "new.txt", "content": f"the key is {KEY}"})
    # The call is refused because of its secret.
    run = Call("exec", {"command": "touch x; echo hi"})
    alone.model.script(ReplyScript(tool_calls=(write, run)), "Done.")
    assert await alone.answers_to(7, "go") == ["Done."]
    await alone.kill()
    await alone.start()
    alone.model.script(ReplyScript(tool_calls=(Call("read_file", {"path": "new.txt"}),)), "Read.")
    await alone.answers_to(7, "read it")
    ran = await alone.kore("audit", "search", "--json")
    first, second, third = map(json.loads, ran.out.splitlines())
    assert (first["tool"], first["allowed"], first["role"]) == ("write_file", False, "general")
    assert "the key is" not in ran.out
    assert (second["tool"], second["params"]["command"]) == ("exec", "touch x; echo hi")
    assert third["tool"] == "read_file"
    verified = json.loads((await alone.kore("audit", "verify", "--json")).out)
    assert (verified["ok"], verified["entries"]) == (True, 3)
    assert alone.home.joinpath("audit/audit.jsonl").stat().st_mode & 0o777 == 0o600


async def test_daily_limit_applies_in_telegram_and_in_the_terminal(
    alone: GatewayProcess,
) -> None:
    configure(alone, price_settings(alone.model, cost_per_day_usd=0.25))
    await alone.start()
    alone.model.script(
        ReplyScript(text="hi", usage=usage(1_000)), ReplyScript(text="one", usage=usage(249_500))
    )
    assert await alone.answers_to(OWNER, "hello") == ["hi"]
    await alone.answers_to(7, "a")
    answers = await alone.answers_to(7, "b")
    assert "one" in answers
    assert "the limit of $0.2500 for all chats today is reached" in answers[-1]
    assert "`limits" not in " ".join(answers)
    assert "is reached" in alone.api.answers(OWNER)[-1]
    ran = await alone.kore("agent", "-m", "c", "--output-format", "json")
    document = json.loads(ran.out)
    assert (ran.code, document["stopped"], document["cost_usd"]) == (5, "limit", 0.0)
    assert "for all chats today is reached" in document["text"]
    status = json.loads((await alone.kore("status", "--json")).out)
    assert status["spent_today"]["cost_usd"] == 0.2505
    assert "All chats today: $0.2505" in (await alone.answers_to(OWNER, "/cost"))[-1]
    assert len(alone.model.requests) == 2


async def test_run_may_have_a_limit(alone: GatewayProcess) -> None:
    configure(alone, price_settings(alone.model))
    call = Call("list_dir", {})
    alone.model.script(ReplyScript(tool_calls=(call,), usage=usage(200_000)), "never")
    ran = await alone.kore("agent", "--max-cost", "0.10", "-m", "look")
    assert ran.code == 5
    assert "the limit of $0.1000 for one message is reached" in ran.out
    assert "$0.2000 of $0.1000" in ran.err
    alone.model.forget_script()
    events = await alone.kore("agent", "-m", "hi", "--output-format", "stream-json")
    (report,) = [
        line for line in map(json.loads, events.out.splitlines()) if line["type"] == "usage"
    ]
    assert report["cost_usd"] == report["session_cost_usd"] > 0
    assert (await alone.kore("agent", "--max-cost", "much", "-m", "x")).code == 2


async def test_unenforceable_limit_is_reported(alone: GatewayProcess) -> None:
    configure(alone, {"limits": {"cost_per_day_usd": 1}})
    await alone.start()
    assert "price of openai/fake is unknown" in alone.log_text()
    checks = json.loads((await alone.kore("doctor", "--json")).out)["checks"]
    (limits,) = [check for check in checks if check["name"] == "limits"]
    assert limits["state"] == "warn"
    assert "price_input_usd" in limits["fix"]
    await alone.answers_to(7, "hi")
    assert "cost unknown" in (await alone.answers_to(7, "/cost"))[-1]
