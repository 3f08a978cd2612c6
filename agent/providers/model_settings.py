"""Model settings that vendors share, under their usual names."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, fields, replace
from typing import Any, Literal, cast, get_args

from agent.errors import ConfigError
from agent.events import ModelEvent, Notice
from agent.i18n import t
from agent.providers.base import ModelRequest
from agent.providers.effort import EFFORTS
from agent.records import frozen
from agent.types import ReasoningEffort

Verbosity = Literal["low", "medium", "high"]
_VERBOSITIES: tuple[Verbosity, ...] = get_args(Verbosity)
_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
}
# Fields that the agent writes into each request.
_OWN_FIELDS = frozenset(
    {"input", "instructions", "messages", "model", "stream", "system", "tool_choice", "tools"}
)
# Settings with their own field in `ModelRequest`.
_FIELDS = frozenset({"temperature", "max_tokens"})


@frozen
class ModelSettings:
    """Settings of a model's replies; None leaves the choice to the model.

    `tool_choice` is auto, none, required, or the name of the tool to call. After the first call of
    a turn, required and a name mean auto, so that the turn can end. `response_format` is that of
    OpenAI's chat completions, such as `{"type": "json_schema", "json_schema": {…}}`, in every API.
    `extra_body` contains further request fields as the vendor names them. A setting that an API
    does not support is left out, with a notice (docs/library-runs.md lists them).
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop_sequences: Sequence[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    verbosity: Verbosity | None = None
    tool_choice: str | None = None
    response_format: Mapping[str, Any] | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise `ConfigError` for a value that no vendor accepts."""
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and least <= value <= most):
                raise _bad(
                    name, t("a number from {least} to {most}", least=least, most=most), value
                )
        if not (self.seed is None or type(self.seed) is int):
            raise _bad("seed", t("a whole number"), self.seed)
        if self.max_tokens is not None and not (
            type(self.max_tokens) is int and self.max_tokens > 0
        ):
            raise _bad("max_tokens", t("a count above 0"), self.max_tokens)
        if self.reasoning_effort not in (None, *EFFORTS):
            raise _bad("reasoning_effort", ", ".join(EFFORTS), self.reasoning_effort)
        if self.verbosity not in (None, *_VERBOSITIES):
            raise _bad("verbosity", ", ".join(_VERBOSITIES), self.verbosity)
        if self.parallel_tool_calls not in (None, True, False):
            raise _bad("parallel_tool_calls", "True, False", self.parallel_tool_calls)
        if self.tool_choice is not None and not (
            isinstance(self.tool_choice, str) and self.tool_choice
        ):
            raise _bad("tool_choice", "auto, none, required, NAME", self.tool_choice)
        self._check_structures()

    def _check_structures(self) -> None:
        stops = self.stop_sequences
        if stops is not None and (
            isinstance(stops, str) or not all(isinstance(stop, str) and stop for stop in stops)
        ):
            raise _bad("stop_sequences", t("a list of strings"), stops)
        for name in ("extra_body", "response_format"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) and (value is not None or name == "extra_body"):
                raise _bad(name, t("a mapping"), value)
        if own := sorted(_OWN_FIELDS & self.extra_body.keys()):
            raise ConfigError(
                t("model_settings.extra_body cannot set {names}", names=", ".join(own))
            )
        try:
            json.dumps([dict(self.extra_body), dict(self.response_format or {})])
        except (TypeError, ValueError) as exc:
            raise _bad("extra_body", "JSON", exc) from exc

    def over(self, other: "ModelSettings | None") -> "ModelSettings":
        """Return these settings, with unset values taken from `other`."""
        if other is None:
            return self
        own = {
            attribute.name: value
            for attribute in fields(self)
            if (value := getattr(self, attribute.name)) is not None
        }
        own["extra_body"] = {**other.extra_body, **self.extra_body}
        return replace(other, **own)

    def options(self) -> dict[str, Any]:
        """Return the settings for `ModelRequest.options`."""
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        if not self.extra_body:
            del values["extra_body"]
        if self.stop_sequences is not None:
            values["stop_sequences"] = list(self.stop_sequences)
        return {
            name: value
            for name, value in values.items()
            if value is not None and name not in _FIELDS
        }


def is_forced(tool_choice: object) -> bool:
    """Return whether the model has to call a tool."""
    return tool_choice not in (None, "auto", "none")


def schema_in(response_format: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of a `response_format`; None if it has none."""
    form = response_format.get("json_schema")
    schema = form.get("schema") if isinstance(form, Mapping) else None
    return schema if isinstance(schema, Mapping) else None


class UnsupportedSettings:
    """Notices about settings that an API does not support, one for each model and setting."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._notified: set[tuple[str, str]] = set()

    def announced(
        self, request: ModelRequest, stream: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        """Return the stream, with a notice before its first event if settings are left out."""
        options = request.options
        if options.keys().isdisjoint(self._names):
            return stream
        names = [
            name
            for name in sorted(self._names & options.keys())
            if options[name] is not None and (request.model, name) not in self._notified
        ]
        self._notified |= {(request.model, name) for name in names}
        return self._with_notice(request.model, names, stream) if names else stream

    async def _with_notice(
        self, model: str, names: list[str], stream: AsyncIterator[ModelEvent]
    ) -> AsyncGenerator[ModelEvent]:
        # Providers are async generators; closing one ends its connection at once.
        async with aclosing(cast(AsyncGenerator[ModelEvent], stream)) as events:
            async for event in events:
                if names:
                    text = t(
                        "{model}: left out {names}, which its API does not support",
                        model=model,
                        names=", ".join(names),
                    )
                    names = []
                    yield Notice("warning", text)
                yield event


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bad(name: str, expected: str, value: object) -> ConfigError:
    return ConfigError(
        t(
            "model_settings.{name}: expected {expected}, found {value}",
            name=name,
            expected=expected,
            value=repr(value)[:80],
        )
    )
