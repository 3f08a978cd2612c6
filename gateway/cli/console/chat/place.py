"""Folder of a terminal conversation, and the question about where a session continues."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agent.i18n import t
from agent.records import frozen
from agent.security.policy.base import is_mode
from agent.text.visible import escape_line
from agent.worktrees.names import ACTIONS
from gateway.cli.console.chat.workdir import ConsoleWorkdir
from gateway.control.service import Service
from gateway.core.messages import MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.presenter.text import home_relative

if TYPE_CHECKING:
    from agent.context.project.context import ProjectContext
    from gateway.cli.console.chat.shell_escape import Show, UserCommand

# Reads a line after a prompt.
ReadLine = Callable[[str], Awaitable[str | None]]


@frozen
class ConsolePlace:
    """Parts of a conversation that depend on its folder.

    `options` name the folder and apply to every message. `begin_command` starts a command that was
    entered with `!`; without it, such commands are unavailable.
    """

    options: MessageOptions = MessageOptions()
    project: "ProjectContext | None" = None
    workdir: ConsoleWorkdir | None = None
    begin_command: "Callable[[str, Show], UserCommand] | None" = None


# Returns the same parts for another folder.
OpenPlace = Callable[[SessionFolder], ConsolePlace]


# Returns the same parts for a worktree, given its name and the current folder.
OpenWorktree = Callable[[str, SessionFolder | None], ConsolePlace]


def named_worktree(text: str) -> str | None:
    """Return the worktree that a line requests; None for any other line."""
    word, _, rest = text.strip().partition(" ")
    name = rest.strip()
    is_name = name and name.split()[0] not in ACTIONS
    return name if word == "/worktree" and is_name else None


@frozen
class FolderQuestion:
    """Folders in which a session can continue: its `own` folder, or the person's (`here`).

    `is_gone` means that its own folder no longer exists.
    """

    own: SessionFolder
    here: SessionFolder
    is_gone: bool

    @property
    def own_label(self) -> str:
        return escape_line(home_relative(self.own.path))

    @property
    def here_label(self) -> str:
        return escape_line(home_relative(self.here.path))

    @property
    def question(self) -> str:
        return t(
            "This session belongs to {own}; you are in {here}. Continue in [a] its folder, "
            "or [b] here?",
            own=self.own_label,
            here=self.here_label,
        )

    async def ask(self, read_line: ReadLine, say: Callable[[str], None]) -> SessionFolder:
        """Let the person choose; Enter chooses the session's own folder."""
        if self.is_gone:
            say(self.remark)
            return self.here
        say(self.question)
        while True:
            key = (await read_line("[A/b] › ") or "").strip().casefold()
            if key in ("", "a"):
                return self.own
            if key == "b":
                return self.here

    @property
    def remark(self) -> str:
        """Sentence that names the folder when no question is asked."""
        if self.is_gone:
            return t("The folder of this session is gone: {folder}", folder=self.own_label)
        return t(
            "This session continues in its own folder, {folder}. To continue here, add --cwd .",
            folder=self.own_label,
        )


async def choose_first_mode(service: Service, session: str, options: MessageOptions) -> None:
    """Set the mode of the command line in the session that the program starts with.

    A new session gets the mode with its first message.
    """
    if is_mode(mode := options.first_mode):
        await service.choose_mode(session, mode)


async def folder_question(
    service: Service, session: str, options: MessageOptions
) -> FolderQuestion | None:
    """Return the folders to choose from; None if the session belongs to the folder of `options`."""
    own = (await service.preview_session(session, 0, 0)).info.folder
    if own is None or own.workspace == options.cwd:
        return None
    here = options.folder
    if here is None:
        here = SessionFolder(str((await service.status())["workspace"]))
    if own.workspace == here.workspace:
        return None
    is_there = await asyncio.to_thread(os.path.isdir, own.workspace)
    return FolderQuestion(own, here, is_gone=not is_there)
