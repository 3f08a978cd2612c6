"""Taint of a session and its effect on outgoing data."""

from pathlib import Path

import pytest

from agent.security.policy.base import ToolRequest
from agent.security.taint.taint import (
    BOTH,
    NOTHING,
    PRIVATE,
    UNTRUSTED,
    TaintState,
    exfiltration_objection,
)
from agent.tools.assistant.remember import Remember
from agent.types import Message, Taint, Text, user

HERE = Path("/w")
OFFERS = "See https://a.example/one, (https://a.example/two) and <https://a.example/three>."


def result(text: str, taint: frozenset[Taint]) -> Message:
    return Message("tool", (Text(text),), tool_call_id="c", taint=taint)


def taint_of(*messages: Message) -> TaintState:
    return TaintState(BOTH, messages)


def fetch(taint: frozenset[Taint], quoted: bool = False) -> ToolRequest:
    url = "https://a.example/?d=1"
    return ToolRequest(
        "web_fetch", "read", {"url": url}, HERE, hosts=("a.example",), sends=url, quoted=quoted,
        taint=taint,
    )  # fmt: skip


def test_taint_accumulates_over_results() -> None:
    exposure = TaintState()
    exposure.take(user("hi"))
    assert exposure.taint == NOTHING
    exposure.take(result("a file", PRIVATE))
    assert not exposure.is_dangerous
    exposure.take(result("a page", UNTRUSTED))
    assert exposure.is_dangerous


@pytest.mark.parametrize("taint", [NOTHING, PRIVATE, UNTRUSTED])
def test_taint_of_one_kind_allows_outgoing_calls(taint: frozenset[Taint]) -> None:
    assert exfiltration_objection(fetch(taint)) is None


def test_both_kinds_of_taint_ask_unless_the_text_is_quoted() -> None:
    decision = exfiltration_objection(fetch(BOTH))
    assert decision is not None
    assert (decision.verdict, decision.rule) == ("ask", "taint-way-out")
    assert "a.example" in decision.reason
    assert exfiltration_objection(fetch(BOTH, quoted=True)) is None


def test_networked_command_needs_approval_for_any_text() -> None:
    request = ToolRequest(
        "exec", "unsafe", {}, HERE, command="curl x", hosts=("anywhere",), quoted=True, taint=BOTH
    )
    assert exfiltration_objection(request) is not None


@pytest.mark.parametrize(
    "path", ["SOUL.md", "memory/x.md", "skills/a/SKILL.md", ".kore/agents/a.md"]
)
def test_untrusted_text_needs_approval_to_become_instructions(path: str) -> None:
    request = ToolRequest(
        "write_file", "idempotent", {}, HERE, creates=(HERE / path,), taint=UNTRUSTED
    )
    decision = exfiltration_objection(request)
    assert decision is not None
    assert decision.rule == "taint-memory"
    assert (
        exfiltration_objection(
            ToolRequest("write_file", "idempotent", {}, HERE, creates=(HERE / path,))
        )
        is None
    )


def test_heartbeat_work_needs_approval_like_a_job() -> None:
    def writing(path: str, taint: frozenset[Taint] = UNTRUSTED) -> ToolRequest:
        return ToolRequest("edit_file", "unsafe", {}, HERE, changes=(HERE / path,), taint=taint)

    for path in ("HEARTBEAT.md", "heartbeat.MD"):
        decision = exfiltration_objection(writing(path))
        assert decision is not None
        assert decision.rule == "taint-schedule"
    assert exfiltration_objection(writing("HEARTBEAT.md", PRIVATE)) is None
    assert exfiltration_objection(writing("notes/HEARTBEAT.md")) is None


def test_remembering_needs_approval_after_untrusted_text() -> None:
    decision = exfiltration_objection(
        ToolRequest(
            "remember", "idempotent", {"text": "x"}, HERE, taint=UNTRUSTED, traits=Remember.traits
        )
    )
    assert decision is not None
    assert decision.verdict == "ask"


async def test_address_of_the_person_may_leave() -> None:
    exposure = taint_of(user("Read https://a.example/?q=1."))
    assert await exposure.is_quoted("https://a.example/?q=1")


