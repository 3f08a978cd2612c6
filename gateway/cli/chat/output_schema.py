"""Answers that match a JSON schema, for scripts."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import BadOutput, ConfigError
from agent.i18n import t
from agent.prompts import render_prompt
from agent.records import frozen
from agent.run.options import last_words
from agent.serialization import dumps
from agent.tools.json_schema import SchemaTooComplex, SchemaValidator
from agent.tools.schema_flaws import find_flaw
from agent.types import Result
from gateway.config.json_files.document import parse, read_object

_FENCE = re.compile(r"^```(?:json)?[ \t]*\n(.*?)\n```[ \t]*$", re.DOTALL | re.MULTILINE)


@frozen
class OutputSchema:
    """JSON schema of an answer.

    The model answers in a code block. Links in ordinary text are defused, which could change JSON;
    code is unchanged.
    """

    schema: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> "OutputSchema":
        """Return the schema in a file. Raises `ConfigError`."""
        schema = read_object(path)
        if schema is None:
            raise ConfigError(t("--output-schema {file}: no such file", file=path))
        try:
            flaw = find_flaw(schema)
        except SchemaTooComplex as exc:
            raise ConfigError(
                t("--output-schema {file}: the schema is too complex", file=path)
            ) from exc
        if flaw is not None:
            raise ConfigError(t("--output-schema {file}: {reason}", file=path, reason=flaw))
        return cls(schema)

    def request(self, text: str) -> str:
        """Return the text with a request for an answer that matches this schema."""
        return f"{text}\n\n{render_prompt('output_schema', schema=dumps(self.schema))}"

    def read(self, result: Result) -> Any:
        """Return the JSON value of the last reply. Raises `BadOutput` with the reason."""
        reply = last_words(result)
        blocks = _FENCE.findall(reply)
        try:
            value = parse(blocks[-1] if blocks else reply.strip())
            violation = SchemaValidator(self.schema).find_violation(value)
        except ValueError as exc:
            raise BadOutput(t("the answer is not JSON: {reason}", reason=exc)) from exc
        except SchemaTooComplex as exc:
            raise BadOutput(t("the answer is too complex to check it by the schema")) from exc
        if violation is None:
            return value
        place = ".".join(map(str, violation.place))
        reason = f"{place}: {violation.message}" if place else violation.message
        raise BadOutput(t("the answer does not match the schema: {reason}", reason=reason))
