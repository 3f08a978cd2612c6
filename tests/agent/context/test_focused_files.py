"""Removal of file contents from the window, least recently used first."""

from dataclasses import replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent import events
from agent.context.focused_files import FileFocus, FocusedMessages
from agent.context.usage_chart import files_table
from agent.prompts import render_prompt
from agent.providers.token_estimate import estimate
from agent.settings import ToolSettings
from agent.tools.built_in import default_tools
from agent.tools.registry import ToolRegistry
from agent.types import Context, Message, Text, ToolCall, assistant, user
from tests.agent.props import call, calls, results, scripted

MOST = 4_000
FOLDER = Path("/project")
FOCUS = FileFocus(ToolRegistry(default_tools(ToolSettings())), FOLDER)
EVICTED = " were left out to make room"


def reading(name: str, lines: int, rest: str = "") -> list[Message]:
    """Return a call of `read_file` and its result, at about ten tokens per line."""
    text = "\n".join(f"{n:>4}\tdef name_{n}(): the rest of a line" for n in range(1, lines + 1))
    wish = ToolCall("c1", "read_file", {"path": name}, "{}")
    return [assistant("", (wish,)), Message("tool", (Text(text + rest),), tool_call_id="c1")]


def editing(name: str) -> list[Message]:
    wish = ToolCall("c1", "edit_file", {"path": f"/project/{name}"}, "{}")
    return [assistant("", (wish,)), Message("tool", (Text("Edited"),), tool_call_id="c1")]


def requests(messages: list[Message]) -> list[FocusedMessages]:
    """Return the focused messages of each request of a conversation."""
    ends = [at for at, result in enumerate(messages) if result.role == "assistant" and at]
    return [FOCUS.fit(messages[:end], MOST) for end in (*ends, len(messages))]


def evicted(shown: FocusedMessages) -> list[int]:
    return [at for at, result in enumerate(shown.messages) if EVICTED in result.text]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([1, 30, 80, 150, 300])),
        st.tuples(st.sampled_from("abcdefgh"), st.none()),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(STEPS)
@example([("e", 300), ("e", 300), ("e", 1)])
def test_requests_continue_each_other_and_keep_the_latest_files(
    steps: list[tuple[str, int | None]],
) -> None:
    messages = [user("go")]
    for name, lines in steps:
        messages += editing(name) if lines is None else reading(name, lines)
    earlier: FocusedMessages | None = None
    for shown in requests(messages):
        raw = messages[: len(shown.messages)]
        assert [(message.role, message.tool_call_id) for message in shown.messages] == [
            (item.role, item.tool_call_id) for item in raw
        ]
        # The model has not seen the newest result before this request.
        assert shown.messages[-1] == raw[-1]
        # A file that the newest result shows stays in all places.
        results = dict(zip(range(2, len(raw), 2), steps, strict=False))
        newest = next((name for name, _ in reversed(results.values())), None)
        places = [at for at, (name, _) in results.items() if name != newest]
        assert sum(estimate(shown.messages[at]) for at in places) <= MOST + 150 * len(raw)
        if earlier is not None:
            start = shown.messages[: len(earlier.messages)]
            assert shown.newly_evicted or start == earlier.messages
            assert set(evicted(earlier)) <= set(evicted(shown))
        earlier = shown
    assert earlier is not None
    assert FOCUS.fit(list(earlier.messages), MOST).messages == earlier.messages


def test_least_recently_used_file_is_dropped() -> None:
    messages = [user("go"), *reading("a", 120), *reading("b", 200), *editing("a")]
    messages += [*reading("c", 120), *reading("d", 10)]
    shown = requests(messages)[-1]
    assert evicted(shown) == [4]
    assert [file.path.rpartition("/")[2] for file in shown.files] == ["d", "c", "a", "b"]
    assert [file.is_evicted for file in shown.files] == [False, False, False, True]
    assert shown.messages[4].text == (
        "[200 lines of /project/b were left out to make room (name_1, name_2, name_3, name_4, "
        "name_5, name_6, name_7, name_8, …). Read the file again if you need it.]"
    )


def test_instructions_loaded_with_a_file_stay() -> None:
    rules = "\n\n[AGENTS.md of this folder:]\nUse tabs."
    messages = [user("go"), *reading("a", 200, rules), *reading("b", 300), *reading("c", 10)]
    text = requests(messages)[-1].messages[2].text
    assert EVICTED in text
    assert text.endswith("Use tabs.")


def test_file_mentioned_by_a_person_is_dropped_too() -> None:
    shown_file = render_prompt("project_file", path="/project/a", text="a word of it\n" * 900)
    question = Message("user", (Context("Monday"), Context(shown_file), Text("look")))
    messages = [question, *reading("b", 200), *reading("c", 10)]
    shown = requests(messages)[-1]
    day, line, words = shown.messages[0].content
    assert (day, words) == (Context("Monday"), Text("look"))
    assert isinstance(line, Context)
    assert EVICTED in line.text
    assert shown.files[-1].is_evicted


def test_text_of_a_person_is_not_taken_for_a_file() -> None:
    words = render_prompt("project_file", path="/project/a", text="a word of it\n" * 2_000)
    messages = [user(words), *reading("b", 300), *reading("c", 10)]
    assert requests(messages)[-1].messages[0].text == words


async def test_omitted_files_are_reported_once(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(f"this is a line of the file {name}\n" * 400)
    steps = [calls(call("read_file", path=name)) for name in "abc"]
    again = calls(call("read_file", path="a"))
    agent, model = scripted([*steps, again, "done", "fine"], tmp_path)
    agent.models._open[model.name] = replace(agent.models.open(), context_tokens=14_000)
    seen = [event async for event in agent.stream("read them")]
    seen += [event async for event in agent.stream("thanks")]
    reasons = [item.reason for item in seen if isinstance(item, events.Evicted)]
    assert reasons == ["Context full, 2 files evicted"]
    texts = results(model.requests[4].messages)
    assert [EVICTED in text for text in texts] == [True, True, False, False]
    assert texts[3].startswith("  1\tthis is a line of the file a")


def test_files_are_listed_with_tokens_and_age() -> None:
    messages = [user("go"), *reading("src/a", 100), *reading("b", 10), *reading("/etc/c", 20)]
    files = FOCUS.replay(messages, 900).files
    assert files_table(files, FOLDER, 8).splitlines() == [
        "files, most recently used first:",
        f"/etc/c      {files[0].tokens}  1 message ago",
        f"b           {files[1].tokens:>3}  3 messages ago",
        "src/a   evicted  5 messages ago",
    ]
    assert files_table((), FOLDER, 8) == ""
    many = [replace(files[0], path=f"/project/{n}") for n in range(12)]
    assert files_table(many, FOLDER, 7).splitlines()[-1] == "and 2 more files"
