"""`/rewind`: restore files, and optionally the conversation, to the state before a message."""

import time

from agent.errors import KoreError
from agent.i18n import plural, t
from agent.undo import report
from agent.undo.ledger import PathChange, ReversalResult
from agent.undo.records import FileChange
from agent.undo.reversal import UndoRequest
from gateway.commands.declaration import CONVERSATION, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.commands.undo import UndoService
from gateway.core.markdown import escape_markdown
from gateway.store.repositories.conversations import rewinding
from gateway.store.repositories.conversations.rewinding import RewindPoint
from gateway.store.repositories.conversations.session_admin import SessionOwner

_MAX_POINTS = 10
_WORDS = frozenset({"files", "both", "force"})


@chat_command("rewind", "go back to before a message", group=CONVERSATION, position=60)
async def answer_rewind(call: CommandCall) -> str:
    """Answer `/rewind` (list), `/rewind N` (preview) and `/rewind N files` or `both` (do it)."""
    key = f"command:{call.claim.seq}"
    # A repetition finds the chat in its new conversation, which has no such message.
    if (fork := await call.services.database.transact(rewinding.done, key)) is not None:
        return _fork_text(fork)
    service = await UndoService.open(call)
    points = await call.services.database.transact(rewinding.list_points, service.session)
    if not points:
        if not await call.services.database.transact(rewinding.is_copy, service.session):
            raise KoreError(t("there is no message to go back to yet"))
        raise KoreError(
            t(
                "there is no message to go back to: a copy does not include the original's "
                "earlier messages"
            ),
            hint=t("/sessions shows the original conversation; /resume continues it."),
        )
    words = call.argument.lower().split()
    if not words:
        return await service.run(lambda: _list(service, points))
    point = _find_point(words, points)
    options = frozenset(words[1:])
    changes = await service.run(lambda: _plan(service, point, force="force" in options))
    if not options & {"files", "both"}:
        return _preview(service, changes, words[0], point)
    service.require(changes, "undo")
    step = await service.carry_out(changes, "undo")
    description = service.describe(step, "undo") or t("No files needed restoring.")
    if "both" not in options:
        return description
    owner = SessionOwner(call.message.principal, call.message.session_key)
    fork = await call.services.database.transact(
        rewinding.rewind, key, service.session, point.turn, owner, call.now
    )
    back = t("`/resume {id}` goes back.", id=service.session)
    return f"{description}\n{_fork_text(fork)} {back}"


def _find_point(words: list[str], points: list[RewindPoint]) -> RewindPoint:
    """Return the named message. Raises `KoreError`."""
    if not words[0].isdecimal() or not 1 <= int(words[0][:9]) <= len(points):
        raise KoreError(
            t(
                "found {words!r}, expected the number of a message, 1 to {last}",
                words=words[0][:20],
                last=len(points),
            ),
            hint=t("/rewind lists them."),
        )
    if unknown := set(words[1:]) - _WORDS:
        raise KoreError(
            t(
                "found {unknown!r}, expected `files` or `both`, optionally with `force`",
                unknown=min(unknown)[:20],
            )
        )
    return points[int(words[0]) - 1]


def _plan(service: UndoService, point: RewindPoint, *, force: bool) -> tuple[PathChange, ...]:
    return service.reversal.plan(UndoRequest(since=point.turn, force=force))


def _list(service: UndoService, points: list[RewindPoint]) -> str:
    paths: dict[int, set[object]] = {}
    for step in service.changes.ledger.steps(service.session):
        changed_paths = {c.path for c in step.changes if c.status == "done" and _is_file(c)}
        paths.setdefault(step.turn, set()).update(changed_paths)
    lines = []
    for number, point in list(enumerate(points, 1))[-_MAX_POINTS:]:
        count = len(paths.get(point.turn, ()))
        files = plural(count, ", {n} file changed", ", {n} files changed") if count else ""
        at = time.strftime("%H:%M", time.localtime(point.at))
        lines.append(f"`{number}` {at}{files}: {escape_markdown(point.title)}")
    lines.append(t("`/rewind N` previews going back to before a message."))
    return "\n".join(lines)


def _preview(
    service: UndoService, changes: tuple[PathChange, ...], number: str, point: RewindPoint
) -> str:
    description = report.describe(ReversalResult(changes), "undo", service.root, would=True)
    preview = description or t("No files would change.")
    lines = [
        t(
            "Back to before message {number}: {escaped}",
            number=number,
            escaped=escape_markdown(point.title),
        )
    ]
    lines += [escape_markdown(line) for line in preview.splitlines()]
    lines.append(
        t(
            "`/rewind {number} files` restores the files; `/rewind {number} both` also "
            "rewinds the conversation. Add `force` to overwrite changes made by others.",
            number=number,
        )
    )
    return "\n".join(lines)


def _fork_text(fork: str) -> str:
    return t("This is now conversation `{fork}`, which ends before that message.", fork=fork)


def _is_file(change: object) -> bool:
    assert isinstance(change, FileChange), "steps hold changes"
    state = change.before or change.after
    return state is not None and state.kind != "folder"
