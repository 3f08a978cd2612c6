"""Commands in a chat, and edits of messages."""

import shutil
from dataclasses import replace

import pytest

from gateway.control.client import ControlClient
from gateway.core.messages import InboundMessage, MessageOptions, Sender
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.processes import lasting_command, processes

pytestmark = pytest.mark.asyncio(loop_scope="module")
TEXT = "One two three four five six seven eight nine ten eleven twelve."
# Longer than any test waits.
ENDLESS = ReplyScript(text=TEXT * 20, pieces=400, chunk_delay_s=0.2)


async def test_stop_keeps_the_streamed_text(gateway: GatewayProcess, chat: int) -> None:
    abandoned = gateway.model.abandoned
    gateway.model.script(ENDLESS)
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: gateway.api.answers(chat))
    await gateway.api.user_says(chat, "/stop")
    # The stream is cut, not awaited.
    await gateway.until(lambda: gateway.model.abandoned > abandoned)
    await gateway.idle()
    (answer,) = gateway.api.answers(chat)
    assert answer.startswith("One two")
    assert answer.endswith("⏹ Stopped.")
    assert await gateway.answers_to(chat, "next") == [answer, "echo: next"]


async def test_stop_before_the_first_word(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(ReplyScript(text="late", latency_s=60.0))
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: gateway.model.requests)
    assert await gateway.answers_to(chat, "/stop") == ["⏹ Stopped."]
    assert await gateway.answers_to(chat, "next") == ["⏹ Stopped.", "echo: next"]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_stop_ends_a_running_tool_and_its_process(gateway: GatewayProcess) -> None:
    # Only the terminal may run commands; its messages arrive through the control socket.
    command = lasting_command()
    sleep = Call("exec", {"command": f"exec {command}"})
    gateway.model.script(ReplyScript(tool_calls=(sleep,)))
    client = await ControlClient.connect(gateway.home / "kore.sock")
    assert client is not None
    message = InboundMessage(
        *("cli", "local", "stopped", Sender("0")),
        "event-1",
        "go",
        0.0,
        options=MessageOptions(auto=True),
    )
    async with client.watch(message.session_key):
        await client.submit(message)
        await gateway.until(lambda: processes(command))
        assert await client.stop_turn(message.session_key)
        await gateway.until(lambda: not processes(command))
        await gateway.idle()
    later = replace(message, event_id="event-2", content="next")
    async with client.watch(message.session_key):
        await client.submit(later)
        await gateway.idle()
    messages = gateway.model.requests[-1].body["messages"]
    assert [m["role"] for m in messages[1:]] == ["user", "assistant", "tool", "assistant", "user"]
    assert "unknown" in messages[3]["content"]


async def test_stop_without_a_turn_is_answered(gateway: GatewayProcess, chat: int) -> None:
    assert await gateway.answers_to(chat, "/stop") == ["Nothing is running."]


async def test_new_begins_an_empty_conversation(gateway: GatewayProcess, chat: int) -> None:
    await gateway.answers_to(chat, "first")
    answers = await gateway.answers_to(chat, "/new")
    assert "New conversation" in answers[-1]
    await gateway.answers_to(chat, "second")
    texts = [
        m["content"] for m in gateway.model.requests[-1].body["messages"] if m["role"] != "system"
    ]
    assert len(texts) == 1
    assert texts[0].startswith("second")


