"""Transcript as an HTML page: none of its content runs or loads anything."""

import asyncio
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from agent.types import Context, Image, Message, Text, Thinking, ToolCall, assistant, user
from gateway.core.records import SessionInfo
from gateway.core.transcript_page import transcript_page
from tests.gateway.core.page_attacks import ATTACKS

INFO = SessionInfo("20260101_100000", "The plan", "idle", None, "cli:1", 2, 0.0, 1_800_000_000.0)
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "article"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "div", "span", "b", "a", "em", "strong", "s"),
    *("details", "summary", "pre", "code", "ins", "del", "blockquote", "hr", "br", "img"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = frozenset(
    {"lang", "charset", "http-equiv", "content", "name", "class", "href", "src", "alt", "start"}
)


class Checker(HTMLParser):
    """Parser that collects forbidden content of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.violations: list[str] = []
        self.styles = 0
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.styles += tag == "style"
        if tag not in TAGS:
            self.violations.append(tag)
        for name, value in attrs:
            if name == "style" and value and value.startswith("text-align:"):
                continue
            if name not in ATTRIBUTES:
                self.violations.append(f"{tag} {name}")
            if name == "src" and not (value or "").startswith("data:image/"):
                self.violations.append(f"{name}={value}")
            if name == "href" and not (value or "").startswith(("http", "mailto:", "#")):
                self.violations.append(f"{name}={value}")
            if tag == "meta" and name == "http-equiv" and value != "Content-Security-Policy":
                self.violations.append(f"meta {value}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    return checker


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_is_escaped(attack: str) -> None:
    calls = (ToolCall("c1", attack, {"path": attack}, attack),)
    messages = [
        user(attack),
        Message("assistant", (Thinking(attack), Text(attack)), calls),
        Message("tool", (Text(f"--- a\n+++ b\n@@ 1 @@\n+{attack}"),), tool_call_id="c1"),
        Message("tool", (Text(attack),), tool_call_id="c1", is_error=True),
        assistant(attack),
    ]
    checker = checked(transcript_page(replace(INFO, name=attack, taint=attack), messages))
    assert checker.violations == []
    assert checker.styles == 1


def test_transcript_omits_text_only_for_the_model() -> None:
    call = ToolCall("c1", "read_file", {"path": "a.py"}, '{"path": "a.py"}')
    messages = [
        Message("user", (Text("**Read** it"), Context("only for the model"))),
        assistant("I will.", (call,)),
        Message("tool", (Text("1\tx = 1"),), tool_call_id="c1"),
        # Some vendors repeat an id.
        assistant("", (replace(call, raw="again"),)),
        Message("tool", (Text("No such file"),), tool_call_id="c1", is_error=True),
        assistant("```python\nx = 1\n```\n\n| a |\n|---|\n| b |"),
        Message("user", (Image("image/png", b"\x89PNG"),)),
    ]
    page = transcript_page(INFO, messages)
    assert "only for the model" not in page
    assert "<strong>Read</strong>" in page
    assert "<b>read_file</b> a.py</summary>" in page
    assert '<b>read_file</b> a.py <span class="bad">failed</span>' in page
    assert page.index("x = 1") < page.index("No such file")
    assert '<span class="mi">1</span>' in page
    assert "<td>b</td>" in page
    assert "data:image/png;base64,iVBORw==" in page
    # A whole turn is in a single article.
    assert page.count('<article class="kore">') == 1
    assert page.count("<article") == page.count("</article>") == 3


def test_long_result_is_cut() -> None:
    call = ToolCall("c1", "exec", {}, "{}")
    result = Message("tool", (Text("y" * 50_000),), tool_call_id="c1")
    page = transcript_page(INFO, [user("go"), assistant("", (call,)), result])
    assert page.count("y" * 20_000) == 1
    assert "… (30,000)" in page


async def test_long_conversation_is_rendered_in_linear_time() -> None:
    messages = [user("hi"), assistant("A *word* and `code`.")] * 1_000
    page = await asyncio.to_thread(transcript_page, INFO, messages)
    assert page.count("<article") == 2_000
