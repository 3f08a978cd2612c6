"""Folders outside the workspace that the owner adds to a conversation."""

import os
from pathlib import Path

from agent.approvals import FolderAccess
from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from agent.security.files.private_places import private_place
from gateway.store.port import Transaction
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.access import grants
from gateway.store.repositories.audit_outbox import AuditNote


@frozen
class FolderOwner:
    """Person and conversation that folders are added to, and its workspace."""

    principal: str
    session: str
    root: Path


def named_folder(name: str, base: Path) -> FolderAccess:
    """Return the access to a folder named by its owner; relative names start at `base`.

    Raises `ConfigError`.
    """
    try:
        path = Path(os.path.realpath(base / Path(name).expanduser()))
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError):
        is_folder = False
    if not is_folder:
        raise ConfigError(t("{folder}: no such folder", folder=name))
    if str(path) == path.anchor or private_place(path) is not None:
        raise ConfigError(
            t("{folder}: cannot be added", folder=name),
            hint=t("folders with keys or logins stay closed, and so does the whole file system"),
        )
    return FolderAccess(path, is_writable=True)


def add_folder(tx: Transaction, access: FolderAccess, owner: FolderOwner, now: float) -> None:
    """Allow a folder in this conversation, and record it, unless it is already allowed."""
    present = grants.folders(tx, owner.principal, (owner.session,), owner.root)
    if any(folder.covers(access) for folder in present):
        return
    grants.put_folder(
        tx,
        access,
        principal=owner.principal,
        session=owner.session,
        root=owner.root,
        by=owner.principal,
        now=now,
    )
    params = {"action": "session", "who": owner.principal, "folder": str(access.path)}
    reason = f"folder added by {owner.principal}"
    audit_outbox.put(tx, AuditNote(now, "grant", reason, params, session=owner.session))
