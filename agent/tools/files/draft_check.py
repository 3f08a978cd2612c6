"""Checks of files before a call writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from agent.records import frozen
from agent.security.taint.taint import NOTHING
from agent.tools.base import CallContext
from agent.types import JsonSchema, Taint, ToolResult

# Argument with the model's reason to write a file despite new errors.
INSIST = "despite_errors"


@frozen
class Draft:
    """File before and after a change; None where it does not exist."""

    path: Path
    before: str | None
    after: str | None


@frozen
class Renaming:
    """Old and new name of a symbol that drafts rename."""

    old: str
    new: str


@frozen
class DraftReport:
    """Report of new errors for the model and for the person; both empty without new errors.

    It also says which files were not checked, although a server should have. `taint` is the taint
    of these texts.
    """

    for_model: str = ""
    for_user: str = ""
    taint: frozenset[Taint] = NOTHING

    def added_to(self, result: ToolResult) -> ToolResult:
        """Return the result of a write with this report added."""
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
    """Check of drafts that is notified of their outcome.

    `refuses`: drafts with new errors are not written. `check` reports new errors; it raises
    `ToolError` for rejected drafts, unless `insists` gives a reason to write them. Errors that only
    quote the new name of a `renaming` are not new. `after_write` is called after files were
    created, changed or deleted.
    """

    @property
    def refuses(self) -> bool: ...
    async def check(
        self,
        drafts: Sequence[Draft],
        call: CallContext,
        insists: str = "",
        renaming: Renaming | None = None,
    ) -> DraftReport: ...
    async def after_write(self, drafts: Sequence[Draft]) -> None: ...


class NoDraftCheck:
    """Draft check that accepts everything."""

    refuses = False

    async def check(
        self,
        drafts: Sequence[Draft],
        call: CallContext,
        insists: str = "",
        renaming: Renaming | None = None,
    ) -> DraftReport:
        return DraftReport()

    async def after_write(self, drafts: Sequence[Draft]) -> None:
        return None


def with_insistence(schema: JsonSchema, drafts: DraftCheck) -> JsonSchema:
    """Return the parameters of a writing tool, with the parameter for insisting if it has an
    effect.
    """
    if not drafts.refuses:
        return schema
    return {**schema, "properties": {**schema["properties"], INSIST: {"type": "string"}}}


def reason_to_insist(args: Mapping[str, Any]) -> str:
    """Return the model's reason to write a file with errors; empty if it does not insist."""
    reason = args.get(INSIST)
    return " ".join(reason.split()) if isinstance(reason, str) else ""


async def refuse_errors(
    check: DraftCheck, drafts: Sequence[Draft], args: Mapping[str, Any], call: CallContext
) -> None:
    """Check drafts at planning time, so that no person is asked about a rejected call.

    Raises `ToolError`.
    """
    if check.refuses:
        await check.check(drafts, call, args.get(INSIST) or "")
