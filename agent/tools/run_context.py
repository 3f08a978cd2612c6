"""What a program's own code is told of the run that it takes part in."""

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
    """Sees each call before and after it."""

    async def before_tool(self, context: CallContext) -> ToolResult | None:
        """A result in place of the call's."""

    async def after_tool(self, context: CallContext, result: ToolResult) -> ToolResult: ...

    def consent_reason(self, call_id: str) -> str | None:
        """Why a person is to be asked about the call, whatever the policy says."""

    async def notify(self, context: CallContext, question: ApprovalRequest) -> None:
        """A person is being asked."""


class ToolTracing(Protocol):
    """Records a span for each call."""

    def tool(
        self, call: ToolCall, description: str
    ) -> AbstractContextManager[Callable[[ToolResult], None]]: ...


@frozen
class RunContext(Generic[ContextT]):
    """The run: its dependencies (`deps=`), its session, the folder where its tools work, and the
    name of the agent that speaks.

    A tool is given it as an argument of the type `RunContext[…]`.
    """

    deps: ContextT
    session: str
    workspace: Path
    agent: str = "main"

    @staticmethod
    def of(environment: ToolEnvironment) -> "RunContext[Any]":
        here = environment
        return RunContext(here.deps, here.session, here.workspace, here.agent)
