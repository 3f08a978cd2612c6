"""Consecutive requests share a prefix until the window is full and has to be cut."""

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent import events
from agent.context.compaction.compactor import CompactionResult, Compactor, Conversation
from agent.context.compaction.summarizer import Summariser, Summary
from agent.context.history_validation import is_valid
from agent.context.request_window import RequestWindow
from agent.context.token_budget import ContextBudget, TokenCalibration
from agent.errors import ProviderError, RateLimited
from agent.prompts import load_prompt
from agent.providers.pool import ModelPool
from agent.providers.scripted import ScriptedProvider
from agent.providers.token_estimate import estimate
from agent.providers.usage import InMemoryMeter
from agent.security.redaction import Redactor
from agent.security.taint.taint import TaintState
from agent.types import Message, Text, ToolCall, Usage, assistant, user
from tests.agent.strategies import rounds

FAILING: list[str | ProviderError] = ["They talked.", RateLimited("later"), "", "word " * 9000]


class RecordingStore:
    """A store that records compactions; `willing` is its answer."""

    def __init__(self, willing: bool = True) -> None:
        self.willing = willing
        self.results: list[CompactionResult] = []

    async def keep(self, shorter: CompactionResult) -> bool:
        self.results.append(shorter)
        return self.willing


def a_view(
    messages: list[Message],
    window: int,
    replies: list[str | ProviderError],
    *,
    gauge: TokenCalibration | None = None,
    keeper: RecordingStore | None = None,
    summary: Summary | None = None,
) -> tuple[RequestWindow, ScriptedProvider]:
    model = ScriptedProvider(replies)
    summariser = Summariser(ModelPool.of(model, {}), Redactor())
    compactor = Compactor(summariser, TaintState(), InMemoryMeter(), keeper or RecordingStore())
    room = ContextBudget(window, 100, 100, window // 5)
    view = RequestWindow(Conversation(messages, summary=summary), room, "m", gauge, compactor)
    return view, model


def requests_of(messages: list[Message]) -> list[list[Message]]:
    """Return the messages in portions, as they arrive between requests."""
    portions: list[list[Message]] = []
    portion: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            portions.append(portion)
            portion = []
        portion.append(message)
    return [*portions, portion]


async def play(
    view: RequestWindow, portions: list[list[Message]], factor: float
) -> list[tuple[list[Message], bool]]:
    """Return the messages of each request, and whether older messages were removed before it."""
    sent = []
    for portion in portions:
        view.conversation.messages.extend(portion)
        window, result = await view.window()
        view.learn(Usage(int(view.request_tokens * factor) or 1, 1))
        sent.append((list(window.messages), bool(result)))
    return sent


@settings(max_examples=25)
@given(
    rounds(most=12, longest=4000),
    st.integers(1500, 12_000),
    st.lists(st.sampled_from(FAILING), max_size=6),
    st.floats(0.3, 4.0),
    st.booleans(),
)
def test_any_window_and_usage_give_valid_continuing_requests(
    messages: list[Message],
    window: int,
    replies: list[str | ProviderError],
    factor: float,
    willing: bool,
) -> None:
    view, model = a_view([], window, replies, keeper=RecordingStore(willing))
    sent = asyncio.run(play(view, requests_of(messages), factor))
    before: list[Message] = []
    for request, cut in sent:
        assert is_valid(request)
        assert request[0].role == "user"
        if not cut and before and request[: len(before)] != before:
            # Texts may be shortened without removing a message, but only when the window is full.
            assert sum(map(estimate, before)) > 0
            assert any("left out" in message.text for message in request)
        before = request
    assert len(model.requests) <= len(replies) + 2 * len(sent)


def long_work(steps: int) -> list[Message]:
    messages = [user("the task")]
    for n in range(steps):
        call = ToolCall(f"c{n}", "look", {}, "{}")
        messages += [assistant("", (call,)), Message("tool", (Text(f"{n} " * 500),), (), call.id)]
    return messages


async def test_oldest_results_are_halved_without_a_summary() -> None:
    keeper = RecordingStore()
    view, _ = a_view([], 8_000, [RateLimited("no")] * 99, keeper=keeper)
    sent = await play(view, requests_of(long_work(24)), 1.0)
    assert {shorter.split for shorter in keeper.results} == {None}
    assert len(sent[-1][0]) == 49
    assert "left out to make room" in sent[-1][0][2].text
    assert sent[-1][0][-1].text == "23 " * 500
    limit = view._room.limit
    for shorter in keeper.results:
        assert limit // 2 - 400 < shorter.tokens_after <= limit // 2


async def test_messages_of_people_survive_without_a_summary() -> None:
    talk = [m for n in range(200) for m in (user(f"rule {n} holds."), assistant("word " * 200))]
    view, model = a_view([], 12_000, [RateLimited("no")] * 99)
    sent = await play(view, requests_of(talk), 1.0)
    assert len(model.requests) == 2
    front = str(sent[-1][0])
    assert [n for n in range(200) if f"rule {n} holds." not in front] == []
    assert load_prompt("trimmed").strip()[:40] in front


async def test_tool_results_are_summarised_before_they_are_dropped() -> None:
    view, model = a_view([], 8_000, ["Summary."] * 99)
    await play(view, requests_of(long_work(24)), 1.0)
    assert "0 0 0 0" in model.requests[0].messages[0].text
    assert view.conversation.summary is not None


async def test_requests_between_two_cuts_continue_each_other() -> None:
    view, _ = a_view([], 8_000, ["Summary one.", "Summary two."] * 30)
    talk = [m for n in range(120) for m in (user(f"q{n} " * 60), assistant(f"a{n} " * 60))]
    sent = await play(view, requests_of(talk), 1.3)
    cuts = sum(cut for _, cut in sent)
    assert 1 < cuts < len(sent) / 5
    for (before, _), (after, cut) in pairwise(sent):
        assert cut or after[: len(before)] == before
    assert "Summary" in sent[-1][0][0].content[0].text  # type: ignore[union-attr]
    assert "q0" in sent[-1][0][0].content[0].text  # type: ignore[union-attr]


async def test_window_of_a_higher_counting_model_is_filled_less() -> None:
    talk = [m for n in range(60) for m in (user(f"q{n} " * 60), assistant(f"a{n} " * 60))]
    most = {}
    for factor in (1.0, 2.0):
        view, _ = a_view([], 8_000, ["Summary."] * 99)
        sent = await play(view, requests_of(talk), factor)
        most[factor] = max(sum(map(estimate, request)) for request, _ in sent[5:])
    assert most[2.0] < most[1.0] * 0.7


async def test_failed_summaries_fall_back_to_trimming_and_are_limited() -> None:
    talk = [m for n in range(400) for m in (user(f"q{n} " * 60), assistant(f"a{n} " * 60))]
    view, model = a_view([], 8_000, [RateLimited("no")] * 999)
    sent = await play(view, requests_of(talk), 1.0)
    assert len(model.requests) == 2
    assert all(sum(map(estimate, request)) <= 6_400 for request, _ in sent)


async def test_summary_that_could_not_be_stored_is_not_used() -> None:
    talk = [m for n in range(40) for m in (user(f"q{n} " * 60), assistant(f"a{n} " * 60))]
    view, _ = a_view([], 4_000, ["Summary."] * 99, keeper=RecordingStore(willing=False))
    await play(view, requests_of(talk), 1.0)
    assert view.conversation.summary is None
    assert len(view.conversation.messages) == 80


async def test_compacted_event_counts_summarised_messages() -> None:
    talk = [m for n in range(40) for m in (user(f"q{n} " * 60), assistant(f"a{n} " * 60))]
    view, _ = a_view(talk, 4_000, ["Summary."])
    _, result = await view.window()
    (compacted,) = result
    assert isinstance(compacted, events.Compacted)
    assert (compacted.kept, compacted.dropped, compacted.summarised) == (4, 0, 76)
    assert compacted.after < compacted.estimated_tokens_before


async def test_todo_list_is_repeated_after_its_message_is_dropped() -> None:
    raw = '{"items": [{"content": "paint it", "status": "in_progress"}]}'
    call = ToolCall(
        "t1", "todo", {"items": [{"content": "paint it", "status": "in_progress"}]}, raw
    )
    listed = [user("plan"), assistant("", (call,)), Message("tool", (Text("kept"),), (), "t1")]
    talk = [m for n in range(40) for m in (user(f"q{n} " * 60), assistant(f"a{n} " * 60))]
    view, _ = a_view([*listed, *talk], 4_000, ["Summary.", "Another."])
    window, _ = await view.window()
    assert "▶ paint it" in window.messages[0].content[0].text  # type: ignore[union-attr]
    more = [m for n in range(40) for m in (user(f"r{n} " * 60), assistant(f"s{n} " * 60))]
    view.conversation.messages.extend(more)
    window, _ = await view.window()
    assert "Another." in window.messages[0].content[0].text  # type: ignore[union-attr]
    assert "▶ paint it" in window.messages[0].content[0].text  # type: ignore[union-attr]


async def test_person_is_told_once_that_a_message_is_sent_without_its_middle() -> None:
    view, _ = a_view([user("word " * 9_000)], 6_000, [])
    window, notices = await view.window()
    assert "characters left out" in window.messages[-1].text
    (notice,) = (event for event in notices if isinstance(event, events.Notice))
    assert "without the middle" in notice.text
    assert "@file" in notice.text
    view.conversation.messages.append(assistant("Read."))
    _, later = await view.window()
    assert not [event for event in later if isinstance(event, events.Notice)]


async def test_message_that_fits_causes_no_notice() -> None:
    messages = [user("word " * 2_000), assistant("word " * 4_000), user("hi")]
    view, _ = a_view(messages, 6_000, FAILING)
    _, notices = await view.window()
    assert not [event for event in notices if isinstance(event, events.Notice)]
