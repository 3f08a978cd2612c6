"""Rendering of questions on every user interface: all lines and labels, nothing hidden."""

import io
import json
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console
from textual.app import App, ComposeResult
from textual.widgets import Static

from agent.approvals import ApprovalRequest, CommandPrefix
from agent.events import ApprovalAsked
from agent.records import frozen
from agent.serialization import event_from_json, event_to_json
from gateway.channels.telegram.outbound.approval_card import render_approval, render_details
from gateway.cli.acp.questions import EditorQuestions
from gateway.cli.chat.service_connection import ServiceConnection
from gateway.cli.console.output import renderables
from gateway.cli.console.output.approval_text import choices_text, question_text
from gateway.cli.tui.approval_panel import ApprovalPanel
from gateway.cli.verbs.mcp.serve import KoreTools
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import MessageOptions, Route
from gateway.core.question_view import approval_event
from tests.fakes.editor import Editor
from tests.fakes.memory_service import MemoryService

DECEPTIVE = "".join(
    chr(code)
    for code in range(0x110000)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Zs", "Co")
    and code not in (0x09, 0x0A, 0x20)
    and code < 0xF0000
)


_FACTS = ("network", "prefixes", "unbound", "home_settings")


def run(command: str, **more: Any) -> ApprovalRequest:
    facts = {name: more.pop(name) for name in _FACTS if name in more}
    arguments = {"command": command, **more}
    return ApprovalRequest(
        "exec",
        arguments,
        "Runs a command.",
        "1",
        "ask-exec",
        command=command,
        folder=Path("/w"),
        **facts,
    )


HOSTILE = {
    "network": run("make", network=("evil.example", "b.example")),
    "background": run("nc -l 80", background=True, timeout_s=9),
    "prefix": run("git push", prefixes=(CommandPrefix(("git", "push")),)),
    "unbound": run("go run .", unbound="go"),
    "home": run("curl a", home_settings=(".curlrc", ".npmrc\u202e\nin: /safe", ".n (→ /tmp/x)")),
    "bidi": run("rm \u202etxt.exe\u2066\u2069"),
    "deceptive": run("".join(char + "a" for char in DECEPTIVE[:300])),
    "empty lines": run("true" + "\n" * 41 + "rm -rf ."),
    "blanks": run("true" + " " * 400 + "; rm -rf ."),
    "fence": run("true\n```\n# Allowed\n~~~\n`````sh\nrm -rf ."),
    "long": run("true " + "a" * 1500 + "; rm -rf ."),
    "markup": run("[bold]x[/bold] <b>x</b> **x** [link](http://a) _x_"),
    "forged": run("make", reason="x\n    in: /safe\nnetwork: none"),
    "diff": ApprovalRequest(
        "edit_file", {"path": "a.md"}, "Changes a file.", diff="--- a\n+++ a\n-x\n+```\n+\u202ey"
    ),
    "sends": ApprovalRequest("web_fetch", {"url": "http://a"}, "Sends.", sends="secret\n\n\n\nx"),
}


@frozen
class Face:
    """Rendering of a question: its text and the labels of the answers."""

    text: str
    labels: str


async def telegram(prompt: ApprovalPrompt, event: ApprovalAsked) -> Face:
    part, file = render_approval(prompt), render_details(prompt)
    text = f"{part.text}\n{file.text if file else ''}"
    return Face(text, "\n".join(button.label for button in part.buttons))


async def console(prompt: ApprovalPrompt, event: ApprovalAsked) -> Face:
    screen = io.StringIO()
    Console(file=screen, width=60).print(renderables.question(event))
    return Face(screen.getvalue(), choices_text(event))


async def bare_terminal(prompt: ApprovalPrompt, event: ApprovalAsked) -> Face:
    return Face(question_text(event), choices_text(event))


async def full_screen(prompt: ApprovalPrompt, event: ApprovalAsked) -> Face:
    class Screen(App[None]):
        def compose(self) -> ComposeResult:
            yield ApprovalPanel()

    async with Screen().run_test(size=(60, 200)) as pilot:
        panel = pilot.app.query_one(ApprovalPanel)
        panel.fit(200)
        panel.show_first([event])
        panel.arm()
        await pilot.pause()
        await pilot.pause()
        return Face(_drawn(panel, "#question"), _drawn(panel, "#choices"))