async def test_new_takes_its_place_in_the_queue(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.latency_s = 0.2
    for text in ("first", "/new", "second"):
        await gateway.api.user_says(chat, text)
    await gateway.idle()
    first, new, second = gateway.api.answers(chat)
    assert (first, second) == ("echo: first", "echo: second")
    assert "New conversation" in new
    assert "first" not in str(gateway.model.requests[-1].body["messages"][1:])


async def test_status_shows_strangers_less_than_the_owner(
    gateway: GatewayProcess, chat: int
) -> None:
    (stranger,) = await gateway.answers_to(chat, "/status")
    assert "Model: stand-in (openai/fake)" in stranger
    assert "polling" not in stranger
    owner = (await gateway.answers_to(OWNER, "/status"))[-1]
    assert "polling" in owner


async def test_selected_model_is_used(gateway: GatewayProcess, chat: int) -> None:
    assert "other" in (await gateway.answers_to(chat, "/model other"))[-1]
    await gateway.answers_to(chat, "hi")
    assert gateway.model.requests[-1].body["model"] == "other"
    assert "other" in (await gateway.answers_to(chat, "/model"))[-1]
    await gateway.answers_to(chat, "/new")
    await gateway.answers_to(chat, "hi")
    assert gateway.model.requests[-1].body["model"] == "fake"


async def test_effort_is_set_per_conversation(gateway: GatewayProcess, chat: int) -> None:
    async def effort() -> object:
        await gateway.answers_to(chat, "hi")
        return gateway.model.requests[-1].body.get("reasoning_effort")

    assert await effort() is None
    assert ": high." in (await gateway.answers_to(chat, "/effort HIGH"))[-1]
    assert await effort() == "high"
    assert "accepts" in (await gateway.answers_to(chat, "/effort a lot"))[-1]
    assert "model default" in (await gateway.answers_to(chat, "/effort default"))[-1]
    assert await effort() is None
    assert ": low." in (await gateway.answers_to(chat, "/effort low"))[-1]
    await gateway.answers_to(chat, "/new")
    assert "model default" in (await gateway.answers_to(chat, "/effort"))[-1]
    assert "hidden" in (await gateway.answers_to(chat, "/thinking hide"))[-1]
    assert "/effort sets" in (await gateway.answers_to(chat, "/thinking on"))[-1]
    assert "hidden" in (await gateway.answers_to(chat, "/thinking"))[-1]


async def test_hidden_thinking_is_not_shown(gateway: GatewayProcess) -> None:
    client = await ControlClient.connect(gateway.home / "kore.sock")
    assert client is not None
    first = InboundMessage(*("cli", "local", "thinks", Sender("0")), "think-1", "hi", 0.0)
    gateway.model.script(*(ReplyScript(reasoning="hm", text=f"Yes {n}") for n in range(2)))

    async def events_after(message: InboundMessage) -> list[str]:
        seen: list[str] = []
        async with client.watch(message.session_key) as watched:
            await client.submit(message)
            async for event in watched:
                seen.append(event.type)
                if event.type == "done":
                    break
            await gateway.idle()
        return seen

    assert "thinking_end" in await events_after(first)
    async with client.watch(first.session_key) as watched:
        await client.submit(replace(first, event_id="think-2", content="/thinking hide"))
        await anext(watched)
        await gateway.idle()
    seen = await events_after(replace(first, event_id="think-3"))
    assert "text_delta" in seen
    assert not {"thinking_delta", "thinking_end"} & set(seen)


async def test_unknown_model_changes_nothing(gateway: GatewayProcess) -> None:
    answer = (await gateway.answers_to(OWNER, "/model nonsense"))[-1]
    assert "nonsense" in answer
    assert "Still using stand-in" in answer
    assert (await gateway.answers_to(OWNER, "hi"))[-1] == "echo: hi"


async def test_help_and_start_need_no_model(gateway: GatewayProcess, chat: int) -> None:
    (help_,) = await gateway.answers_to(chat, "/help")
    assert all(f"/{name}" in help_ for name in ("new", "status", "model", "stop"))
    assert "/help" in (await gateway.answers_to(chat, "/start"))[-1]
    assert gateway.model.requests == []


async def test_unknown_command_calls_no_model(gateway: GatewayProcess, chat: int) -> None:
    (answer,) = await gateway.answers_to(chat, "/frobnicate")
    assert answer == "Unknown command /frobnicate. /help lists the commands."
    assert gateway.model.requests == []


async def test_edit_replaces_a_waiting_message(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(ReplyScript(text="first", waits_at=0))
    await gateway.api.user_says(chat, "one")
    await gateway.until(lambda: gateway.model.waiting)
    waiting = await gateway.api.user_says(chat, "tow")
    await gateway.api.user_says(chat, "two", edit_of=waiting.message_id)
    await gateway.until(lambda: not gateway.api.pending_updates)
    gateway.model.let_go()
    await gateway.idle()
    assert gateway.api.answers(chat) == ["first", "echo: two"]
    assert "tow" not in str(gateway.model.requests[-1].body)


async def test_edit_of_an_answered_message_is_answered(gateway: GatewayProcess, chat: int) -> None:
    message = await gateway.api.user_says(chat, "one")
    await gateway.idle()
    answers = await gateway.answers_to(chat, "two", edit_of=message.message_id)
    assert answers == ["echo: one", "echo: two"]


async def test_edit_without_a_change_is_not_answered(gateway: GatewayProcess, chat: int) -> None:
    message = await gateway.api.user_says(chat, "one")
    await gateway.idle()
    assert await gateway.answers_to(chat, "one", edit_of=message.message_id) == ["echo: one"]
