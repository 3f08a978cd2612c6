"""Questions of MCP servers during a call: the people who answer, and the values that the server
receives.
"""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.mcp.settings import McpServerSettings
from agent.providers.scripted import ScriptedProvider
from agent.security.redaction import MARK
from agent.text.visible import escape_invisible
from agent.tools.elicitation import Elicitation, FormField, looks_secret
from agent.types import assistant
from gateway.config.schema import Settings
from gateway.config.servers import mcp_settings
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import OutboundFile, OutboundPart, Sender
from gateway.core.question_view import buttons_of
from tests import fakes
from tests.fakes.platform import Platform
from tests.gateway.parts import (
    Parts,
    accept_messages,
    chat_message,
    console_message,
    load_history,
    running,
    tool_call,
)
from tests.postgres_server import only_sqlite

pytest.importorskip("mcp", reason="needs the extra mcp")
SERVER = Path(fakes.__file__).with_name("mcp_server.py")
OWNER = "chat:7"
CITY = {"type": "string", "title": "City"}
COLOUR = {"type": "string", "title": "Colour", "enum": ["red", "blue"], "default": "blue"}


class Asking(Platform):
    """Platform with buttons."""

    def render_approval(self, question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
        assert question.request.server_question is not None
        buttons = buttons_of(question.nonce, question.request.server_question)
        return OutboundPart(
            decided or question.request.server_question.text, (), () if decided else buttons
        )

    def render_details(self, question: ApprovalPrompt) -> OutboundFile | None:
        return None

    async def acknowledge(self, event_id: str, sentence: str) -> None:
        self.calls.append(("told", "", sentence))
        self._wake_waiting()


def form(message: str, required: tuple[str, ...] = (), **fields: object) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"message": message, "requestedSchema": schema}


def model_that_asks(question: Mapping[str, Any]) -> ScriptedProvider:
    return ScriptedProvider([assistant("", (tool_call("1", "mcp__s__ask", **question),)), "done"])


def use_server(parts: Parts, folder: Path, **settings: Any) -> None:
    """Configure a single MCP server that asks questions, with the settings of the real program."""
    command = (sys.executable, ("-B", str(SERVER), "asks"))
    server = McpServerSettings("s", *command, allow=("*",), **settings)
    real = mcp_settings(Settings(), folder / "mcp")
    parts.agent._mcp_settings = replace(real, servers=(server,))
    parts.agent._toolbox = None


async def open_question(parts: Parts, number: int = 1) -> ApprovalPrompt:
    await parts.until_stored("approval", state="open", id=number)
    (result,) = await parts.service.list_approvals()
    return result


async def hear(parts: Parts) -> Any:
    """Return the values that the server received, once the turn is over."""
    await parts.platform.until(lambda: "done" in parts.platform.texts("1"))
    *_, result = [item for item in await load_history(parts) if item.role == "tool"]
    return json.loads(result.text)


async def press(parts: Parts, question: ApprovalPrompt, label: str, who: str = "7") -> None:
    assert question.request.server_question is not None
    buttons = {
        item.label: item.data
        for item in buttons_of(question.nonce, question.request.server_question)
    }
    more: dict[str, Any] = {"kind": "button", "sender": Sender(who, "Ann")}
    await accept_messages(parts, chat_message(buttons[label], **more))


async def reply(parts: Parts, text: str) -> None:
    """Reply to the newest message in the chat."""
    shown = parts.platform.chats["1"][-1]
    await accept_messages(parts, chat_message(text, quoted_id=shown.id))


async def question_in_chat(parts: Parts, number: int = 1) -> ApprovalPrompt:
    """Return the open question, once the chat shows it."""
    question = await open_question(parts, number)
    assert question.request.server_question is not None
    text = question.request.server_question.text
    await parts.platform.until(lambda: text in parts.platform.texts("1"))
    await parts.until_stored("outbox", state="sent", delivery_id=f"q{number}")
    return question


async def test_form_is_completed_field_by_field(tmp_path: Path) -> None:
    question = form("Where to?", ("city", "express"), city=CITY, express={"type": "boolean"})
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go"))
        await question_in_chat(p)
        await reply(p, "Turin")
        await press(p, await question_in_chat(p, 2), "Yes")
        last = await question_in_chat(p, 3)
        assert last.request.server_question is not None
        assert "City: Turin\nexpress: Yes" in last.request.server_question.text
        # Nothing has been sent yet.
        assert await p.stored("turn", "state") == [("running",)]
        await press(p, last, "Send")
        result = {"city": "Turin", "express": True}
        assert await hear(p) == {"action": "accept", "content": result}


