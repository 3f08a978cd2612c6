"""Folders outside the workspace that the owner has added, for use in a turn."""

import logging
import time
from pathlib import Path

from agent.approvals import FolderAccess
from agent.errors import ConfigError
from agent.prompts import render_prompt
from agent.records import frozen
from gateway.access.added_folders import FolderOwner, add_folder, named_folder
from gateway.core.messages import CONSOLE
from gateway.store.port import Store, Transaction
from gateway.store.repositories.access import grants
from gateway.turns.prompt import TurnDraft

log = logging.getLogger(__name__)


async def added_folders(
    database: Store, draft: TurnDraft, session: str
) -> tuple[FolderAccess, ...]:
    """Return the folders that the owner added to the session or allowed permanently.

    There are none in jobs, or if other people can read the conversation.
    """
    message = draft.claim.messages[-1]
    if not draft.audience.owner or message.job is not None:
        return ()
    # Grants from a sub-agent's own questions belong to its conversation.
    sessions = tuple(dict.fromkeys((session, draft.session)))
    folders = await database.transact(
        grants.folders, message.principal, sessions, draft.audience.root
    )
    return tuple(folders)


@frozen
class FolderNews:
    """`PromptContributor` that informs the model about added folders.

    It first adds the folders from the terminal's command line.
    """

    database: Store

    async def contribute(self, draft: TurnDraft) -> None:
        if not draft.reads_workspace:
            return
        await self._add_named(draft)
        folders = await added_folders(self.database, draft, draft.session)
        if folders and not draft.is_resumed:
            draft.append(
                render_prompt("added_folders", folders=", ".join(map(_described, folders)))
            )

    async def _add_named(self, draft: TurnDraft) -> None:
        message = draft.claim.messages[-1]
        names = message.options.add_dirs if message.channel == CONSOLE else ()
        if not names or not draft.audience.owner or message.job is not None:
            return
        accesses = []
        for name in names:
            try:
                accesses.append(named_folder(name, Path("/")))
            except ConfigError as exc:
                log.warning("a folder is not added: %s", exc)
        owner = FolderOwner(message.principal, draft.session, draft.audience.root)

        def add(tx: Transaction) -> None:
            for access in accesses:
                add_folder(tx, access, owner, time.time())

        await self.database.transact(add)


def _described(access: FolderAccess) -> str:
    return f"{access.path} ({'read and change' if access.is_writable else 'read'})"
