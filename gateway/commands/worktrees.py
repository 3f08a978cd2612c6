"""`/worktree`: git worktrees of the project that a conversation works in."""

from collections.abc import Iterator
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import plural, t
from agent.security.files.file_io import in_thread
from agent.text.visible import escape_line
from agent.worktrees.git import WorktreeError
from agent.worktrees.names import LEAVE
from agent.worktrees.project_worktrees import ProjectWorktrees
from agent.worktrees.worktrees import (
    MergeResult,
    Worktree,
    Worktrees,
    find_unfinished,
    list_files,
)
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.markdown import code, escape_markdown
from gateway.core.messages import CONSOLE
from gateway.core.session_folder import SessionFolder
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import session_folders


@chat_command(
    "worktree",
    "work in a git worktree: list, NAME, merge NAME, remove NAME, leave",
    group=WORK,
    position=50,
    audience="owner",
)
async def answer_worktree(call: CommandCall) -> str:
    """List, create, merge or remove worktrees of the repository that the conversation works in."""
    if not call.services.access.is_private_owner(call.message):
        raise CommandRefused(t("Only the owner can use worktrees, in a private conversation."))
    settings = call.services.agent.settings
    origin = call.services.agent.workspace.origin
    worktrees, folder = ProjectWorktrees(origin, settings.worktrees_parent), call.folder
    action, _, name = call.argument.partition(" ")
    name = name.strip()
    match action:
        case "" | "list":
            return await in_thread(lambda: _listing(worktrees.of(folder)))
        case "merge" | "remove" if not name:
            raise KoreError(t("`/worktree {action} NAME` needs a name", action=action))
        case "merge":
            return _describe_merge(name, await in_thread(lambda: worktrees.merge(folder, name)))
        case "remove":
            removed = await in_thread(lambda: worktrees.remove(folder, name))
            return t("Removed: {folder}", folder=code(str(removed.folder)))
    target = await in_thread(lambda: worktrees.enter(folder, call.argument))
    answer = await _enter(call, target)
    remark = await in_thread(lambda: worktrees.remark(folder, target))
    return f"{answer} {escape_markdown(remark)}" if remark else answer


async def _enter(call: CommandCall, folder: Path) -> str:
    """Continue the conversation in a worktree, unless its messages name a folder."""
    options = call.message.options
    place = code(str(folder))
    if call.message.channel != CONSOLE or not (options.folder is None or options.in_session_folder):
        if call.argument == LEAVE:
            return t("The main checkout is {folder}.", folder=place)
        return t(
            "The worktree is {folder}. To work there: {command}",
            folder=place,
            command=code(f"kore agent --worktree {folder.name}"),
        )

    def move(tx: Transaction) -> None:
        session_folders.put(tx, call.begun_session(tx), SessionFolder(str(folder)))

    await call.services.database.transact(move)
    return t("This conversation now works in {folder}.", folder=place)


def _listing(worktrees: Worktrees) -> str:
    listed = worktrees.list()
    unfinished = find_unfinished(worktrees.checkout)
    remarks = [] if unfinished is None else [_describe_unfinished(unfinished)]
    if not listed:
        return "\n".join([t("There are no worktrees. `/worktree NAME` creates one."), *remarks])
    checkout = worktrees.checkout
    place = checkout.common if checkout.is_bare else checkout.main
    head = t("Worktrees of {folder}:", folder=code(str(place)))
    return "\n".join([head, *(_line(worktrees, worktree) for worktree in listed), *remarks])


def _describe_unfinished(error: WorktreeError) -> str:
    return f"⚠️ {escape_markdown(str(error))} ({escape_markdown(error.hint or '')})"


def _line(worktrees: Worktrees, worktree: Worktree) -> str:
    facts = ", ".join(_facts(worktrees, worktree))
    place = escape_markdown(escape_line(str(worktree.folder)))
    return f"- {code(escape_line(worktree.name))} · {place}: {facts}"


def _facts(worktrees: Worktrees, worktree: Worktree) -> Iterator[str]:
    """Yield facts about a worktree, as markdown."""
    try:
        state = worktrees.state(worktree)
    except KoreError as exc:
        yield escape_markdown(str(exc))
        return
    if worktree.folder == worktrees.checkout.folder:
        yield t("here")
    if worktree.is_missing:
        yield t("its folder is gone")
    if state.changed_files:
        yield t("uncommitted: {files}", files=escape_markdown(list_files(state.changed_files)))
    if state.unfinished is not None:
        yield _describe_unfinished(state.unfinished)
    if state.empty_submodules:
        names = escape_markdown(list_files(state.empty_submodules))
        yield t("submodules without files: {names}", names=names)
    if state.commits:
        yield plural(state.commits, "{n:,} commit to merge", "{n:,} commits to merge")
    elif not state.changed_files:
        yield t("nothing to merge")


def _describe_merge(name: str, merged: MergeResult) -> str:
    if not merged.commits:
        return t("Nothing to merge from {name}.", name=code(name))
    return plural(
        merged.commits,
        "Merged {n:,} commit of {name} into {target}: {files}. `/worktree remove {plain}` "
        "removes the worktree.",
        "Merged {n:,} commits of {name} into {target}: {files}. `/worktree remove {plain}` "
        "removes the worktree.",
        name=code(name),
        target=code(merged.target),
        files=escape_markdown(list_files(merged.files)),
        plain=name,
    )