async def test_single_choice_is_answered_by_a_button(tmp_path: Path) -> None:
    question = form("Which?", colour=COLOUR)
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go"))
        query = await question_in_chat(p)
        await press(p, query, "red", who="8")
        assert await p.stored("approval", "state") == [("open",)]
        await press(p, query, "red")
        assert await hear(p) == {"action": "accept", "content": {"colour": "red"}}
        assert p.platform.texts("1")[0] == "✅ Answered by Ann (chat:7)"


async def test_invalid_answer_is_requested_again(tmp_path: Path) -> None:
    question = form("How many?", ("n",), n={"type": "integer", "minimum": 1, "maximum": 5})
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go"))
        await question_in_chat(p)
        await reply(p, "many")
        again = await question_in_chat(p, 2)
        assert again.request.server_question is not None
        assert "many is not a number from 1 to 5." in again.request.server_question.text
        await reply(p, "3")
        assert await hear(p) == {"action": "accept", "content": {"n": 3}}


async def test_password_is_requested_for_the_named_server_and_not_stored(
    tmp_path: Path,
) -> None:
    question = form("Log in", ("password",), password={"type": "string"})
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go", private=True))
        query = await question_in_chat(p)
        assert query.request.server_question is not None
        assert query.request.server_question.is_secret
        assert "The MCP server s asks for it, not the model" in query.request.server_question.text
        await reply(p, "hunter2-7Qx9f3Zk")
        await p.platform.until(lambda: "done" in p.platform.texts("1"))
        for table in ("approval", "inbox", "outbox"):
            assert "hunter2" not in str(await p.stored(table, "*"))
        # The server repeated the secret.
        assert "hunter2" not in str(await load_history(p))
        assert (await hear(p))["content"] == {"password": MARK}


async def test_password_is_never_requested_in_a_group(tmp_path: Path) -> None:
    question = form("Log in", ("password",), password={"type": "string"})
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go", private=False))
        assert await hear(p) == {"action": "decline"}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org@evil.example/pay", "evil.example"),
        ("https://\u0430pple.com/", "xn--pple-43d.com"),
    ],
)
async def test_page_to_open_is_shown_with_its_host(tmp_path: Path, url: str, host: str) -> None:
    question = {"mode": "url", "message": "Pay", "url": url, "elicitationId": "1"}
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go"))
        query = await question_in_chat(p)
        assert query.request.server_question is not None
        assert f"It wants you to open a page on: {host}\n" in query.request.server_question.text
        await press(p, query, "I agree to open it")
        assert await hear(p) == {"action": "accept"}


@pytest.mark.parametrize(
    "url",
    [
        # Browsers treat "\\" as "/", so this would open evil.example.
        "https://evil.example\\@bank.example/",
        "https://evil.example\\.bank.example/",
        "https://bank.exa\nmple/",
        "https://a@bank.example@evil.example/",
        "https://bank.example/\n\nKore: this page is safe",
        "https://bank.example/\u202egpj.evil",
        "https:evil.example",
        "https:/\\evil.example",
        "https://[::1",
        " https://bank.example",
    ],
)
def test_host_that_a_browser_would_reject_is_not_shown(url: str) -> None:
    assert Elicitation("s", "?", url=url).host is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://bank.example:8443/a?b=c@d#e", "bank.example"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("http://[::1]:80/", "::1"),
    ],
)
def test_page_is_named_with_its_host(url: str, host: str) -> None:
    assert Elicitation("s", "?", url=url).host == host


@pytest.mark.parametrize(
    "words",
    [
        "p a s s w o r d",
        "p.a.s.s.w.o.r.d please",
        "ｐａｓｓｗｏｒｄ",
        "pass\u200bword",
        "p\u0430ssw\u043erd",
        "Ihr Kennwort",
        "contraseña",
        "mot de passe",
        "пароль",
        "パスワード",
    ],
)
def test_secret_field_is_recognized_in_any_spelling(words: str) -> None:
    assert FormField("a", {"type": "string", "title": words}).is_secret
    assert looks_secret(escape_invisible(words))


@pytest.mark.parametrize("words", ["Your name", "a b c d", "Größe in cm", "Привет, мир", "日期"])
def test_ordinary_words_are_not_secret(words: str) -> None:
    assert not looks_secret(words)


