"""Guardrails: application-defined checks of the input and output of a turn."""

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
# Returns the objection, or None to pass.
Check = Callable[[RunContext[Any], CheckedT], str | Awaitable[str | None] | None]


class _Guardrail(Generic[CheckedT]):
    error: ClassVar[type[GuardrailTripped]]

    def __init__(self, function: Check[CheckedT], *, name: str | None = None) -> None:
        self.function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))

    async def check(self, run: RunContext[Any], checked: CheckedT) -> None:
        """Run the check; raise `GuardrailTripped` on an objection.

        A plain function runs in a thread.
        """
        if inspect.iscoroutinefunction(self.function):
            reason = await self.function(run, checked)
        else:
            answer = await asyncio.to_thread(self.function, run, checked)
            reason = await answer if inspect.isawaitable(answer) else answer
        if reason is not None:
            message = t("the guardrail {name} tripped: {reason}", name=self.name, reason=reason)
            raise self.error(message, guardrail=self.name, reason=str(reason))


class InputGuardrail(_Guardrail[Message]):
    """Check of a person's message, before or during the model call (`run_in_parallel`)."""

    error = InputGuardrailTripped

    def __init__(
        self, function: Check[Message], *, name: str | None = None, run_in_parallel: bool = False
    ) -> None:
        super().__init__(function, name=name)
        self.run_in_parallel = run_in_parallel


class OutputGuardrail(_Guardrail[Result]):
    """Check of the agent's answer: `text`, and `output` if there is an `output_type`."""

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
    """Make a guardrail of a function that returns an objection to a message, or None.

    With `run_in_parallel`, the check runs during the model call. This is faster, but tools may have
    run before the guardrail trips.
    """

    def make(function: Check[Message]) -> InputGuardrail:
        return InputGuardrail(function, name=name, run_in_parallel=run_in_parallel)

    return make if function is None else make(function)


@overload
def output_guardrail(function: Check[Result], /) -> OutputGuardrail: ...


@overload
def output_guardrail(*, name: str | None = None) -> Callable[[Check[Result]], OutputGuardrail]: ...


def output_guardrail(function: Check[Result] | None = None, /, *, name: str | None = None) -> Any:
    """Make a guardrail of a function that returns an objection to a result, or None."""

    def make(function: Check[Result]) -> OutputGuardrail:
        return OutputGuardrail(function, name=name)

    return make if function is None else make(function)


@frozen
class Guardrails:
    """Guardrails of a turn.

    `prompt`, if set, is checked instead of the message that is sent to the model. `read_output`
    returns the result with its `output` and raises `BadOutput` for an answer that will be requested
    again.
    """

    input: Sequence[InputGuardrail] = ()
    output: Sequence[OutputGuardrail] = ()
    prompt: Message | None = None
    read_output: Callable[[Result], Result] | None = None

    async def run(
        self, context: RunContext[Any], message: Message, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Check the message and run the work.

        Raise `InputGuardrailTripped` if a check fails; the work is then cancelled or was never
        started.
        """
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
        """Raise `OutputGuardrailTripped` if a check of the result fails."""
        if not self.output:
            return
        if self.read_output is not None:
            try:
                result = self.read_output(result)
            except BadOutput:
                return
        for guardrail in self.output:
            await guardrail.check(context, result)
