"""Text below an answer, which stays outside of the answer's code blocks."""

import pytest

from agent.types import Result, assistant
from gateway.channels.telegram.outbound.render import render
from gateway.turns.outcome import TurnOutcome, answer, task_outcome

TRACE = "🔧 `exec` · **1** file changed"
SHOWN = "🔧 exec · 1 file changed"
OPEN = [
    "Look:\n```python\nx = 1",
    "Look:\n~~~~\nx = 1\n~~~",
    "Look:\n````\n```\nx = 1\n```",
    "1. Look:\n   ```\n   x = 1",
    "- Look:\n  ```\n  x = 1",
    "- ```\n  x = 1",
    "> ```\n> x = 1",
    "  ```\nx = 1\n",
    "- ```\n  x = 1\n\nNo more\n```\nx = 1",
]
WHOLE = [
    "Look:\n```\nx = 1\n```",
    "Look: ```x = 1```",
    "- ```\n  x = 1\n\nx = 1 is all",
    "> ```\n> x = 1\n\nx = 1 is all",
    "~~~\n```\nx = 1\n~~~",
]


@pytest.mark.parametrize("text_of_answer", [*OPEN, *WHOLE])
def test_trace_follows_unclosed_code(text_of_answer: str) -> None:
    result = Result(True, text_of_answer, "s", (assistant(text_of_answer),))
    (part,) = render(answer(TurnOutcome(result=result, trace=TRACE)))
    assert part.text.endswith(f"\n\n{SHOWN}")
    assert "x = 1" in part.text.removesuffix(SHOWN)
    begins = len(part.text.encode("utf-16-le")) // 2 - len(SHOWN.encode("utf-16-le")) // 2
    assert all(
        entity.offset + entity.length <= begins for entity in part.entities if entity.type == "pre"
    )
    assert [entity.type for entity in part.entities if entity.offset >= begins] == ["code", "bold"]


@pytest.mark.parametrize("text_of_answer", OPEN)
def test_stop_notice_follows_unclosed_code(text_of_answer: str) -> None:
    result = Result(False, "", "s", (assistant(text_of_answer),), stopped="cancelled")
    (part,) = render(answer(TurnOutcome(result=result)))
    assert part.text.endswith("\n\n⏹ Stopped.")
    assert all(
        part.text.encode("utf-16-le")[2 * entity.offset :][: 2 * entity.length].decode("utf-16-le")
        .find("Stopped") < 0
        for entity in part.entities
    )  # fmt: skip


def test_caller_of_a_silent_subagent_reads_a_sentence() -> None:
    result = Result(True, "", "s", (assistant(""),))
    assert task_outcome(TurnOutcome(result=result), frozenset()).text == "It returned no text."