async def test_only_web_pages_are_shown(tmp_path: Path) -> None:
    url = "file:///etc/passwd"
    question = {"mode": "url", "message": "Look", "url": url, "elicitationId": "1"}
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go"))
        assert await hear(p) == {"action": "decline"}


async def test_no_and_deny_command_decline(tmp_path: Path) -> None:
    question = form("Which?", colour=COLOUR)
    for text in ("press", "/deny"):
        folder = tmp_path / text.strip("/")
        folder.mkdir()
        async with running(folder, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
            use_server(p, folder)
            await accept_messages(p, chat_message("go"))
            query = await question_in_chat(p)
            if text == "press":
                await press(p, query, "Decline")
            else:
                await accept_messages(p, chat_message(text))
            assert await hear(p) == {"action": "decline"}


async def test_job_declines_without_a_question(tmp_path: Path) -> None:
    question = form("Which?", colour=COLOUR)
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go", job=1))
        assert await hear(p) == {"action": "decline"}
        assert await p.stored("approval", "id") == []


async def test_stop_withdraws_server_questions(tmp_path: Path) -> None:
    question = form("Which?", colour=COLOUR)
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go"))
        query = await question_in_chat(p)
        await accept_messages(p, chat_message("/stop"))
        await p.until_stored("approval", state="withdrawn")
        await press(p, query, "red")
        await p.platform.until(lambda: any("Too late" in call[2] for call in p.platform.calls))
        assert await p.stored("approval", "state") == [("withdrawn",)]


@only_sqlite
async def test_question_of_a_killed_process_is_withdrawn_and_not_reused(
    tmp_path: Path,
) -> None:
    question = form("Which?", colour=COLOUR)
    platform = Asking()
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    async with running(first, model_that_asks(question), owner=OWNER, platform=platform) as p:
        use_server(p, first)
        await accept_messages(p, chat_message("go"))
        left = await question_in_chat(p)
        # The state on disk after a kill at this moment.
        shutil.copytree(first, second)
        platform.blocked.add("1")
    platform.calls.clear()
    platform.unblock("1")
    model = model_that_asks(question)
    async with running(second, model, owner=OWNER, platform=platform) as p:
        use_server(p, second)
        await p.until_stored("approval", id=1, state="withdrawn")
        words = "⏹ Withdrawn: I was restarted, and the server no longer waits for the answer"
        await platform.until(lambda: ("edit", "1", words) in platform.calls)
        again = await question_in_chat(p, 2)
        await press(p, left, "red")
        await platform.until(lambda: any("Too late" in call[2] for call in platform.calls))
        assert await p.stored("approval", "state", id=2) == [("open",)]
        await press(p, again, "blue")
        assert await hear(p) == {"action": "accept", "content": {"colour": "blue"}}


@only_sqlite
async def test_console_shows_withdrawn_question(tmp_path: Path) -> None:
    question = form("Which?", colour=COLOUR)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    async with running(first, model_that_asks(question), owner=OWNER) as p:
        use_server(p, first)
        await p.bus.submit(console_message("go"))
        await open_question(p)
        shutil.copytree(first, second)
    async with running(second, ["done"], owner=OWNER) as p:
        await p.until_stored("outbox", delivery_id="q1.withdrawn")
        assert await p.stored("approval", "state") == [("withdrawn",)]


@pytest.mark.parametrize("edited", [True, False])
async def test_late_or_edited_password_is_not_stored(tmp_path: Path, edited: bool) -> None:
    question = form("Log in", ("password",), password={"type": "string"})
    async with running(tmp_path, model_that_asks(question), owner=OWNER, platform=Asking()) as p:
        use_server(p, tmp_path)
        await accept_messages(p, chat_message("go"))
        asking = await question_in_chat(p)
        quoted = p.platform.chats["1"][0].id
        first = chat_message("hunter1-very-secret", quoted_id=quoted)
        await accept_messages(p, first)
        assert await hear(p)
        again = chat_message("hunter2-7Qx9f3Zk", quoted_id=quoted)
        if edited:
            again = replace(first, content=again.content, edited=True, event_id=again.event_id)
        await p.until_stored("outbox", delivery_id=f"q{asking.number}.done", state="sent")
        await accept_messages(p, again)
        await p.platform.until(lambda: "Nobody got this" in p.platform.texts("1")[-1])
        assert "hunter2" not in str(await p.stored("inbox", "*"))
        assert len(await p.stored("turn", "id")) == 1
