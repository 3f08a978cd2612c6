"""Changes that servers propose: a rename, the form of a file, a code action."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.code.lsp.code_actions import code_actions
from agent.code.lsp.protocol.text_edits import edited_texts
from agent.code.lsp.questions import CodeQuestions, Question
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.security.files import file_io
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import UNTRUSTED
from agent.settings import ToolSettings
from agent.text.text_document import LIMIT_BYTES, decode, diff
from agent.tools.base import CallContext, EffectPlan
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import Draft, DraftCheck, DraftReport
from agent.tools.files.write_set import write_set
from agent.types import Artifact, ToolResult

_MOST_FILES = 200
# Calls that wait for a person, of all conversations.
_MOST_JUDGED = 10
_MOST_CHARS = 20_000_000
# How other programs indent when nobody says: most servers read the project's own settings first.
_FORMATTING = {"tabSize": 4, "insertSpaces": True, "trimTrailingWhitespace": True}


class CodeProposals:
    """Does what servers propose. All files are looked at before the first is written, and all are
    written or none."""

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
        # What was judged and shown, until it is written: asked again, a server could say something
        # else.
        self._judged: dict[tuple[str, str], list[Draft]] = {}

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Each file that would change, with the difference."""
        drafts = await self._proposal(args, call)
        while len(self._judged) >= _MOST_JUDGED:
            del self._judged[next(iter(self._judged))]
        self._judged[_key(call)] = drafts
        return EffectPlan(
            changes=tuple(draft.path for draft in drafts if draft.before is not None),
            creates=tuple(draft.path for draft in drafts if draft.before is None),
            diff="\n".join(_diff(draft, call) for draft in drafts),
        )

    async def apply(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        """Write what was planned. Raises `ToolError`."""
        drafts = self._judged.pop(_key(call), None)
        if drafts is None:
            raise ToolError("What was to be changed is not known any more; nothing was written.")
        # What a server proposes itself is no reason to refuse.
        report = DraftReport()
        if not self._drafts.refuses:
            report = await self._drafts.check(drafts, call)
        writing = await asyncio.to_thread(_with_taint, args, call)
        await file_io.in_thread(lambda: write_set(drafts, writing))
        for draft in drafts:
            self._views.record_write(call.session, draft.path)
        await self._drafts.after_write(drafts)
        names = ", ".join(_display(draft.path, call) for draft in drafts[:20])
        more = f" and {len(drafts) - 20} more" if len(drafts) > 20 else ""
        text = f"Changed {names}{more}."
        artifacts = tuple(Artifact("diff", _diff(one, call), str(one.path)) for one in drafts)
        return report.added_to(ToolResult(text, for_user=text, artifacts=artifacts))

    async def _proposal(self, args: Mapping[str, Any], call: CallContext) -> list[Draft]:
        """What the server proposes, for files that the call may change. Raises `ToolError`."""
        path = self._questions.find_path(args, call)
        server = await self._questions.server(path, call)

        def read(changed: Path) -> str:
            if self._questions.scope.find(str(changed), call) != changed:
                raise ToolError(f"{changed} lies behind a link; nothing was changed.")
            return decode(file_io.read(changed, LIMIT_BYTES), changed).text

        async def work(session: LspSession) -> list[Draft]:
            async with server.turn:
                question = await self._questions.question(session, server, path, args)
                edit = await _workspace_edit(question)
            texts = await asyncio.to_thread(edited_texts, edit, session.encoding, read)
            return [Draft(changed, before, after) for changed, (before, after) in texts.items()]

        limit_s = self._questions.servers.settings.timeout_s
        drafts = await server.ask(str(args["operation"]), work, limit_s)
        if not drafts:
            raise ToolError("The language server proposes no change; nothing was written.")
        if len(drafts) > _MOST_FILES:
            raise ToolError(f"That would change {len(drafts)} files, more than {_MOST_FILES}.")
        if sum(len(one.before or "") + len(one.after or "") for one in drafts) > _MOST_CHARS:
            raise ToolError("That would change more text than Kore takes at once.")
        return sorted(drafts, key=lambda draft: draft.path)


def _with_taint(args: Mapping[str, Any], call: CallContext) -> CallContext:
    """A code action may put text of any file of the project into another; the words of a rename are
    the model's own, and formatting adds none."""
    if args["operation"] in ("rename", "format") or not is_marked(call.workspace):
        return call
    return replace(call, taint=call.taint | UNTRUSTED)


def _key(call: CallContext) -> tuple[str, str]:
    return (call.session, call.call.id)


async def _workspace_edit(question: Question) -> Any:
    """What the server proposes, as the protocol writes it. Raises `ToolError`."""
    match question.operation:
        case "rename":
            if not (new_name := question.args.get("new_name")):
                raise ToolError("rename needs new_name.")
            return await question.ask({**question.params(), "newName": new_name})
        case "format":
            edits = await question.ask({**question.params(), "options": _FORMATTING})
            document = {"textDocument": question.params()["textDocument"], "edits": edits or []}
            return {"documentChanges": [document]}
    return await _action_edit(question)


async def _action_edit(question: Question) -> Any:
    title_wanted = " ".join(str(question.args.get("action") or "").split())
    if not title_wanted:
        raise ToolError("apply_code_action needs the title as action; code_actions lists them.")
    actions = await code_actions(question)
    matches = [one for title, one in actions if title.casefold() == title_wanted.casefold()]
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
