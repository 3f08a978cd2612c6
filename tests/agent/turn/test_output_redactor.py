"""Redaction of secrets in replies of models and in results of tools."""

import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agent import events
from agent.agent import Agent
from agent.approvals import Answer, ApprovalRequest
from agent.errors import Rejected
from agent.events import ModelEvent
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.engine import DefaultPolicy
from agent.security.redaction import MARK, Redactor
from agent.settings import AgentSettings
from agent.tools.base import ToolEnvironment
from agent.tools.output_spill import spill_folder
from agent.tools.runner import Permissions
from agent.turn.output_redactor import OutputRedactor, clean_message
from agent.turn.request import TurnRequest
from agent.turn.runner import AgentTurn
from agent.types import Image, Message, RedactedThinking, Text, Thinking, ToolCall, assistant, user
from tests.agent.props import call

KEY = "sk-canary-0123456789-secret"
SETTINGS = AgentSettings(secrets=frozenset({KEY}))


class Consent:
    """A person who approves everything."""

    async def ask(self, request: ApprovalRequest) -> Answer:
        assert KEY not in repr(request)
        return "once"


ANYTHING = Permissions(DefaultPolicy("auto"), Consent())


def _scripted(replies: list[Any], workspace: Path) -> tuple[Agent, ScriptedProvider]:
    model = ScriptedProvider(
        [assistant("", (r,)) if isinstance(r, ToolCall) else r for r in replies]
    )
    return Agent(model, workspace=workspace, settings=SETTINGS, approve=ANYTHING), model


async def _turn_events(agent: Agent) -> list[events.Event]:
    async with aclosing(agent.stream("go on")) as stream:
        return [event async for event in stream]


def _pieces(text: str, chance: random.Random) -> list[str]:
    cuts = sorted(chance.sample(range(1, len(text)), 5))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def test_key_split_over_deltas_is_redacted_in_each_kind() -> None:
    chance = random.Random(3)
    for _ in range(100):
        spoken = OutputRedactor(Redactor([KEY]))
        result: list[ModelEvent] = []
        text = f"it is {KEY}, you know"
        for piece in _pieces(text, chance):
            result += spoken.clean(events.ThinkingDelta(piece, len(piece)))
            result += spoken.clean(events.TextDelta(piece))
            result += spoken.clean(events.ToolCallDelta("c1", "exec", piece))
        message = Message("assistant", (Thinking(text, "signed"), Text(text)))
        result += spoken.clean(events.ThinkingEnd(text))
        result += spoken.clean(events.Reply(message, None, "stop"))
        shown = "".join(e.text for e in result if isinstance(e, events.TextDelta))
        assert shown == f"it is {MARK}, you know"
        whole = repr([e for e in result if not isinstance(e, events.Reply)])
        assert KEY not in whole
        assert KEY[:12] not in whole


def test_clean_message_is_the_same_object() -> None:
    redactor = Redactor([KEY])
    message = assistant("fine", (ToolCall("1", "exec", {"command": "ls"}, '{"command": "ls"}'),))
    assert clean_message(message, redactor) is message
    changed = clean_message(Message("assistant", (Thinking(KEY, "signed"),)), redactor)
    assert changed.content == (Thinking(MARK),)
    quoted = Thinking("", f'{{"reasoning_details": [{{"text": "{KEY}"}}]}}')
    assert clean_message(Message("assistant", (quoted,)), redactor).content == (Thinking(""),)


def test_non_text_parts_are_unchanged() -> None:
    redactor = Redactor([KEY])
    results = (RedactedThinking("Zm9v"), Image("image/png", KEY.encode()))
    cleaned = clean_message(Message("assistant", (*results, Text(KEY))), redactor)
    assert cleaned.content == (*results, Text(MARK))


async def test_key_repeated_by_the_model_is_redacted(tmp_path: Path) -> None:
    reply = Message("assistant", (Thinking(f"hm {KEY}"), Text(f"my key: {KEY} !")))
    agent, _ = _scripted([reply, "second"], tmp_path)
    seen = await _turn_events(agent)
    done = seen[-1]
    assert isinstance(done, events.Done)
    assert done.result.text == f"my key: {MARK} !"
    assert KEY not in repr(seen)


@pytest.mark.parametrize("spelled", [KEY, quote(KEY, safe=""), KEY.encode().hex()])
async def test_call_with_a_secret_is_rejected(tmp_path: Path, spelled: str) -> None:
    wanted = call("write_file", path="a.txt", content=f"key={spelled}")
    agent, model = _scripted([wanted, "done"], tmp_path)
    seen = await _turn_events(agent)
    assert not (tmp_path / "a.txt").exists()
    (result,) = [event for event in seen if isinstance(event, events.ToolResulted)]
    assert result.is_error
    assert "no tool may receive it" in result.content
    assert spelled not in repr(seen) + repr(model.requests)


