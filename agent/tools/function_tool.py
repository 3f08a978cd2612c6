"""`@kore.tool`: make a tool from a function with type hints and a docstring."""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, get_origin, overload

from agent.errors import ConfigError, ToolError
from agent.i18n import t
from agent.prompts import load_prompt
from agent.security.taint.taint import BOTH
from agent.settings import ToolSettings
from agent.tools.base import CallContext, Tool
from agent.tools.output_spill import SpillBuffer, spill_folder
from agent.tools.traits import UNKNOWN, ToolTraits
from agent.types import Effect, Image, JsonSchema, Taint, ToolKind, ToolResult

if TYPE_CHECKING:
    from docstring_parser import Docstring

    from agent.tools.function_schema import FunctionSchema

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class FunctionTool(Generic[P, R]):
    """Tool made from a function; it can still be called as a function.

    A plain function runs in a thread and cannot be interrupted: after a stop it runs to completion,
    and its result is discarded.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        effect: Effect = "unsafe",
        name: str | None = None,
        brings: Iterable[Taint] | None = None,
        asks: bool = False,
        kind: ToolKind | None = None,
    ) -> None:
        self.asks = asks
        self.traits = UNKNOWN if kind is None else ToolTraits(kind)
        self.name = str(name or getattr(function, "__name__", ""))
        if not _NAME.fullmatch(self.name):
            raise TypeError(
                f"a tool cannot be named {self.name!r}: a name has 1 to 64 letters, digits, _ and -"
            )
        self.effect: Effect = effect
        self.brings = BOTH if brings is None else frozenset(brings)
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        if not (function.__doc__ or "").strip():
            raise TypeError(f"{self.name} needs a docstring: it tells the model what the tool does")
        _refuse_unusable(self.name, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    @property
    def description(self) -> str:
        return (self._docstring.description or self.__doc__ or "").strip()

    @cached_property
    def _docstring(self) -> "Docstring":
        # Imported here, so that merely defining a tool is cheap.
        from docstring_parser import parse

        return parse(self.__doc__ or "")

    @cached_property
    def _signature(self) -> "FunctionSchema":
        # Imported here, because it loads pydantic.
        from agent.tools.function_schema import FunctionSchema

        described = {
            parameter.arg_name.lstrip("*"): " ".join(parameter.description.split())
            for parameter in self._docstring.params
            if parameter.description
        }
        return FunctionSchema.of(self.name, self.__wrapped__, described)

    def check_deps(self, deps: object) -> None:
        """Raise `ConfigError` if the function expects dependencies of another type."""
        expected = self._signature.deps_type
        # For other hints, such as unions and protocols, the type checker is the better judge.
        if not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
            return
        if not isinstance(deps, get_origin(expected) or expected):
            raise ConfigError(
                t(
                    "the tool {tool} needs deps= of the type {expected}, found {value}",
                    tool=self.name,
                    expected=expected.__name__,
                    value=type(deps).__name__,
                )
            )

    @property
    def parameters(self) -> JsonSchema:
        """JSON schema, made on first use. Raises TypeError for an argument without a hint."""
        return self._signature.schema

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        arguments = self._signature.arguments(args, call)
        function: Callable[..., Any] = self.__wrapped__
        if inspect.iscoroutinefunction(inspect.unwrap(function)):
            value = await function(**arguments)
        else:
            value = await asyncio.to_thread(_call_function, function, arguments)
            if inspect.isawaitable(value):
                value = await value
        return value if isinstance(value, ToolResult) else self._result(value, call)

    def _result(self, value: Any, call: CallContext) -> ToolResult:
        images, value = _split_images(value)
        text = self._signature.text(value)
        marks = call.workspace if "untrusted" in self.brings | call.taint else None
        limit = ToolSettings().output_limit_bytes
        with SpillBuffer(spill_folder(call.workspace), limit, marks) as output:
            output.feed(call.redactor.clean(text).encode("utf-8", "replace"))
        words = load_prompt("no_result" if not images else "result_pictures")
        return output.with_truncation_note(ToolResult(output.text() or words, images=images))


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    effect: Effect = "unsafe",
    name: str | None = None,
    brings: Iterable[Taint] | None = None,
    asks: bool = False,
    kind: ToolKind | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect = "unsafe",
    name: str | None = None,
    brings: Iterable[Taint] | None = None,
    asks: bool = False,
    kind: ToolKind | None = None,
) -> Any:
    """Make a tool from a function: `@kore.tool`, or `@kore.tool(effect="read")`.

    The schema comes from the type hints, the descriptions for the model from the docstring,
    arguments included. An argument of the type `RunContext[Deps]` receives the run with its
    dependencies, an argument of the type `CallContext` the call. The function may be async, and
    returns a text, a `ToolResult`, an `Image`, a list with images, or any value with a JSON form;
    the model reads the exceptions that it raises. `effect` decides the handling of a call after a
    crash (`read`, `idempotent`, `unsafe`). `brings` is the taint of its results: strangers' words,
    private data, or both by default. With `asks`, its calls are judged like calls of built-in tools
    and may need a person's consent. Without it they run in any mode but `plan`, since you wrote the
    function. The `kind` of a tool that changes files is `edit`, `move` or `delete`: a policy that
    limits editing then limits the tool, too.

    Raises TypeError for a function without docstring or hints.
    """

    def make_tool(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, effect=effect, name=name, brings=brings, asks=asks, kind=kind)

    return make_tool if function is None else make_tool(function)


def read_tools(tools: object) -> tuple[Tool, ...]:
    """Return the tools of a program; plain functions are converted by `tool`. Raises TypeError."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise TypeError(f"tools: expected a list of tools, found {_short(tools)}")
    return tuple(map(_read_tool, tools))


def _read_tool(value: Any) -> Tool:
    if inspect.isroutine(value):
        return FunctionTool(value)
    if isinstance(value, type) or not callable(getattr(value, "run", None)):
        raise TypeError(f"tools: expected a function or a kore.Tool, found {_short(value)}")
    tool_of_program: Tool = value
    return tool_of_program


def _short(value: object) -> str:
    return repr(value)[:80]


def _split_images(value: Any) -> tuple[tuple[Image, ...], Any]:
    """Split a function's result into pictures and the rest: text or any other value."""
    if isinstance(value, Image):
        return (value,), None
    if not isinstance(value, list | tuple) or not any(isinstance(item, Image) for item in value):
        return (), value
    images = tuple(item for item in value if isinstance(item, Image))
    rest = [item for item in value if not isinstance(item, Image)]
    return images, rest[0] if len(rest) == 1 else rest or None


def _call_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as exc:
        # A future cannot carry StopIteration: the caller would wait for the thread forever.
        raise ToolError("The function raised StopIteration.") from exc


def _refuse_unusable(name: str, function: Callable[..., Any]) -> None:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: {parameter} cannot be given by name")
        if parameter.annotation is parameter.empty:
            raise TypeError(f"{name}: the argument {parameter.name!r} needs a type hint")
