"""An answer of a given shape: a dataclass, a pydantic model, or any type that pydantic knows."""

import json
import re
from dataclasses import replace
from typing import Any

from agent.errors import BadOutput
from agent.i18n import t
from agent.prompts import render_prompt
from agent.types import Message, Text, user

_FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class StructuredOutput:
    """Asks for answers of one type, and reads them."""

    def __init__(self, output_type: Any) -> None:
        """Raises `TypeError` for a type that no JSON schema can be made of."""
        from pydantic import PydanticUserError, TypeAdapter

        try:
            self._adapter = TypeAdapter(output_type)
            self._schema = json.dumps(self._adapter.json_schema(), ensure_ascii=False)
        except PydanticUserError as exc:
            reason = str(exc).split("\n")[0]
            raise TypeError(f"output_type cannot be told to a model: {reason}") from exc

    def request(self, prompt: str | Message) -> Message:
        """The prompt, with the shape that its answer is to have."""
        message = prompt if isinstance(prompt, Message) else user(prompt)
        shape = render_prompt("output_shape", schema=self._schema)
        return replace(message, content=(*message.content, Text(f"\n\n{shape}")))

    def read(self, answer: str) -> Any:
        """The value that the answer holds. Raises `BadOutput`, which says what is wrong with it."""
        from pydantic import ValidationError

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