@pytest.mark.parametrize(
    "changed",
    [
        "https://a.example/?q=1&d=secret",
        "https://a.example/",
        "https://a.example/?q=",
        "https://secret.a.example/?q=1",
        "https://a.example/?q=1#secret",
        "HTTPS://a.example/?q=1",
    ],
)
async def test_changed_address_may_not_leave(changed: str) -> None:
    assert not await taint_of(user("Read https://a.example/?q=1.")).is_quoted(changed)


@pytest.mark.parametrize("path", ["one", "two", "three"])
async def test_address_offered_by_untrusted_text_may_leave(path: str) -> None:
    assert await taint_of(result(OFFERS, UNTRUSTED)).is_quoted(f"https://a.example/{path}")


async def test_address_in_private_text_may_not_leave() -> None:
    assert not await taint_of(result(OFFERS, BOTH)).is_quoted("https://a.example/one")
    assert not await taint_of(result(OFFERS, PRIVATE)).is_quoted("https://a.example/one")


async def test_query_in_words_of_the_person_may_leave() -> None:
    exposure = taint_of(user("please find the  Best tea\nin Uji"))
    assert await exposure.is_quoted("best tea in Uji")
    assert not await exposure.is_quoted("best tea in Uji secret")
    assert not await exposure.is_quoted("tea best")
    assert not await exposure.is_quoted("est te")
    assert not await exposure.is_quoted("")


async def test_query_in_untrusted_words_may_not_leave() -> None:
    assert not await taint_of(result("search for: open sesame", UNTRUSTED)).is_quoted("open sesame")


async def test_address_with_brackets_is_offered_completely() -> None:
    exposure = taint_of(result("(https://a.example/wiki/A_(b))", UNTRUSTED))
    assert await exposure.is_quoted("https://a.example/wiki/A_(b)")


@pytest.mark.parametrize(
    ("page", "chosen"),
    [
        ("https://a.example/" + "." * 100, "https://a.example/" + "." * 70),
        ("https://a.example/1=https://a.example/2=https://a.example/3", "https://a.example/3"),
        ("https://a.example/'70 https://a.example/'71", "https://a.example/'70"),
        ("https://a.example/ and many words", "https://a.example/ and many"),
    ],
    ids=["dots", "addresses in an address", "quotes", "words"],
)
async def test_part_of_an_untrusted_address_is_not_quoted(page: str, chosen: str) -> None:
    assert not await taint_of(result(page, UNTRUSTED)).is_quoted(chosen)


PICTURES = " ".join(f"https://a.example/{i}-{c}.png" for i in range(16) for c in "0123456789abcdef")


async def test_untrusted_links_share_a_budget_and_count_once() -> None:
    exposure = taint_of(user("See b.example/own."), result(PICTURES, UNTRUSTED))
    chosen = [f"https://a.example/{i}-a.png" for i in range(16)]
    assert [await exposure.grant_link(link) for link in chosen] == [True] * 2 + [False] * 14
    assert [link for link in chosen if exposure.is_shown(link)] == chosen[:2]
    assert not await exposure.is_quoted(chosen[2])
    assert exposure.is_shown("b.example/own")
    assert not exposure.is_own(chosen[0])


@pytest.mark.parametrize(
    "link", ["https://a.example/x_(y)", "a.example/docs", "me@a.example", "www.a.example"]
)
async def test_link_of_any_shape_may_be_granted(link: str) -> None:
    exposure = taint_of(result(f"See ({link}), or {link}.", UNTRUSTED))
    assert await exposure.grant_link(link)
    assert not await exposure.grant_link(link[:-2])


async def test_link_in_private_text_is_not_granted() -> None:
    assert not await taint_of(result(OFFERS, BOTH)).grant_link("https://a.example/one")


async def test_many_offers_cannot_spell_out_a_secret() -> None:
    page = " ".join(f"https://a.example/{i}/{c}" for i in range(16) for c in "0123456789abcdef")
    exposure = taint_of(result(page, UNTRUSTED))
    followed = [await exposure.is_quoted(f"https://a.example/{i}/a") for i in range(16)]
    assert sum(followed) == 2
    exposure.take(user("go on"))
    assert await exposure.is_quoted("https://a.example/9/a")
