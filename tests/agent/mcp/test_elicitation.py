"""Questions of servers: what a person is asked, and what the server gets."""

from typing import Any

import pytest

types = pytest.importorskip("mcp.types", reason="needs the extra mcp")

from agent.mcp.elicitation import Elicitation, ElicitationAnswer, elicit  # noqa: E402 - skipped

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your na\u202eme"},
        "age": {"type": "integer", "default": 30},
        "wrong": "no schema",
    },
    "required": ["name"],
}


async def question_and_result(params: Any, answer: ElicitationAnswer) -> tuple[Elicitation, Any]:
    questions: list[Elicitation] = []

    async def person(question: Elicitation) -> ElicitationAnswer:
        questions.append(question)
        return answer

    result = await elicit("shop", params, person)
    (question,) = questions
    return question, result


def form(schema: dict[str, Any]) -> Any:
    return types.ElicitRequestFormParams(message="Who?\u200b", requested_schema=schema)


async def test_a_form_is_filled_in_with_defaults_and_nothing_unasked() -> None:
    answer = ElicitationAnswer("accept", {"name": "Ada", "password": "not asked for"})
    question, result = await question_and_result(form({**SCHEMA}), answer)
    assert [(one.name, one.is_required) for one in question.fields] == [
        ("name", True),
        ("age", False),
    ]
    # Nothing invisible changes what a person reads.
    assert "\u202e" not in question.fields[0].title
    assert "\u200b" not in question.message
    assert (result.action, result.content) == ("accept", {"name": "Ada", "age": 30})


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_says_nothing_else(action: Any) -> None:
    _, result = await question_and_result(
        form({**SCHEMA}), ElicitationAnswer(action, {"name": "Ada"})
    )
    assert (result.action, result.content) == (action, None)


async def test_a_page_is_named_and_its_answer_carries_nothing() -> None:
    params = types.ElicitRequestURLParams(
        message="Pay", url="https://example.org/pay", elicitation_id="1"
    )
    question, result = await question_and_result(
        params, ElicitationAnswer("accept", {"name": "Ada"})
    )
    assert (question.url, question.fields) == ("https://example.org/pay", ())
    assert (result.action, result.content) == ("accept", None)
