"""Reduction of old tool results to one line."""

from hypothesis import given

from agent.context.compaction.compactor import SHORT_CHARS, shorten_old_result, shorten_old_results
from agent.context.history_validation import is_valid
from agent.providers.token_estimate import estimate
from agent.types import Image, Message, Text, assistant, user
from tests.agent.strategies import rounds


def result(text: str, call_id: str = "c") -> Message:
    return Message("tool", (Text(text),), (), call_id, True, frozenset({"untrusted"}))


def test_long_result_is_pruned_to_one_tainted_line() -> None:
    line = shorten_old_result(result("x" * 5000))
    assert "5,000 characters" in line.text
    assert len(line.text) < 200
    assert (line.tool_call_id, line.is_error, line.taint) == ("c", True, frozenset({"untrusted"}))


def test_pruned_line_names_the_saved_result() -> None:
    text = "x" * 5000 + "\n… (9 bytes left out; whole text in /w/.kore/spill/1.txt)\n"
    assert "/w/.kore/spill/1.txt" in shorten_old_result(result(text)).text


def test_short_results_and_messages_are_not_pruned() -> None:
    for message in (result("x" * SHORT_CHARS), user("y" * 9000), assistant("z" * 9000)):
        assert shorten_old_result(message) is message


def test_picture_in_a_result_is_pruned() -> None:
    shown = Message("tool", (Text("see"), Image("image/png", b"x" * 999)), (), "c")
    assert shorten_old_result(shown).content != shown.content
    assert all(isinstance(part, Text) for part in shorten_old_result(shown).content)


@given(rounds())
def test_pruning_is_valid_stable_and_never_longer(
    messages: list[Message],
) -> None:
    once = shorten_old_results(messages, len(messages) // 2)
    assert is_valid(once)
    assert shorten_old_results(once, len(messages) // 2) == once
    assert once[len(messages) // 2 :] == messages[len(messages) // 2 :]
    assert sum(map(estimate, once)) <= sum(map(estimate, messages))
