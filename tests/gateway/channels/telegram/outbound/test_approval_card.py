from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.approvals import ANSWERS, ApprovalRequest, CommandPrefix, ServerQuestion
from agent.i18n import use_locale
from gateway.channels.telegram.outbound.approval_card import render_approval, render_details
from gateway.channels.telegram.outbound.render import REPEAT_NOTE, mark_repeat
from gateway.channels.telegram.utf16 import units
from gateway.core.approval import ApprovalPrompt, read_press
from gateway.core.messages import Route
from gateway.core.question_view import read_choice

ASKED = ApprovalPrompt(
    nonce="n" * 16,
    number=3,
    title="exec git push",
    request=ApprovalRequest(
        "exec",
        {"command": "git push"},
        "Runs a command.",
        command="git push",
        folder=Path("/w"),
    ),
    lane="telegram:1:7",
    session="s",
    asker="telegram:7",
    principal="telegram:7",
    route=Route("telegram", "1", "7"),
    asked_at=0.0,
    expires_at=1.0,
)


HINT = "Answer with the buttons; a reply to this message denies it and tells the model why."


def _with(**changes: str) -> ApprovalPrompt:
    """Return a question about a changed request."""
    return replace(ASKED, request=replace(ASKED.request, **changes))


def test_command_is_shown_with_its_folder_and_four_buttons() -> None:
    part = render_approval(ASKED)
    assert part.text == f"🔐 Question 3: exec\ngit push\nin: /w\nRuns a command.\n{HINT}"
    (code,) = (entity for entity in part.entities if entity.type == "pre")
    start = units(part.text[: part.text.index("\ngit") + 1])
    assert (code.offset, code.length, code.extra) == (start, 15, {"language": "bash"})
    answers = [read_press(button.data) for button in part.buttons]
    assert answers == [(ASKED.nonce, answer, "call") for answer in ANSWERS]
    assert all(len(button.data.encode()) <= 64 for button in part.buttons)


def test_argument_cannot_imitate_another() -> None:
    forged = {"command": "make", "reason": "x\noutside: false", "outside": True}
    prompt = replace(ASKED, request=replace(ASKED.request, arguments=forged, command="make"))
    assert "make\nreason: x\n    outside: false\noutside: true\n" in render_approval(prompt).text


def test_reason_for_accepting_errors_follows_the_diff() -> None:
    arguments = {"path": "a.py", "despite_errors": "the next edit\ndefines it"}
    request = replace(ASKED.request, arguments=arguments, command=None, diff="-a\n+b")
    text = render_approval(replace(ASKED, request=request)).text
    assert "\n+b\nIntroduces new errors; the model insists: the next edit defines it\n" in text


def test_prefix_has_its_own_button() -> None:
    prefixes = (CommandPrefix(("git", "push")),)
    prompt = replace(ASKED, request=replace(ASKED.request, prefixes=prefixes))
    buttons = render_approval(prompt).buttons
    assert [button.label for button in buttons][-2:] == [
        "Always allow git push * (any arguments)",
        "Deny",
    ]
    assert read_press(buttons[-2].data) == (ASKED.nonce, "always", "prefix")


@pytest.mark.parametrize(
    ("language", "first", "reason", "labels"),
    [
        (
            "zh-Hans",
            "🔐 问题 3：exec",
            "运行一个命令。",
            "允许一次 本对话内允许（仅限此项） 始终允许（仅限此项） 拒绝",
        ),
        (
            "zh-Hant",
            "🔐 問題 3：exec",
            "執行一個命令。",
            "允許一次 本對話內允許（僅限此項） 一律允許（僅限此項） 拒絕",
        ),
    ],
)
def test_question_is_translated_and_its_command_is_not(
    language: str, first: str, reason: str, labels: str
) -> None:
    with use_locale(language):
        part = render_approval(ASKED)
    assert part.text.startswith(f"{first}\n")
    assert f"\ngit push\nin: /w\n{reason}\n" in part.text
    assert [button.label for button in part.buttons] == labels.split()
    (code,) = (entity for entity in part.entities if entity.type == "pre")
    assert part.text.encode("utf-16-le")[code.offset * 2 :][:16].decode("utf-16-le") == "git push"


def test_decision_replaces_the_buttons() -> None:
    part = render_approval(ASKED, "✅ Allowed once by Ann")
    assert part.text.endswith("✅ Allowed once by Ann")
    assert part.buttons == ()


def test_hidden_characters_are_escaped() -> None:
    part = render_approval(_with(command="ls \u202ecod.exe\u200b\r rm"))
    assert "ls \\u{202e}cod.exe\\u{200b}\\u{d} rm" in part.text


def test_truncated_question_can_only_be_allowed_once() -> None:
    part = render_approval(_with(command="a" * 3000 + "😀" * 3000 + "end"))
    assert "⚠️ The middle is cut; the file above has the full text" in part.text
    file = render_details(_with(command="a" * 3000 + "😀" * 3000 + "end"))
    assert file is not None
    whole = (file.text or "").replace("\n↪ ", "")
    assert whole.startswith("a" * 3000 + "😀" * 3000 + "end\n")
    assert render_details(ASKED) is None
    assert "end\n" in part.text
    assert [button.label for button in part.buttons] == ["Allow once", "Deny"]


@given(st.text(), st.text(), st.text(), st.none() | st.text(max_size=300))
def test_every_question_fits_one_message(
    command: str, reason: str, asker: str, decided: str | None
) -> None:
    question = replace(_with(command=command * 50, reason=reason * 50), asker=asker * 50)
    part = mark_repeat(render_approval(question, decided))
    assert part.text.startswith(REPEAT_NOTE)
    assert units(part.text) <= 4096
    part.text.encode()
    size = units(part.text)
    assert all(e.length > 0 and e.offset + e.length <= size for e in part.entities)


def test_unknown_buttons_are_ignored() -> None:
    for data in ("", "a", "a:o", "a:o:", "a:x:n", "b:o:n", "yes"):
        assert read_press(data) is None


def asked_by(query: ServerQuestion) -> ApprovalPrompt:
    return replace(ASKED, request=replace(ASKED.request, server_question=query))


def test_server_question_names_the_server_with_a_button_per_choice() -> None:
    query = ServerQuestion("shop", "Which\u200b one?", ("red", "blue"), otherwise="Keep red")
    part = render_approval(asked_by(query))
    head = "❓ Question 3: the MCP server shop asks"
    assert part.text == f"{head}\n\nWhich\\u{{200b}} one?"
    assert [button.label for button in part.buttons] == ["red", "blue", "Keep red", "Decline"]
    assert [read_choice(button.data) for button in part.buttons[:3]] == [
        (ASKED.nonce, 1),
        (ASKED.nonce, 2),
        (ASKED.nonce, 0),
    ]
    assert read_press(part.buttons[3].data) == (ASKED.nonce, "deny", "call")
    assert all(len(button.data.encode()) <= 64 for button in part.buttons)


def test_password_request_is_answered_by_a_reply_to_delete() -> None:
    query = ServerQuestion("shop", "Password?", takes_text=True, is_secret=True)
    question = asked_by(query)
    text = render_approval(question).text
    assert "Answer by a reply to this message. Delete your reply afterwards" in text
    decided = render_approval(question, "✅ Answered")
    assert decided.text.endswith("Password?\n\n✅ Answered")
    assert decided.buttons == ()
    assert render_details(question) is None