async def test_call_from_before_a_restart_is_rejected(tmp_path: Path) -> None:
    stored = [user("go"), assistant("", (call("write_file", path="a.txt", content=KEY),))]
    agent, _ = _scripted(["done"], tmp_path)
    request = TurnRequest(ToolEnvironment("s", tmp_path, tmp_path), stored, ANYTHING)
    seen = [event async for event in AgentTurn(agent, request).events()]
    (result,) = [event for event in seen if isinstance(event, events.ToolResulted)]
    assert "no tool may receive it" in result.content
    assert not (tmp_path / "a.txt").exists()


async def test_call_with_a_redaction_mark_is_rejected_and_the_file_unchanged(
    tmp_path: Path,
) -> None:
    file = tmp_path / "app.env"
    file.write_text(f"KEY={KEY}\nDEBUG=0\n")
    steps = [
        call("read_file", path="app.env"),
        call("write_file", path="app.env", content=f"KEY={MARK}\nDEBUG=1\n"),
        call("edit_file", path="app.env", old_string="DEBUG=0", new_string="DEBUG=1"),
        "done",
    ]
    agent, model = _scripted(steps, tmp_path)
    await _turn_events(agent)
    read, refused = model.requests[1].messages[-1], model.requests[2].messages[-1]
    assert f"KEY={MARK}" in read.text
    assert refused.is_error
    assert "marks a place where Kore hides a secret" in refused.text
    assert file.read_text() == f"KEY={KEY}\nDEBUG=1\n"


def test_redaction_mark_is_not_a_shell_pattern(tmp_path: Path) -> None:
    (tmp_path / "project").touch()
    for shell in ("sh", "bash"):
        done = subprocess.run([shell, "-c", f"echo {MARK}"], cwd=tmp_path, capture_output=True)
        assert done.stdout.decode() == f"{MARK}\n"


async def test_secrets_in_tool_output_are_redacted_everywhere(tmp_path: Path) -> None:
    (tmp_path / "leak.txt").write_text(f"a {KEY} b\n")
    (tmp_path / "IDENTITY.md").write_text(f"You are {KEY}.")
    many = 'yes "$(cat leak.txt)" | head -n 3000'
    steps = [
        call("exec", command="cat leak.txt; base64 -w0 leak.txt; xxd -p -c99 leak.txt || true"),
        call("exec", command=many),
        call("read_file", path="leak.txt"),
        call("edit_file", path="leak.txt", old_string=" b", new_string=" c"),
        call("read_file", path=f"{KEY}.txt"),
        "done",
    ]
    agent, model = _scripted(steps, tmp_path)
    seen = await _turn_events(agent)
    assert len(model.requests) == len(steps)
    (spilled,) = spill_folder(tmp_path).glob("*.txt")
    assert spilled.read_text().count(f"a {MARK} b") == 3000
    everything = repr(seen) + repr(model.requests) + spilled.read_text()
    for form in Redactor([KEY]).forms:
        assert form not in everything


async def test_error_with_the_key_is_redacted(tmp_path: Path) -> None:
    error = Rejected(f"401 at https://host/{KEY}", hint=f"look at {KEY}")
    agent, _ = _scripted([error], tmp_path)
    seen = await _turn_events(agent)
    (result,) = [event for event in seen if isinstance(event, events.Error)]
    assert (result.message, result.hint) == (f"401 at https://host/{MARK}", f"look at {MARK}")


async def test_key_of_the_agent_is_redacted_by_default(tmp_path: Path) -> None:
    known = [ModelConfig("m", "openai/x", api_base="http://127.0.0.1:9/v1", api_key=KEY)]
    agent = Agent(ModelPool("m", known), workspace=tmp_path)
    assert agent.redactor.clean(f"<{KEY}>") == f"<{MARK}>"
    environ = {"OPENAI_API_KEY": KEY}
    assert Redactor(ModelPool.of("openai/gpt-5", environ).keys()).clean(KEY) == MARK
    assert not Redactor(
        ModelPool("ollama/x", [ModelConfig("o", "ollama/x", api_key="ollama")]).keys()
    )


class Slow:
    """A provider that streams its text in single characters."""

    name = "slow"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for character in f"my key is {KEY}":
            yield events.TextDelta(character)
        yield events.Reply(assistant(f"my key is {KEY}"), None, "stop")

    async def aclose(self) -> None:
        """Do nothing."""


async def test_key_streamed_in_single_characters_is_redacted(tmp_path: Path) -> None:
    seen: list[Any] = await _turn_events(Agent(Slow(), workspace=tmp_path, settings=SETTINGS))
    shown = "".join(event.text for event in seen if isinstance(event, events.TextDelta))
    assert shown == f"my key is {MARK}"
