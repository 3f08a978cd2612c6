"""Working folder of a conversation, which is the same in every turn, even after a restart.

A session stores the identity of the folder of its last turn. Another folder at the same path ends
the turn; a person who wants to work there starts a new conversation. Device and inode numbers are
comparable only within one boot of the machine and one mount. The path is always checked for links.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from agent.i18n import t
from agent.security.files.folder_identity import FolderIdentity, FolderReplaced
from gateway.core.messages import InboundMessage
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim


class FolderChoice(Protocol):
    """Folder of a message; `workspace` is the default."""

    @property
    def workspace(self) -> Path: ...
    def working_dir(self, message: InboundMessage) -> Path: ...


async def take_folder(
    database: Store, claim: TurnClaim, permissions: FolderChoice
) -> FolderIdentity:
    """Return the identity of the folder that a turn works in.

    Raises `FolderReplaced` if the session worked in another folder at this path, or if the path
    leads through a link.
    """
    folder = permissions.working_dir(claim.messages[-1])
    # This needs no thread: it takes two system calls, and the prompt is read from this folder
    # anyway.
    identity = FolderIdentity.of(folder)
    if folder == permissions.workspace:
        return identity
    current = _stored_form(identity)
    if claim.folder_identity is not None and _is_other(claim.folder_identity, current):
        raise FolderReplaced(folder)
    if claim.folder_identity != current:
        await database.transact(sessions.set_folder_identity, claim.session, current)
    return identity


def describe_refusal(refusal: FolderReplaced) -> str:
    """Return the sentence that a person reads instead of an answer."""
    return t(
        "⚠️ {folder} is no longer the folder that this conversation works in: a link or something "
        "else has taken its place, or it is gone. Put it back, or send /new to begin in the folder "
        "that is there now.",
        folder=refusal.path,
    )


def _stored_form(identity: FolderIdentity) -> str:
    path = sha256(bytes(identity.path)).hexdigest()[:32]
    return f"{path}:{_boot()}:{identity.device}:{identity.inode}"


def _is_other(stored: str, current: str) -> bool:
    """Return whether two folders of one path and one mount differ."""
    before, _, inode = stored.rpartition(":")
    now, _, current_inode = current.rpartition(":")
    return before == now and inode != current_inode


@cache
def _boot() -> str:
    """Return the id of this boot; '' where the system does not provide it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