def _drawn(panel: ApprovalPanel, widget: str) -> str:
    static = panel.query_one(widget, Static)
    rows = (static.render_line(row) for row in range(static.size.height))
    return "\n".join("".join(segment.text for segment in row) for row in rows)


async def editor(prompt: ApprovalPrompt, event: ApprovalAsked) -> Face:
    client = Editor()
    labels: list[str] = []

    async def request_permission(session: str, call: Any, options: list[Any], **_: Any) -> Any:
        labels.extend(option.name for option in options)
        return await Editor.request_permission(client, session, call, options)

    client.request_permission = request_permission  # type: ignore[method-assign]
    await EditorQuestions(cast(Any, client), None).ask("s", event, "c")
    ((call, _),) = client.questions
    text = "\n".join(part.content.text for part in call.content)
    _check_fences([part.content.text for part in call.content])
    return Face(f"{call.title}\n{text}", "\n".join(labels))


def _check_fences(blocks: list[str]) -> None:
    for block in blocks:
        fence = block[: len(block) - len(block.lstrip("`"))]
        body = block.removeprefix(fence).removesuffix(fence)
        assert len(fence) >= 3
        assert fence not in body


async def protocol(prompt: ApprovalPrompt, event: ApprovalAsked) -> Face:
    decoded = event_from_json(event_to_json(event))
    assert isinstance(decoded, ApprovalAsked)
    assert decoded.view == event.view
    view = event_to_json(event)["view"]
    lines = [view["title"], *(line["text"] for line in view["lines"])]
    return Face("\n".join(lines), "\n".join(option["label"] for option in view["options"]))


FACES: dict[str, Callable[[ApprovalPrompt, ApprovalAsked], Awaitable[Face]]] = {
    face.__name__: face
    for face in (telegram, console, bare_terminal, full_screen, editor, protocol)
}


@pytest.mark.parametrize("question", HOSTILE)
async def test_mcp_server_denies_every_question(question: str) -> None:
    async with MemoryService() as service:
        service.approval_request = HOSTILE[question]
        tools = KoreTools(ServiceConnection(service), MessageOptions())
        answer = await tools.ask("ask first")
    assert answer["answer"] == "answer: deny"
    assert [result for _, result, *_ in service.answers] == ["deny"]
    assert str(HOSTILE[question].reason) not in json.dumps(answer)


def _dense(text: str) -> str:
    """Return the text without the blanks and line ends added by wrapping."""
    return "".join(text.split())


@pytest.mark.parametrize("question", HOSTILE)
@pytest.mark.parametrize("face", FACES)
async def test_every_line_and_label_is_shown(face: str, question: str) -> None:
    prompt = ApprovalPrompt(
        nonce="n" * 16,
        number=3,
        title="title",
        request=HOSTILE[question],
        lane="lane",
        session="s",
        asker="telegram:8",
        principal="telegram:7",
        route=Route("telegram", "1", "7"),
        asked_at=0.0,
        expires_at=1.0,
    )
    event = approval_event(prompt)
    drawn = await FACES[face](prompt, event)
    for line in event.view.lines:
        assert _dense(line.text) in _dense(drawn.text)
    assert _dense(event.view.title) in _dense(drawn.text)
    is_cut = face == "telegram" and render_details(prompt) is not None
    for option in event.view.options:
        is_offered = not is_cut or option.answer in ("once", "deny")
        assert (_dense(option.label) in _dense(drawn.labels)) == is_offered
    assert not set(DECEPTIVE) & set(drawn.text + drawn.labels)


def test_last_line_of_a_padded_command_is_close_to_the_first() -> None:
    for name in ("empty lines", "blanks", "long"):
        event = approval_event(
            ApprovalPrompt(
                *("n", 1, "t", HOSTILE[name], "l", "s", "a", "a", Route("c", "a", "c"), 0.0, 1.0)
            )
        )
        code = [line.text for line in event.view.lines if line.kind == "code"]
        assert len(code) <= 12
        assert max(map(len, code)) <= 162
        assert code[-1].endswith("rm -rf .")
