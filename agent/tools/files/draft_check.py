"""Files as a call would leave them, looked at before they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from agent.records import frozen
from agent.security.taint.taint import NOTHING
from agent.tools.base import CallContext
from agent.types import JsonSchema, Taint, ToolResult

# The argument by which a model writes what brings errors all the same, and says why.
INSIST = "despite_errors"


@frozen
class Draft:
    """A file before and after; None where there is none."""

    path: Path
    before: str | None
    after: str | None


@frozen
class DraftReport:
    """What the model is told of new errors, and the person; both empty without any. `taint` is
    what those words bring."""

    for_model: str = ""
    for_user: str = ""
    taint: frozenset[Taint] = NOTHING

    def added_to(self, result: ToolResult) -> ToolResult:
        """The result of the write, with what was found before it."""
        if not self.for_model:
            return result
        for_user = result.for_user if result.for_user is not None else result.for_model
        return replace(
            result,
            for_model=f"{result.for_model}\n{self.for_model}",
            for_user=f"{for_user}\n{self.for_user}",
            taint=result.taint | self.taint,
        )


class DraftCheck(Protocol):
    """Looks at drafts, and hears what became of them.

    `refuses` says that drafts with new errors are not written. `check` tells of new errors; it
    raises `ToolError` for those that are refused, unless `insists` says why they are to be written.
    `after_write` says that files were created, changed or deleted.
    """

    @property
    def refuses(self) -> bool: ...
    async def check(
        self, drafts: Sequence[Draft], call: CallContext, insists: str = ""
    ) -> DraftReport: ...
    async def after_write(self, drafts: Sequence[Draft]) -> None: ...


class NoDraftCheck:
    """Where nothing looks at drafts."""

    refuses = False

    async def check(
        self, drafts: Sequence[Draft], call: CallContext, insists: str = ""
    ) -> DraftReport:
        return DraftReport()

    async def after_write(self, drafts: Sequence[Draft]) -> None:
        return None


def with_insistence(schema: JsonSchema, drafts: DraftCheck) -> JsonSchema:
    """The parameters of a tool that writes, with the one for insisting where that means
    something."""
    if not drafts.refuses:
        return schema
    return {**schema, "properties": {**schema["properties"], INSIST: {"type": "string"}}}


def reason_to_insist(args: Mapping[str, Any]) -> str:
    """Why the model wants to write what brings errors; empty where it does not insist."""
    reason = args.get(INSIST)
    return " ".join(reason.split()) if isinstance(reason, str) else ""


async def refuse_errors(
    check: DraftCheck, drafts: Sequence[Draft], args: Mapping[str, Any], call: CallContext
) -> None:
    """For the plan of a call: a person is not asked for what is refused anyway. Raises
    `ToolError`."""
    if check.refuses:
        await check.check(drafts, call, args.get(INSIST) or "")
