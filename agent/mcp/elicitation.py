"""Questions that servers ask during calls, routed to the person of the call."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agent.text.visible import escape_invisible
from agent.tools.elicitation import Elicit, Elicitation, ElicitationAnswer, FormField, decline

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitResult

_MAX_FIELDS = 50
# Limits per call for questions, and for answers other than acceptance.
_MAX_QUESTIONS = 10
_MAX_REFUSALS = 2


class LiveCall:
    """Running call, with the person who answers its questions and a deadline.

    The deadline is suspended while the person thinks.
    """

    def __init__(self, ask: Elicit, deadline: asyncio.Timeout) -> None:
        self._ask = ask
        self._deadline = deadline
        self._left_s: float | None = None
        self._question_count = 0
        self._refusal_count = 0
        self._is_over = False
        self._tasks: set[asyncio.Task[ElicitationAnswer]] = set()

    async def ask(self, question: Elicitation) -> ElicitationAnswer:
        self._question_count += 1
        is_flood = self._question_count > _MAX_QUESTIONS or self._refusal_count >= _MAX_REFUSALS
        if self._is_over or is_flood:
            return ElicitationAnswer("decline")
        task = asyncio.create_task(_answer(self._ask, question), name="a server's question")
        self._tasks.add(task)
        self._pause()
        try:
            await asyncio.wait({task})
            answer = ElicitationAnswer("cancel") if task.cancelled() else task.result()
            self._refusal_count += answer.action != "accept"
            return answer
        finally:
            # The server may have withdrawn the question.
            task.cancel()
            await asyncio.wait({task})
            self._tasks.discard(task)
            if not self._tasks:
                self._resume()

    async def aclose(self) -> None:
        """End the call and cancel its open questions."""
        self._is_over = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _pause(self) -> None:
        until_s = self._deadline.when()
        if self._left_s is None and until_s is not None:
            self._left_s = until_s - asyncio.get_running_loop().time()
            self._deadline.reschedule(None)

    def _resume(self) -> None:
        if self._left_s is not None and not self._is_over:
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._left_s)
        self._left_s = None


_current_call: ContextVar[LiveCall | None] = ContextVar("current_mcp_call", default=None)


class LiveCalls:
    """Running calls of one server. `ask` serves calls without a person of their own."""

    def __init__(self, ask: Elicit | None) -> None:
        self._ask = ask or decline
        self._live: list[LiveCall] = []

    @asynccontextmanager
    async def during(self, ask: Elicit | None, deadline: asyncio.Timeout) -> AsyncIterator[None]:
        live = LiveCall(ask or self._ask, deadline)
        self._live.append(live)
        token = _current_call.set(live)
        try:
            yield
        finally:
            _current_call.reset(token)
            self._live.remove(live)
            await live.aclose()

    async def ask(self, question: Elicitation) -> ElicitationAnswer:
        """Ask the person of the call that the question belongs to.

        Newer servers ask within the answer to a call. Older servers do not name the call: if
        several are running, any may belong to another person, so the question is declined.
        """
        live = _current_call.get()
        if live not in self._live:
            live = self._live[0] if len(self._live) == 1 else None
        return ElicitationAnswer("decline") if live is None else await live.ask(question)


async def elicit(server: str, params: "ElicitRequestParams", ask: Elicit) -> "ElicitResult":
    """Ask a server's question and return the answer as the protocol defines it."""
    from mcp.types import ElicitResult

    schema = getattr(params, "requested_schema", None)
    schema = schema if isinstance(schema, Mapping) else {}
    required, properties = schema.get("required"), schema.get("properties")
    required = required if isinstance(required, list) else []
    properties = properties if isinstance(properties, Mapping) else {}
    question = Elicitation(
        server,
        escape_invisible(params.message),
        tuple(
            FormField(name, field_schema, name in required)
            for name, field_schema in list(properties.items())[:_MAX_FIELDS]
            if isinstance(field_schema, Mapping)
        ),
        getattr(params, "url", None),
    )
    answer = await ask(question)
    if answer.action != "accept" or question.url is not None:
        return ElicitResult(action=answer.action)
    names = {form_field.name for form_field in question.fields}
    content: dict[str, Any] = {
        name: value for name, value in answer.content.items() if name in names
    }
    return ElicitResult(action="accept", content=question.defaults() | content)


async def _answer(ask: Elicit, question: Elicitation) -> ElicitationAnswer:
    return await ask(question)
