"""Structured answers: a dataclass, a pydantic model or any type that pydantic supports."""

import json
import re
from dataclasses import replace
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from agent.errors import BadOutput
from agent.i18n import t
from agent.prompts import render_prompt
from agent.types import Message, Text, user

_FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class StructuredOutput:
    """Request and parser for answers of one type."""

    def __init__(self, output_type: Any) -> None:
        """Raise `TypeError` for a type without a JSON schema."""
        try:
            self._adapter = TypeAdapter(output_type)
            self._schema = json.dumps(self._adapter.json_schema(), ensure_ascii=False)
        except PydanticUserError as exc:
            reason = str(exc).split("\n")[0]
            raise TypeError(f"output_type cannot be described to a model: {reason}") from exc

    def request(self, prompt: str | Message) -> Message:
        """Return the prompt with the schema of the answer appended."""
        message = prompt if isinstance(prompt, Message) else user(prompt)
        shape = render_prompt("output_shape", schema=self._schema)
        return replace(message, content=(*message.content, Text(f"\n\n{shape}")))

    def read(self, answer: str) -> Any:
        """Return the value in the answer. Raise `BadOutput` with the reasons if it is invalid."""
        fence = _FENCE.search(answer)
        try:
            return self._adapter.validate_json((fence[1] if fence else answer).strip())
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False)
            places = [
                ".".join(map(str, error["loc"])) + ": " * bool(error["loc"]) + error["msg"]
                for error in errors[:5]
            ]
            raise BadOutput(
                t("the answer does not fit output_type: {reasons}", reasons="; ".join(places))
            ) from exc
