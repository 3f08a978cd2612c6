"""`/diff`: changes of this conversation, since its start or in its last turn."""

from typing import TYPE_CHECKING

from agent.i18n import plural, t
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import escape_markdown

if TYPE_CHECKING:
    from agent.undo.report import Pairs
    from gateway.commands.undo_service import UndoService


@chat_command("diff", "show what this conversation changed", group=WORK, position=30)
async def answer_diff(call: CommandCall) -> str:
    """Answer `/diff [last] [PATH]`."""
    from agent.undo import report
    from gateway.commands.undo_service import DIFF_CHARS, UndoService, fenced

    undoing = UndoService(call)
    first, *rest = call.argument.split(maxsplit=1) or [""]
    last = first == "last"
    name = (rest[0] if rest else "") if last else call.argument
    pairs = await undoing.run(lambda: _pairs(undoing, name, last))
    if not pairs and name:
        return t("No changes to {escaped} in this conversation.", escaped=escape_markdown(name))
    if not pairs:
        return t("This conversation has no file changes, or all of them were undone.")
    if not undoing.may_see(list(pairs)):
        return t("Your role does not allow you to see these files.")
    names = escape_markdown(report.list_paths(pairs, undoing.root))
    text = await undoing.run(
        lambda: report.differences(pairs, undoing.changes.blobs, undoing.root, DIFF_CHARS)
    )
    head = plural(
        len(pairs), "{n} file changed: {names}", "{n:,} files changed: {names}", names=names
    )
    return head + (f"\n\n{fenced(text)}" if text else "")


def _pairs(undoing: "UndoService", name: str, last: bool) -> "Pairs":
    steps = undoing.changes.ledger.steps(undoing.session)
    if last and steps:
        steps = [step for step in steps if step.turn == steps[0].turn]
    return undoing.changed_files(steps, undoing.find(name) if name else None)
