"""A function's signature as a JSON schema, and calls checked against it. Loads pydantic."""

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
    """`context` names the argument that is given the call, `run` that of the run, whose `deps_type`
    it says; the others stand in `schema`."""

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
        """Raises TypeError for a type hint that no JSON can be made of."""
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
            raise TypeError(f"{name}: a type hint cannot be told to a model: {reason}") from exc
        return FunctionSchema(name, schema, adapter, context, run, deps_type)

    def arguments(self, args: Mapping[str, Any], call: CallContext) -> dict[str, Any]:
        """What the function is called with. Raises `ToolError` for what its hints do not allow."""
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
        """What a function has returned, as the model reads it. Raises `ToolError`."""
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
    """With this machine's time zone for every time that came without one."""
    match value:
        case datetime() if value.tzinfo is None:
            return value.astimezone()
        case list():
            return [_add_zone(one) for one in value]
        case dict():
            return {key: _add_zone(one) for key, one in value.items()}
    return value


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as exc:
        raise TypeError(f"{name}: a type hint names what cannot be found: {exc}") from exc


def _describe(hint: Any, description: str | None) -> Any:
    """The hint with what is said of it: in the hint itself, or else in the docstring."""
    if get_origin(hint) is Annotated:
        annotations = [
            annotation for annotation in get_args(hint)[1:] if isinstance(annotation, str)
        ]
        description = annotations[0] if annotations else description
    return Annotated[hint, Field(description=description)] if description else hint


def plain_schema(schema: dict[str, Any]) -> JsonSchema:
    """Without titles, and with every reference resolved: some vendors know neither.

    Optional arguments lose their null, since the model can leave them out.
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
        return [_resolve(each, definitions, inside) for each in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str):
        name = reference.rpartition("/")[2]
        if name in inside:
            # It contains itself: below here anything goes, and pydantic checks it.
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
    others = [kind for kind in kinds if kind != {"type": "null"}]
    if len(others) != 1 or len(kinds) != 2:
        return node
    return {**others[0], **{key: value for key, value in node.items() if key != "anyOf"}}
