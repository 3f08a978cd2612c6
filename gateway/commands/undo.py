"""`/undo` and `/redo`: restore files to the state before or after changes."""

from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.i18n import t
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import escape_markdown

if TYPE_CHECKING:
    from agent.undo.reversal import UndoRequest
    from gateway.commands.undo_service import UndoService


@chat_command("undo", "undo file changes", group=WORK, position=10, audience="private")
@chat_command("redo", "redo undone changes", group=WORK, position=20, audience="private")
async def answer_undo(call: CommandCall) -> str:
    """Answer `/undo [step] [COUNT] [force] [PATH]`.

    COUNT is a number of turns, or with `step` of tool calls.
    """
    from gateway.commands.undo_service import UndoService

    undoing = UndoService(call)
    request = _undo_request(undoing, call)
    moves = await undoing.run(lambda: undoing.reversal.plan(request))
    undoing.require(moves, request.direction)
    step = await undoing.carry_out(moves, request.direction)
    if report := undoing.describe(step, request.direction):
        if request.direction == "redo":
            return report
        remaining = await undoing.run(lambda: undoing.remaining(step))
        return "\n".join(filter(None, [report, remaining]))
    undo = request.direction == "undo"
    if request.path:
        path = escape_markdown(str(request.path))
        return t(
            "There is nothing to undo in {path}."
            if undo
            else "There is nothing to redo in {path}.",
            path=path,
        )
    return t(
        "There is nothing to undo in this conversation."
        if undo
        else "There is nothing to redo in this conversation."
    )


def _undo_request(undoing: "UndoService", call: CommandCall) -> "UndoRequest":
    from agent.undo.reversal import UndoRequest

    words = call.argument.split()
    steps, force = 1, False
    by_step = bool(words) and words[0].lower() in ("step", "steps")
    if by_step:
        del words[0]
    if words and words[0].isdecimal():
        steps = int(words.pop(0)[:6])
        if steps < 1:
            raise KoreError(
                t(
                    "found {steps}, expected at least 1, as in `/{call} 2`",
                    steps=steps,
                    call=call.name,
                )
            )
    if words and words[0].lower() == "force":
        force = bool(words.pop(0))
    path = undoing.find(" ".join(words)) if words else None
    return UndoRequest(
        "undo" if call.name == "undo" else "redo",
        steps,
        by_turn=not by_step,
        path=path,
        force=force,
    )
