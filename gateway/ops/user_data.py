"""Export and deletion of all data about one person."""

import asyncio
import json
import os
import re
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.files.folder_tree import TreeEntry, TreeWalk, open_up
from agent.security.files.paths import INBOX_FOLDER, MEMORY_FOLDER
from agent.security.files.safe_open import LISTED, open_folder_beneath, open_subfolder
from agent.undo.blob_store import BlobStore
from gateway.access.control import AccessControl, folder_name
from gateway.core.channel_table import DEFAULT_CHANNEL
from gateway.core.messages import OutboundFile
from gateway.delivery.outbound_files import FOLDER, OutgoingFiles, waiting
from gateway.ops.zip_writer import ZipWriter
from gateway.runtime.paths import DataDir
from gateway.store.files.port import FileStoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories import file_changes, preferences
from gateway.store.repositories.user_data import erasure

if TYPE_CHECKING:
    from gateway.store.files.file_store import SharedFiles

# State of a deletion when only traces on disk remain.
_REWRITE = "rewrite"
_BLOB = re.compile(r"\b[0-9a-f]{40}\b")
_ABOUT = """All that this Kore keeps of {who}.

sessions/                        conversations, a message a line (the first line: facts)
messages_received.jsonl          what arrived, as it arrived
messages_sent.jsonl              what was sent
conversations_with_others.jsonl  of groups: the turns that answered this person
spending.jsonl                   what was used; cost in billionths of a dollar
approvals.jsonl, standing_permissions.jsonl, access.jsonl
memory/, inbox/                  what was remembered, files that were sent

Times are Unix seconds. Not in here: the audit log, which tells who was allowed to do what.
"""


@frozen
class _Plan:
    """A deletion, stored in the database until it is complete.

    With `owner`, everything in the folders is theirs, except the top-level folders of `channels`.
    With `copies`, the copies made at upgrades are deleted too.
    """

    principal: str
    workspace: str
    owner: bool
    copies: bool = False
    channels: Sequence[str] = ()

    def folders(self) -> Sequence[Path]:
        """Return the folders with the person's memory and received files."""
        whole = [Path(self.workspace) / name for name in (MEMORY_FOLDER, INBOX_FOLDER)]
        if self.owner:
            return whole
        channel = self.principal.partition(":")[0]
        return [folder / channel / folder_name(_sender(self.principal)) for folder in whole]

    def walks(self) -> Iterator[tuple[str, TreeWalk]]:
        """Yield each folder's name in an export and a walk through it; links are not followed."""
        for folder in self.folders():
            if not folder.is_dir() or folder.is_symlink():
                continue
            top = folder.relative_to(self.workspace).parts[0]
            with open_folder_beneath(folder.parent.resolve(), flags=LISTED) as above:
                if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                    open_up(folder.name, above)
                root = open_subfolder(folder.name, above, flags=LISTED)
                try:
                    yield top, TreeWalk(root, self._is_theirs)
                finally:
                    os.close(root)

    def _is_theirs(self, folder: TreeEntry) -> bool:
        """Return whether the folder belongs to the person.

        Top-level folders of channels belong to other people than the owner.
        """
        return not self.owner or bool(folder.above) or folder.name not in self.channels

    def measure(self) -> tuple[int, int]:
        """Return the number of files, and their total bytes."""
        sizes = [m.info.st_size for _, walk in self.walks() for m in walk if m.is_file]
        return len(sizes), sum(sizes)


