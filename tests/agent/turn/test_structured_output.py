"""Answers of a type specified by the program."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest

import kore
from agent.errors import BadOutput
from agent.providers.scripted import ScriptedProvider
from agent.tools.function_tool import tool
from agent.types import Image
from tests.agent.props import call, calls


@dataclass
class City:
    name: str
    people: int


class Route(pydantic.BaseModel):
    stops: list[City]


class Opaque:
    """A type that JSON cannot represent."""


OSLO = '{"name": "Oslo", "people": 717710}'


@pytest.mark.parametrize(
    ("output_type", "answer", "value"),
    [
        (City, OSLO, City("Oslo", 717710)),
        (City, f"```json\n{OSLO}\n```", City("Oslo", 717710)),
        (Route, f'{{"stops": [{OSLO}]}}', Route(stops=[City("Oslo", 717710)])),
        (list[int], "[1, 2]", [1, 2]),
        (bool, "true", True),
    ],
)
async def test_answer_is_a_value_of_its_type(
    tmp_path: Path, output_type: Any, answer: str, value: object
) -> None:
    model = ScriptedProvider([answer])
    result = await kore.run("Where?", model=model, workspace=tmp_path, output_type=output_type)
    assert result.output == value
    assert type(result.output) is type(value)
    question = model.requests[0].messages[0].text
    assert question.startswith("Where?\n\nAnswer with one JSON value")


async def test_invalid_answer_is_requested_again(tmp_path: Path) -> None:
    model = ScriptedProvider(["Oslo, of course.", '{"name": "Oslo"}', OSLO])
    result = await kore.Agent(model, workspace=tmp_path).run("Where?", output_type=City)
    assert result.output == City("Oslo", 717710)
    second, third = (request.messages[-1].text for request in model.requests[1:])
    assert "Invalid JSON" in second
    assert "people: Field required" in third
    assert len(model.requests[2].messages) == 5
    assert len(result.messages) == 3


async def test_repeatedly_invalid_answer_is_an_error(tmp_path: Path) -> None:
    model = ScriptedProvider(["no"] * 3)
    with pytest.raises(BadOutput, match="does not fit output_type"):
        await kore.run("Where?", model=model, workspace=tmp_path, output_type=City)
    assert len(model.requests) == 3


async def test_text_before_a_call_is_not_part_of_the_output(tmp_path: Path) -> None:
    @tool(effect="read", brings=())
    def look() -> str:
        """Look."""
        return "Oslo"

    model = ScriptedProvider([calls(call("look"), text="Let me look."), OSLO])
    result = await kore.run(
        "Where?", model=model, tools=[look], workspace=tmp_path, output_type=City
    )
    assert result.output == City("Oslo", 717710)


async def test_prompt_with_a_picture_keeps_it(tmp_path: Path) -> None:
    model = ScriptedProvider([OSLO])
    prompt = kore.Message("user", (Image("image/png", b"x"), kore.Text("Where is it?")))
    await kore.run(prompt, model=model, workspace=tmp_path, output_type=City)
    assert Image("image/png", b"x") in model.requests[0].messages[0].content


def test_type_without_a_json_schema_is_rejected_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="output_type cannot be described to a model"):
        kore.run_sync("x", model="offline/echo", workspace=tmp_path, output_type=Opaque)
