"""Guardrails: a program's own checks of what comes in and what goes out."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, overload

from agent.errors import BadOutput, GuardrailTripped, InputGuardrailTripped, OutputGuardrailTripped
from agent.i18n import t
from agent.records import frozen
from agent.tools.run_context import RunContext
from agent.types import Message, Result

CheckedT = TypeVar("CheckedT")
# What is wrong with it; None lets it pass.
Check = Callable[[RunContext[Any], CheckedT], str | Awaitable[str | None] | None]


class _Guardrail(Generic[CheckedT]):
    error: ClassVar[type[GuardrailTripped]]

    def __init__(self, function: Check[CheckedT], *, name: str | None = None) -> None:
        self.function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))

    async def check(self, run: RunContext[Any], checked: CheckedT) -> None:
        """Raises `GuardrailTripped`. A plain function runs in a thread."""
        if inspect.iscoroutinefunction(self.function):
            reason = await self.function(run, checked)
        else:
            answer = await asyncio.to_thread(self.function, run, checked)
            reason = await answer if inspect.isawaitable(answer) else answer
        if reason is not None:
            message = t("the guardrail {name} tripped: {reason}", name=self.name, reason=reason)
            raise self.error(message, guardrail=self.name, reason=str(reason))


class InputGuardrail(_Guardrail[Message]):
    """Checks what a person says, before the model is asked, or beside it (`run_in_parallel`)."""

    error = InputGuardrailTripped

    def __init__(
        self, function: Check[Message], *, name: str | None = None, run_in_parallel: bool = False
    ) -> None:
        super().__init__(function, name=name)
        self.run_in_parallel = run_in_parallel


class OutputGuardrail(_Guardrail[Result]):
    """Checks what the agent answers: `text`, and `output` where there is an `output_type`."""

    error = OutputGuardrailTripped


@overload
def input_guardrail(function: Check[Message], /) -> InputGuardrail: ...


@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = False
) -> Callable[[Check[Message]], InputGuardrail]: ...


def input_guardrail(
    function: Check[Message] | None = None,
    /,
    *,
    name: str | None = None,
    run_in_parallel: bool = False,
) -> Any:
    """Make a guardrail of a function that returns what is wrong with a message, or None.

    With `run_in_parallel` the model is asked meanwhile: quicker, but tools may have run by the time
    it trips.
    """

    def make(function: Check[Message]) -> InputGuardrail:
        return InputGuardrail(function, name=name, run_in_parallel=run_in_parallel)

    return make if function is None else make(function)


@overload
def output_guardrail(function: Check[Result], /) -> OutputGuardrail: ...


@overload
def output_guardrail(*, name: str | None = None) -> Callable[[Check[Result]], OutputGuardrail]: ...


def output_guardrail(function: Check[Result] | None = None, /, *, name: str | None = None) -> Any:
    """Make a guardrail of a function that returns what is wrong with a result, or None."""

    def make(function: Check[Result]) -> OutputGuardrail:
        return OutputGuardrail(function, name=name)

    return make if function is None else make(function)


@frozen
class Guardrails:
    """Those of a turn. `prompt` is checked in place of the message that the model is sent, if it is
    set. `read_output` makes the result one with its `output`, and raises `BadOutput`
    for an answer that will be asked for again."""

    input: Sequence[InputGuardrail] = ()
    output: Sequence[OutputGuardrail] = ()
    prompt: Message | None = None
    read_output: Callable[[Result], Result] | None = None

    async def run(
        self, context: RunContext[Any], message: Message, work: Callable[[], Awaitable[None]]
    ) -> None:
        """The work, once the message has passed. Raises `InputGuardrailTripped`, and then the work
        has not begun, or is cancelled."""
        for guardrail in self.input:
            if not guardrail.run_in_parallel:
                await guardrail.check(context, self.prompt or message)
        beside = [guardrail for guardrail in self.input if guardrail.run_in_parallel]
        if not beside:
            await work()
            return

        async def do_work() -> None:
            await work()

        try:
            async with asyncio.TaskGroup() as group:
                for guardrail in beside:
                    group.create_task(guardrail.check(context, self.prompt or message))
                group.create_task(do_work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    async def check_output(self, context: RunContext[Any], result: Result) -> None:
        """Raises `OutputGuardrailTripped`."""
        if not self.output:
            return
        if self.read_output is not None:
            try:
                result = self.read_output(result)
            except BadOutput:
                return
        for guardrail in self.output:
            await guardrail.check(context, result)
