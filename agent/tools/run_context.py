"""Context of a run, for a program's own code that takes part in it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol

from agent.approvals import ApprovalRequest
from agent.records import frozen
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall, ToolResult

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=None)
    ContextT = TypeVar("ContextT", default=None, covariant=True)
else:
    from typing import TypeVar

    DepsT, ContextT = TypeVar("DepsT"), TypeVar("ContextT", covariant=True)


class ToolInterceptor(Protocol):
    """Interceptor called before and after each call."""

    async def before_tool(self, context: CallContext) -> ToolResult | None:
        """Return a result that replaces the call's, or None."""

    async def after_tool(
        self, context: CallContext, result: ToolResult, *, has_begun: bool
    ) -> ToolResult:
        """Return the result, possibly changed; `has_begun`: the tool itself ran."""

    def consent_reason(self, call_id: str) -> str | None:
        """Return a reason to ask a person about the call, regardless of the policy."""

    async def notify(self, context: CallContext, question: ApprovalRequest) -> None:
        """Report that a person is being asked."""


class ToolTracing(Protocol):
    """Tracing that records a span for each call."""

    def tool(
        self, call: ToolCall, description: str
    ) -> AbstractContextManager[Callable[[ToolResult], None]]: ...


@frozen
class RunContext(Generic[ContextT]):
    """Run with its dependencies (`deps=`), session, working folder and the name of its agent.

    A tool receives it as an argument of the type `RunContext[…]`.
    """

    deps: ContextT
    session: str
    workspace: Path
    agent: str = "main"

    @staticmethod
    def of(environment: ToolEnvironment) -> "RunContext[Any]":
        here = environment
        return RunContext(here.deps, here.session, here.workspace, here.agent)
