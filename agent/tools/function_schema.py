"""JSON schema of a function's signature, and validation of calls. Imports pydantic."""

import inspect
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, NotRequired, get_args, get_origin

import pydantic_core
from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agent.errors import ToolError
from agent.records import frozen
from agent.tools.base import CallContext
from agent.tools.run_context import RunContext
from agent.types import JsonSchema


@frozen
class FunctionSchema:
    """Arguments of a function: the injected ones by name, the others in `schema`.

    `context` names the argument for the call, `run` the argument for the run; `deps_type` is the
    type of the run's dependencies.
    """

    name: str
    schema: JsonSchema
    adapter: TypeAdapter[Any]
    context: str | None
    run: str | None = None
    deps_type: Any = None

    @staticmethod
    def of(
        name: str, function: Callable[..., Any], descriptions: Mapping[str, str]
    ) -> "FunctionSchema":
        """Return the schema of a function. Raises TypeError for a type hint without a JSON form."""
        fields: dict[str, Any] = {}
        context = run = deps_type = None
        hints = _hints(name, function)
        for parameter in inspect.signature(function).parameters.values():
            hint = hints[parameter.name]
            if hint is CallContext:
                context = parameter.name
                continue
            if hint is RunContext or get_origin(hint) is RunContext:
                run, deps_type = parameter.name, next(iter(get_args(hint)), None)
                continue
            hint = _describe(hint, descriptions.get(parameter.name))
            required = parameter.default is parameter.empty
            fields[parameter.name] = hint if required else NotRequired[hint]
        typed_dict: Any = TypedDict
        arguments = typed_dict("Arguments", fields)
        arguments.__pydantic_config__ = ConfigDict(hide_input_in_errors=True)
        try:
            adapter = TypeAdapter(arguments)
            schema = plain_schema(adapter.json_schema())
        except PydanticUserError as exc:
            reason = str(exc).split("\n")[0]
            raise TypeError(
                f"{name}: a type hint cannot be described to a model: {reason}"
            ) from exc
        return FunctionSchema(name, schema, adapter, context, run, deps_type)

    def arguments(self, args: Mapping[str, Any], call: CallContext) -> dict[str, Any]:
        """Return the arguments of the function. Raises `ToolError` if they do not fit its hints."""
        try:
            values: dict[str, Any] = self.adapter.validate_python(dict(args))
        except ValidationError as exc:
            first = exc.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            what = first["msg"][:1].lower() + first["msg"][1:]
            raise ToolError(f"{self.name}: {where}: {what}.") from exc
        values = {name: _add_zone(value) for name, value in values.items()}
        if self.context:
            values[self.context] = call
        if self.run:
            values[self.run] = RunContext.of(call.environment)
        return values

    def text(self, value: Any) -> str:
        """Return a function's result as text for the model. Raises `ToolError`."""
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        try:
            return pydantic_core.to_json(value).decode()
        except (ValueError, TypeError) as exc:
            kind = type(value).__name__
            raise ToolError(
                f"{self.name} failed: it returned {kind}, which is neither text nor JSON."
            ) from exc


def _add_zone(value: Any) -> Any:
    """Add this machine's time zone to every naive time."""
    match value:
        case datetime() if value.tzinfo is None:
            return value.astimezone()
        case list():
            return [_add_zone(item) for item in value]
        case dict():
            return {key: _add_zone(entry) for key, entry in value.items()}
    return value


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as exc:
        raise TypeError(f"{name}: a type hint refers to an unknown name: {exc}") from exc


def _describe(hint: Any, description: str | None) -> Any:
    """Return the hint with its description: from the hint itself, or else from the docstring."""
    if get_origin(hint) is Annotated:
        annotations = [
            annotation for annotation in get_args(hint)[1:] if isinstance(annotation, str)
        ]
        description = annotations[0] if annotations else description
    return Annotated[hint, Field(description=description)] if description else hint


def plain_schema(schema: dict[str, Any]) -> JsonSchema:
    """Return a schema without titles and references, which some vendors do not support.

    Optional arguments lose their `null` alternative, since the model can omit them.
    """
    definitions = schema.pop("$defs", {})
    plain: dict[str, Any] = _resolve(schema, definitions, ())
    required = plain.get("required", ())
    properties = plain.setdefault("properties", {})
    for name, each in properties.items():
        if name not in required:
            properties[name] = _without_null(each)
    return plain


def _resolve(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_resolve(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str):
        name = reference.rpartition("/")[2]
        if name in inside:
            # Recursive: from here any value is accepted, and pydantic validates it.
            return {"type": "object"}
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _resolve({**definitions[name], **beside}, definitions, (*inside, name))
    plain = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _resolve(each, definitions, inside) for name, each in value.items()}
        elif (key != "title" or not isinstance(value, str)) and (key, value) != ("default", None):
            plain[key] = _resolve(value, definitions, inside)
    return plain


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    kinds = node.get("anyOf", [])
    other_kinds = [kind for kind in kinds if kind != {"type": "null"}]
    if len(other_kinds) != 1 or len(kinds) != 2:
        return node
    return {**other_kinds[0], **{key: value for key, value in node.items() if key != "anyOf"}}
