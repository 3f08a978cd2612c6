"""Changes proposed by servers: renames, formatting and code actions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.code.lsp.code_actions import code_actions
from agent.code.lsp.coverage import THOROUGH, Coverage
from agent.code.lsp.places import PlaceListing
from agent.code.lsp.protocol.positions import TextLines
from agent.code.lsp.protocol.text_edits import edited_texts, files_of_edit
from agent.code.lsp.questions import CodeQuestions, Question, SymbolAnswer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.records import frozen
from agent.security.files import file_io
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.text_document import MAX_BYTES, decode, diff
from agent.tools.base import CallContext, EffectPlan
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import Draft, DraftCheck, DraftReport, Renaming
from agent.tools.files.write_set import write_set
from agent.types import Artifact, ToolResult

_MAX_FILES = 200
# Maximum number of calls that wait for approval, in all conversations.
_MAX_PENDING = 10
_MAX_CHARS = 20_000_000
# Defaults; most servers read the formatting settings of the project first.
_FORMATTING = {"tabSize": 4, "insertSpaces": True, "trimTrailingWhitespace": True}


@frozen
class _Proposal:
    """Drafts in the order of their paths, and the renaming that they make, if any.

    `note` says which files they may lack; `is_marked` is true if it quotes untrusted text.
    """

    drafts: Sequence[Draft]
    renaming: Renaming | None = None
    note: str = ""
    is_marked: bool = False


class CodeProposals:
    """Planner of the changes that servers propose.

    All files are read before the first is written, and either all are written or none.
    """

    def __init__(
        self,
        servers: LanguageServers,
        settings: ToolSettings,
        views: FileViews,
        drafts: DraftCheck,
    ) -> None:
        self._questions = CodeQuestions(servers, settings)
        self._views = views
        self._drafts = drafts
        # Kept from approval to write, since a server could answer a second request differently.
        self._pending: dict[tuple[str, str], _Proposal] = {}

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Return each file that would change, with its diff."""
        proposal = await self._proposal(args, call)
        drafts = proposal.drafts
        while len(self._pending) >= _MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        self._pending[_key(call)] = proposal
        return EffectPlan(
            changes=tuple(draft.path for draft in drafts if draft.before is not None),
            creates=tuple(draft.path for draft in drafts if draft.before is None),
            diff="\n".join(_diff(draft, call) for draft in drafts),
        )

    async def apply(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        """Write the planned drafts. Raises `ToolError`."""
        proposal = self._pending.pop(_key(call), None)
        if proposal is None:
            raise ToolError("The proposed changes are no longer known; nothing was written.")
        drafts = proposal.drafts
        # A server's own proposal is never rejected because of its errors.
        report = DraftReport()
        if not self._drafts.refuses:
            report = await self._drafts.check(drafts, call, renaming=proposal.renaming)
        tainted_call = await asyncio.to_thread(_with_taint, args, call)
        await file_io.in_thread(lambda: write_set(drafts, tainted_call))
        for draft in drafts:
            self._views.record_write(call.session, draft.path)
        await self._drafts.after_write(drafts)
        names = ", ".join(_display(draft.path, call) for draft in drafts[:20])
        more = f" and {len(drafts) - 20} more" if len(drafts) > 20 else ""
        text = f"Changed {names}{more}."
        for_model = "\n".join(filter(None, (text, proposal.note)))
        taint = UNTRUSTED if proposal.is_marked else NOTHING
        artifacts = tuple(Artifact("diff", _diff(draft, call), str(draft.path)) for draft in drafts)
        return report.added_to(
            ToolResult(for_model, for_user=for_model, artifacts=artifacts, taint=taint)
        )

    async def _proposal(self, args: Mapping[str, Any], call: CallContext) -> _Proposal:
        """Return the server's proposal for files that the call may change. Raises `ToolError`."""
        path = self._questions.find_path(args, call)
        server = await self._questions.server(path, call)

        def read(changed: Path) -> str:
            if self._questions.scope.find(str(changed), call) != changed:
                raise ToolError(f"{changed} lies behind a link; nothing was changed.")
            return decode(file_io.read(changed, MAX_BYTES), changed).text

        async def work(session: LspSession) -> _Proposal:
            async with server.turn:
                question = await self._questions.question(session, server, path, args, call)
                edit, renaming = await _workspace_edit(question)
            texts = await asyncio.to_thread(edited_texts, edit, session.encoding, read)
            drafts = [Draft(changed, before, after) for changed, (before, after) in texts.items()]
            listing = PlaceListing(self._questions.scope, call, session.encoding)
            coverage = question.coverage or Coverage()
            note = await asyncio.to_thread(coverage.note, texts.keys(), listing)
            drafts.sort(key=lambda draft: draft.path)
            return _Proposal(drafts, renaming, note, listing.is_marked)

        limit_s = self._questions.servers.settings.timeout_s
        if server.database is not None:
            limit_s += THOROUGH.timeout_s
        proposal = await server.ask(str(args["operation"]), work, limit_s)
        drafts = proposal.drafts
        if not drafts:
            raise ToolError("The language server proposes no change; nothing was written.")
        if len(drafts) > _MAX_FILES:
            raise ToolError(f"That would change {len(drafts)} files, more than {_MAX_FILES}.")
        if sum(len(draft.before or "") + len(draft.after or "") for draft in drafts) > _MAX_CHARS:
            raise ToolError("That would change more text than Kore accepts at once.")
        return proposal


def _with_taint(args: Mapping[str, Any], call: CallContext) -> CallContext:
    """Return the call, tainted if the operation may copy text between files.

    A code action may copy text from any file; a rename writes the model's words, and formatting
    adds none.
    """
    if args["operation"] in ("rename", "format") or not is_marked(call.workspace):
        return call
    return replace(call, taint=call.taint | UNTRUSTED)


def _key(call: CallContext) -> tuple[str, str]:
    return (call.session, call.call.id)


async def _workspace_edit(question: Question) -> tuple[Any, Renaming | None]:
    """Return the server's proposal as a `WorkspaceEdit`. Raises `ToolError`."""
    match question.operation:
        case "rename":
            if not (new_name := question.args.get("new_name")):
                raise ToolError("rename needs new_name.")
            answer = await question.ask_about_symbol(_without_emptiness, newName=new_name)
            _check_definitions(answer, question)
            return answer.value, Renaming(answer.name, str(new_name))
        case "format":
            edits = await question.ask({**question.document, "options": _FORMATTING})
            return {"documentChanges": [{**question.document, "edits": edits or []}]}, None
    return await _action_edit(question), None


def _without_emptiness(edit: Any) -> Any:
    """Return a `WorkspaceEdit`, or None for one that changes nothing."""
    if isinstance(edit, dict) and not (edit.get("changes") or edit.get("documentChanges")):
        return None
    return edit


def _check_definitions(answer: SymbolAnswer[Any], question: Question) -> None:
    """Raise `ToolError` when other definitions of the name in the file are not renamed, too.

    Those may be what the model means. Overloads and setters are renamed together.
    """
    if not answer.other_definitions:
        return
    lines = TextLines(question.text)
    starts = (
        lines.position(lines.offset(edit["range"]["start"], question.session.encoding)).line
        for edit in files_of_edit(answer.value).get(question.path, ())
    )
    if not set(answer.other_definitions) <= set(starts):
        raise ToolError(f"Nothing was renamed: several things have this name. {answer.note}")


async def _action_edit(question: Question) -> Any:
    wanted_title = " ".join(str(question.args.get("action") or "").split())
    if not wanted_title:
        raise ToolError("apply_code_action needs the title as action; code_actions lists them.")
    actions = await code_actions(question)
    matches = [action for title, action in actions if title.casefold() == wanted_title.casefold()]
    if not matches:
        titles: Sequence[str] = [title for title, _ in actions[:20]]
        raise ToolError(f"There is no such action; there are: {'; '.join(titles) or 'none'}.")
    action = matches[0]
    if "edit" not in action and "data" in action:
        action = await question.session.peer.request("codeAction/resolve", action, question.limit_s)
    edit = action.get("edit") if isinstance(action, dict) else None
    if edit is None:
        raise ToolError("This action is a command of the server, which Kore does not run.")
    return edit


def _diff(draft: Draft, call: CallContext) -> str:
    return diff(_display(draft.path, call), draft.before or "", draft.after or "")


def _display(path: Path, call: CallContext) -> str:
    root = call.workspace
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