@frozen
class UserDataService:
    """User data service for the owner of the machine.

    `forget` drops a session from memory.
    """

    database: Store
    home: DataDir
    workspace: Path
    access: AccessControl
    forget: Callable[[str], None]
    reload_people: Callable[[Transaction], None]
    flush_audit: Callable[[], Awaitable[None]]
    files: "SharedFiles | None" = None
    channels: Sequence[str] = ()

    async def summarize(self, principal: str) -> Mapping[str, Any]:
        """Return counts of the stored data. Raises `KoreError` for an invalid id."""
        _check(principal)
        traces = await self.database.transact(erasure.traces, principal)
        files, file_bytes = await asyncio.to_thread(self._plan(principal).measure)
        return {
            **asdict(traces),
            "found": traces.has_data,
            "files": files,
            "file_bytes": file_bytes,
            "copies": [str(path) for path in self.database.upgrade_copies()],
            "owner": principal == self.access.owner_id,
            "allowed": any(_sender(principal) in allowed for allowed in self.access.allow.values()),
        }

    async def export(self, principal: str, target: Path) -> Mapping[str, Any]:
        """Write a zip file with all data, readable only by its owner. Raises `KoreError`."""
        from gateway.store.repositories.user_data import export

        _check(principal)
        texts = await self.database.transact(export.export_rows, principal)
        return await asyncio.to_thread(self._pack, principal, texts, target)

    async def delete(self, principal: str, *, copies: bool) -> Mapping[str, Any]:
        """Delete all data, and return what remains.

        Raises `KoreError` while an answer to the person is in progress.
        """
        before = await self.summarize(principal)
        if before["busy"]:
            raise KoreError(
                t("an answer to {principal} is in progress", principal=principal),
                hint=t("Wait for it, or send /stop in their chat; then try again."),
            )
        plan = self._plan(principal, copies=copies)
        changed, unsent = await self.database.transact(_erase, plan, time.time())
        for session in changed:
            self.forget(session)
        await self.database.transact(self.reload_people)
        await self.flush_audit()
        shared = self.files.outgoing if self.files is not None else None
        await OutgoingFiles(self.database.folder / FOLDER, shared).delete(list(unsent))
        try:
            left_out = await self.finish()
        except FileStoreError as exc:
            raise KoreError(
                t("all but files is deleted: {reason}", reason=exc),
                hint=t("The deletion continues at the next start of Kore."),
            ) from exc
        remaining = [str(path) for path in self.database.upgrade_copies()]
        return {**before, "copies": remaining, "left_out": left_out}

    async def finish(self) -> int:
        """Finish a deletion whose rows are deleted: its files, and the bytes of its rows.

        Also called at the next start after a process was killed during a deletion. Returns the
        number of files and folders that could not be deleted. Raises `FileStoreError` when shared
        files cannot be deleted now.
        """
        state = await self.database.transact(preferences.get_state, preferences.DELETION)
        left_out = 0
        if state is None:
            return left_out
        if state != _REWRITE:
            plan = _Plan(**json.loads(state))
            needed = await self.database.transact(_needed_blobs)
            left_out = await asyncio.to_thread(_unlink, self.home, plan, needed)
            if self.files is not None:
                await asyncio.to_thread(_delete_shared, self.files, plan, needed)
            if plan.copies:
                for path in self.database.upgrade_copies():
                    path.unlink(missing_ok=True)
            # From now on, the person's name is no longer stored.
            await self.database.transact(preferences.put_state, preferences.DELETION, _REWRITE)
        await self.database.rewrite()
        await self.database.transact(preferences.drop_state, preferences.DELETION)
        return left_out

    def _plan(self, principal: str, *, copies: bool = False) -> _Plan:
        owner = principal == self.access.owner_id or principal.startswith("cli:")
        return _Plan(principal, str(self.workspace), owner, copies, self.channels)

    def _pack(self, principal: str, texts: Mapping[str, str], target: Path) -> Mapping[str, Any]:
        try:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise KoreError(
                t("{path} already exists", path=target), hint=t("choose a file that does not exist")
            ) from None
        except OSError as exc:
            raise KoreError(
                t("{path}: cannot be written: {reason}", path=target, reason=exc.strerror)
            ) from exc
        zipped = zipfile.ZIP_DEFLATED
        try:
            with (
                open(fd, "wb") as file,
                zipfile.ZipFile(file, "w", zipped) as packed,
            ):
                packed.writestr("README.txt", _ABOUT.format(who=principal))
                for name, text in texts.items():
                    packed.writestr(name, text)
                packing = ZipWriter(packed)
                for top, walk in self._plan(principal).walks():
                    for member in walk:
                        if member.is_file:
                            packing.add(member, top)
                    packing.left_out += walk.left_out
        except OSError as exc:
            # A partial file would look complete, and block the next export.
            target.unlink(missing_ok=True)
            raise KoreError(
                t(
                    "{path}: {reason}; nothing was exported",
                    path=exc.filename or target,
                    reason=exc.strerror,
                )
            ) from exc
        return {
            "file": str(target),
            "size_bytes": target.stat().st_size,
            "parts": len(texts),
            "left_out": packing.left_out,
        }


def _unlink(home: DataDir, plan: "_Plan", needed: frozenset[str]) -> int:
    """Delete the files; return the number of files and folders that remain."""
    left_out = 0
    for _, walk in plan.walks():
        left_out += sum(not _is_deleted(member) for member in walk) + walk.left_out
    for folder in plan.folders():
        # The top level also contains the folders of other people.
        if folder.parent != Path(plan.workspace):
            _remove_empty(folder)
    blobs = BlobStore(home.undo)
    for name in blobs.names() - needed:
        (home.undo / "blobs" / name[:2] / name[2:]).unlink(missing_ok=True)
    for note in home.undo.glob("memos/*"):
        note.unlink(missing_ok=True)
    return left_out


def _delete_shared(files: "SharedFiles", plan: "_Plan", needed: frozenset[str]) -> None:
    for folder in plan.folders():
        name = str(folder.relative_to(plan.workspace))
        if name.split("/")[0] == INBOX_FOLDER:
            files.inbox(name).delete_others()
    undo = files.undo
    undo.delete_others({undo.name_of(name) for name in needed})


def _is_deleted(member: TreeEntry) -> bool:
    """Delete the entry; return False for a file that cannot be deleted.

    A folder is deleted if it is empty.
    """
    if member.is_done:
        with suppress(OSError):  # not empty
            os.rmdir(member.name, dir_fd=member.folder)
    elif member.is_folder:
        member.open_up()
    elif member.is_file:
        try:
            os.unlink(member.name, dir_fd=member.folder)
        except FileNotFoundError:
            return True
        except OSError:
            return False
    return True


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        with suppress(OSError):  # not empty
            folder.rmdir()


def _erase(tx: Transaction, plan: _Plan, now: float) -> tuple[list[str], set[OutboundFile]]:
    """Delete the rows; return the changed sessions, and the files that are no longer needed."""
    before = waiting(tx)
    changed = erasure.erase(tx, plan.principal, now)
    preferences.put_state(tx, preferences.DELETION, json.dumps(asdict(plan)))
    return changed, before - waiting(tx)


def _needed_blobs(tx: Transaction) -> frozenset[str]:
    """Return the names of contents that an undo still needs."""
    return frozenset(name for entry in file_changes.entries(tx) for name in _BLOB.findall(entry))


def _sender(principal: str) -> str:
    return principal.partition(":")[2]


def _check(principal: str) -> None:
    channel, colon, sender = principal.partition(":")
    if not (channel and colon and sender) or len(principal) > 200:
        raise KoreError(
            t(
                "found {principal!r}, expected a person's id such as {example}",
                principal=principal[:80],
                example=f"{DEFAULT_CHANNEL}:123",
            ),
            hint=t("`kore pair list` shows them"),
        )
