"""Repository for standing answers: permissions for several calls, bound to exact arguments."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from agent.approvals import FolderAccess
from agent.records import frozen
from gateway.core.approval import (
    ApprovalPrompt,
    folder_fingerprint,
    folder_of_title,
    folder_title,
    network_fingerprints,
    prefix_fingerprints,
    recipient_fingerprint,
)
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.audit_outbox import AuditNote

_SELECT = (
    "SELECT id, principal, session, grant_hash, title, folder, granted_by, granted_at"
    " FROM permission_grant"
)


@frozen
class Grant:
    """Permission for `principal` in `folder` without a question; `granted_at` is Unix time.

    `session` is '' for a grant in every session.
    """

    id: int
    principal: str
    session: str
    title: str
    folder: str
    granted_by: str
    granted_at: float


def put_grant(tx: Transaction, question: ApprovalPrompt, session: str, by: str, now: float) -> None:
    """Allow this exact call, its prefixes with any arguments, its folder, the network to its hosts,
    or private data for its recipient.

    An earlier grant for the same call is replaced.
    """
    asker, grant_hash = tx.one(
        "SELECT asker, grant_hash FROM approval WHERE nonce = ?", (question.nonce,)
    )
    request, root = question.request, Path(question.root)
    folder = question.root
    titles: dict[str, str]
    if question.scope == "prefix":
        titles = {
            fingerprint: f"{request.tool} {prefix} (any arguments)"
            for fingerprint, prefix in prefix_fingerprints(request, root).items()
        }
    elif question.scope == "recipient" and request.recipient is not None:
        # Without a folder, the grant applies in every folder.
        titles = {
            recipient_fingerprint(request) or "": f"private data for the MCP server"
            f" {request.recipient.server}"
        }
        folder = ""
    elif question.scope == "network":
        hashes = network_fingerprints(request, root)
        titles = {
            fingerprint: f"{request.tool} network to {host}" for host, fingerprint in hashes.items()
        }
    elif question.scope == "folder" and request.folder_access is not None:
        titles = {
            folder_fingerprint(request.folder_access, root): folder_title(request.folder_access)
        }
    else:
        titles, folder = {grant_hash: question.title}, str(request.folder or question.root)
    for bound, title in titles.items():
        _put(tx, Grant(0, asker, session, title, folder, by, now), bound)


def put_folder(  # noqa: PLR0913 - the fields of a grant
    tx: Transaction,
    access: FolderAccess,
    *,
    principal: str,
    session: str,
    root: Path,
    by: str,
    now: float,
) -> None:
    """Allow a folder outside the workspace `root`; without a `session`, in every session."""
    grant = Grant(0, principal, session, folder_title(access), str(root), by, now)
    _put(tx, grant, folder_fingerprint(access, root))


def folders(
    tx: Transaction, principal: str, sessions: Sequence[str], root: Path
) -> list[FolderAccess]:
    """Return the folders outside the workspace `root` that are allowed in these sessions."""
    accesses = []
    for session in ("", *sessions):
        rows = tx.all(
            f"{_SELECT} WHERE principal = ? AND session = ? ORDER BY id", (principal, session)
        )
        hash_by_id = {row[0]: row[3] for row in rows}
        for grant in _readable(tx, rows):
            access = folder_of_title(grant.title)
            if access is not None and hash_by_id[grant.id] == folder_fingerprint(access, root):
                accesses.append(access)
    return accesses


def _put(tx: Transaction, grant: Grant, grant_hash: str) -> None:
    key = (grant.principal, grant.session, grant_hash)
    tx.run(
        "DELETE FROM permission_grant WHERE principal = ? AND session = ? AND grant_hash = ?", key
    )
    tx.run(
        "INSERT INTO permission_grant (principal, session, grant_hash, title, folder, granted_by,"
        " granted_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            tx.seal(grant.title, "permission_grant.title", *key, grant.granted_by),
            tx.seal(grant.folder, "permission_grant.folder", *key, grant.granted_by),
            grant.granted_by,
            grant.granted_at,
        ),
    )


def find_grant(
    tx: Transaction, principal: str, session: str, grant_hash: str
) -> tuple[str, str] | None:
    """Return the session of the grant that allows this call and the person who gave it, if any."""
    rows = tx.all(
        f"{_SELECT} WHERE principal = ? AND session IN ('', ?) AND grant_hash = ? ORDER BY session",
        (principal, session, grant_hash),
    )
    grant = next(_readable(tx, rows), None)
    return None if grant is None else (grant.session, grant.granted_by)


def list_grants(tx: Transaction) -> list[Grant]:
    """Return all grants, oldest first."""
    return list(_readable(tx, tx.all(f"{_SELECT} ORDER BY id")))


def _readable(tx: Transaction, rows: Iterable[Row]) -> Iterator[Grant]:
    """Yield the unchanged grants; a grant that was changed outside of Kore allows nothing."""
    for row in rows:
        with suppress(SealBroken):
            yield _grant(tx, row)


def _grant(tx: Transaction, row: Row) -> Grant:
    id_, principal, session, grant_hash, title, folder, by, at = row
    key = (principal, session, grant_hash)
    title = tx.unseal(title, "permission_grant.title", *key, by)
    folder = tx.unseal(folder, "permission_grant.folder", *key, by)
    return Grant(id_, principal, session, title, folder, by, at)


def revoke_grant(tx: Transaction, number: int | None, by: str, now: float) -> list[Grant]:
    """Revoke a grant, or all; return the revoked grants. Each gets an entry in the audit log."""
    revoked_grants = [grant for grant in list_grants(tx) if number in (None, grant.id)]
    for grant in revoked_grants:
        tx.run("DELETE FROM permission_grant WHERE id = ?", (grant.id,))
        params = {"action": "revoke", "who": grant.principal}
        reason = f"grant {grant.id}: taken back by {by}"
        note = AuditNote(now, "grant", reason, params, allowed=False, session=grant.session)
        audit_outbox.put(tx, note)
    return revoked_grants
