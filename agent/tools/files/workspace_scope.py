"""Access of tool calls to files inside and outside the workspace."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from agent.approvals import FolderAccess
from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.globs import FilePattern
from agent.security.files.ignore_rules import MAX_BYTES as IGNORES_LIMIT_BYTES
from agent.security.files.ignore_rules import Ignores
from agent.security.files.paths import (
    INBOX_FOLDER,
    MEMORY_FOLDER,
    blocked_entry,
    folded_path,
    quote_path,
    resolve_in_workspace,
    user_inbox_dir,
)
from agent.security.files.private_places import private_place
from agent.security.files.reading_rights import ReadingRights, open_listed
from agent.security.policy.base import Deletion
from agent.security.policy.roles import in_paths
from agent.security.shell.deletions import DeletionTargets
from agent.settings import ToolSettings
from agent.text.similar_names import similar_names
from agent.text.text_document import MAX_BYTES, searchable
from agent.text.visible import escape_line, hidden_character
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.feature_list import LIST, PROGRESS
from agent.tools.output_spill import spill_folder
from agent.undo.snapshot import IsHidden

OWNER_PROFILE = "USER.md"

# Instructions for turns of the owner; the heartbeat follows them without a message.
OWNER_TASK_FILES = ("HEARTBEAT.md", LIST, PROGRESS)

# Private to the owner, at the top of the workspace.
PRIVATE_NAMES = (MEMORY_FOLDER, INBOX_FOLDER, OWNER_PROFILE, *OWNER_TASK_FILES)

OWN_FOLDER = ".kore"

# In a very large folder, this many entries are compared with a missing name.
_MAX_SCANNED = 5_000


# Kind of access to a file outside the workspace.
Access = Literal["read", "write"]


@frozen
class FileAccess:
    """Access of a call to files.

    Outside the workspace, the call may change files in `writable_folders`. A person has to allow
    the `missing` access first.
    """

    writable_folders: tuple[Path, ...] = field(default=(), kw_only=True)
    missing: FolderAccess | None = field(default=None, kw_only=True)

    def added_to(self, plan: EffectPlan) -> EffectPlan:
        """Return the plan of the call with this access."""
        return replace(plan, writable_folders=self.writable_folders, folder_access=self.missing)

    @contextmanager
    def hiding_contents(self) -> Iterator[None]:
        """Replace errors that would reveal a file that the model may not read yet."""
        try:
            yield
        except ToolError as exc:
            if self.missing is None:
                raise
            raise ToolError(render_prompt("outside_unread", folder=self.missing.path)) from exc


@frozen
class LocatedPath(FileAccess):
    """Real path of a call, and the call's access to it."""

    path: Path

    def plan(self, **effects: Any) -> EffectPlan:
        """Return the plan of a call with this file."""
        return self.added_to(EffectPlan(**effects))


@frozen
class WorkspaceScope:
    """Path resolution for tools that isolates each person's data.

    The owner may see everything. Other people see their own memory file and the files that they
    sent, but neither other people's files nor the owner's profile and tasks. In Kore's own folder
    they see only stored outputs whose name they know.
    """

    settings: ToolSettings

    def find(self, path: str, call: CallContext, outside: Access | None = None) -> Path:
        """Return the real path of `path`. Raises ToolError if the call may not access it.

        Outside the workspace, the call needs an access of the kind `outside`: either commands have
        this access, or a person has allowed it.
        """
        place = self.locate(path, call, outside)
        if place.missing is not None:
            raise _leads_outside(path, call)
        return place.path

    def locate(self, path: str, call: CallContext, outside: Access | None = None) -> LocatedPath:
        """Return the location of a path, with the access that a person has to allow first."""
        restrict = self.settings.restrict_to_workspace
        inbox = _inbox_elsewhere(path, call) if restrict else None
        leaves = outside is not None and restrict and inbox is None and call.owner
        shared_files = call.shared_files if leaves else None
        real = resolve_in_workspace(
            path if shared_files is None else shared_files.real_path(path, call.folders),
            call.workspace,
            restrict=restrict and inbox is None and not leaves,
            blocked=self.settings.blocked_paths,
            start=call.base,
        )
        # A folder may have been replaced with a link in the meantime.
        if inbox is not None and not real.is_relative_to(inbox):
            raise ToolError(f"{quote_path(path)} leads outside the workspace.")
        is_outside = leaves and not real.is_relative_to(call.workspace)
        temporary = shared_files.temporary() if shared_files is not None and is_outside else None
        if temporary is not None and real.is_relative_to(temporary.path):
            if outside == "write" and real.is_relative_to(temporary.home):
                raise ToolError(f"{quote_path(path)} is in the home folder of commands; use exec.")
            return _located(real, temporary.path, outside)
        if self._kores_own()(real):
            raise ToolError(f"{quote_path(path)} is blocked: it is part of Kore itself.")
        if is_outside:
            return self._outside(real, path, call, outside)
        if _privacy_test(call)(real):
            raise ToolError(f"{quote_path(path)} belongs to someone else and cannot be used here.")
        if not call.owner and _is_own(real, call.workspace):
            raise ToolError(f"{quote_path(path)} is blocked: only the owner can use this folder.")
        return LocatedPath(real)

    def locate_all(self, paths: Iterable[str], call: CallContext, outside: Access) -> FileAccess:
        """Return the access to several files.

        Raises ToolError if this takes more than one question.
        """
        places = [self.locate(path, call, outside) for path in paths]
        missing = list(
            dict.fromkeys(place.missing for place in places if place.missing is not None)
        )
        if len(missing) > 1:
            names = ", ".join(str(access.path) for access in missing)
            raise ToolError(f"These folders are outside the workspace; use one per call: {names}.")
        folders = dict.fromkeys(folder for place in places for folder in place.writable_folders)
        return FileAccess(writable_folders=tuple(folders), missing=next(iter(missing), None))

    def _outside(
        self, real: Path, path: str, call: CallContext, access: Access | None
    ) -> LocatedPath:
        """Return the place of a real path outside the workspace. Raises ToolError."""
        if private_place(real) is not None:
            raise ToolError(f"{quote_path(path)} is blocked: such files contain keys or logins.")
        if str(real) == real.anchor:
            raise _leads_outside(path, call)
        is_written = access == "write"
        readable = call.shared_files.readable() if call.shared_files is not None else ()
        if not is_written and any(map(real.is_relative_to, readable)):
            return LocatedPath(real)
        access_needed = FolderAccess(real, is_written)
        for folder in call.folders:
            if folder.covers(access_needed):
                return _located(real, folder.path, access)
        missing = FolderAccess(_folder_around(real), is_written)
        return _located(real, missing.path, access, missing)

    def rights(self, path: Path, call: CallContext) -> ReadingRights | None:
        """Return the rights with which a call may read a real path; None for Kore's own rights.

        A file outside the workspace that no person has added is read with the rights of commands.
        Blocks.
        """
        restrict = self.settings.restrict_to_workspace
        if not restrict or call.shared_files is None or path.is_relative_to(call.workspace):
            return None
        if any(folder.covers(FolderAccess(path)) for folder in call.folders):
            return None
        return call.shared_files.rights(path)

    def find_entry(self, path: str, call: CallContext) -> Path:
        """Return the path to move or delete. Raises `ToolError`.

        For a link this is the link itself, whose folder must be accessible; for anything else, the
        path from `find`.
        """
        name = self.entry_name(path, call)
        if name == path:
            return self.find(path, call, "write")
        return self.find(name, call, "write") / os.path.basename(os.path.normpath(path))

    def entry_name(self, path: str, call: CallContext) -> str:
        """Return the path that has to be accessible to move or delete `path`: a link's folder."""
        unresolved = Path(os.path.normpath(call.base / path))
        return str(unresolved.parent) if unresolved.is_symlink() else path

    def missing(self, path: Path, call: CallContext) -> ToolError:
        """Return the error for a path that does not exist, with similar names."""
        folder = next(parent for parent in path.parents if parent.is_dir())
        name = path.relative_to(folder).parts[0]
        is_hidden = self.hidden_test(call)
        rights = self.rights(folder, call)
        try:
            with open_listed(folder, rights) as descriptor, os.scandir(descriptor) as entries:
                names = [
                    entry.name
                    for entry in islice(entries, _MAX_SCANNED)
                    if not is_hidden(folder, entry)
                ]
        except OSError:
            names = []
        similar = close_names(name, names)
        hint = f" Similar: {', '.join(escape_line(str(folder / text)) for text in similar)}."
        return ToolError(f"{path} does not exist.{hint if similar else ''}")

    def memory(self, call: CallContext) -> Path:
        """Return the real memory file of the speaker. Raises ToolError if links lead away."""
        home = _home(call.memory)
        real = resolve_in_workspace(
            str(call.memory.absolute()),
            home.resolve(),
            restrict=self.settings.restrict_to_workspace,
        )
        linked = real != home.resolve() / call.memory.absolute().relative_to(home)
        if self._kores_own()(real) or (linked and not call.owner):
            raise ToolError("The memory file is a symbolic link and cannot be used.")
        return real

    def hidden_test(self, call: CallContext) -> Callable[[Path, "os.DirEntry[str]"], bool]:
        """Return a test for entries of a real folder that must be hidden from the call."""
        is_closed = self.closed(call)
        root = call.workspace

        def is_hidden(folder: Path, entry: "os.DirEntry[str]") -> bool:
            path = folder / entry.name
            if not (entry.is_symlink() or entry.is_file() or entry.is_dir()):
                return True
            if not entry.is_symlink():
                return is_closed(path)
            if not call.owner and _is_inside(path, root / OWN_FOLDER):
                return True
            try:
                self.find(str(path), call, "read")
            except ToolError:
                return True
            return False

        return is_hidden

    def closed(self, call: CallContext) -> Callable[[Path], bool]:
        """Return a test for real paths, without links, that must be hidden from the call."""
        root, restrict = call.workspace, self.settings.restrict_to_workspace
        is_private, is_kores_own = _privacy_test(call), self._kores_own()

        @cache
        def temporary_folder() -> Path | None:
            temporary = None if call.shared_files is None else call.shared_files.temporary()
            return None if temporary is None else temporary.path

        def is_closed(path: Path) -> bool:
            if not call.owner and _is_inside(path, root / OWN_FOLDER):
                return True
            if blocked_entry(path, root, self.settings.blocked_paths) or is_private(path):
                return True
            if not restrict or path.is_relative_to(root):
                return is_kores_own(path)
            folder = temporary_folder()
            if folder is not None and path.is_relative_to(folder):
                return False
            return private_place(path) is not None or is_kores_own(path)

        return is_closed

    def unrecorded(self, call: CallContext) -> list[Path]:
        """Return the paths that undo ignores when a command or a similar tool changes files."""
        own = (*self.settings.off_limits, *self.settings.fixed_files)
        closed = [Path(os.path.realpath(path)) for path in own]
        return closed + [call.workspace / name for name in self.settings.blocked_paths]

    def recorded_outside(
        self, call: CallContext, paths: Sequence[Path] | None = None
    ) -> Mapping[Path, IsHidden]:
        """Return the folders outside the workspace whose changes are recorded like those in it.

        They are those that were added for changes: all, or those that contain one of the `paths`.
        The functions tell what is hidden there. May block.
        """
        is_closed, root = self.closed(call), call.workspace

        def is_hidden(path: Path) -> bool:
            return path.is_relative_to(root) or is_closed(path)

        folders: list[Path] = []
        for path in sorted(access.path for access in call.folders if access.is_writable):
            is_used = paths is None or any(used.is_relative_to(path) for used in paths)
            is_inner = any(path.is_relative_to(folder) for folder in (root, *folders))
            if is_used and not is_inner and path.is_dir() and not path.is_symlink():
                folders.append(path)
        return dict.fromkeys(folders, is_hidden)

    def deletion(self, paths: Sequence[Path], call: CallContext) -> Deletion | None:
        """Return the deletion of these paths, with the part that undo could restore. Blocks."""
        if not paths:
            return None
        added = self.recorded_outside(call, paths)
        coverage = call.changes.coverage(call.workspace, self.unrecorded(call), added)
        return coverage.deletion(DeletionTargets(tuple(paths), ()), confined=False)

    def _kores_own(self) -> Callable[[Path], bool]:
        """Return a test for real paths that belong to Kore itself at present."""
        own = (*self.settings.off_limits, *self.settings.fixed_files)
        closed = [_folded_parts(path) for path in _real(own)]

        def is_own(real: Path) -> bool:
            parts = folded_path(real).parts
            return any(parts[: len(own)] == own for own in closed)

        return is_own


def _located(
    path: Path, folder: Path, access: Access | None, missing: FolderAccess | None = None
) -> LocatedPath:
    folders = (folder,) if access == "write" else ()
    return LocatedPath(path, writable_folders=folders, missing=missing)


def _leads_outside(path: str, call: CallContext) -> ToolError:
    return ToolError(
        f"{quote_path(path)} leads outside the workspace; only paths inside {call.workspace} may "
        "be used."
    )


def _folder_around(real: Path) -> Path:
    """Return the folder to ask a person about: the repository that contains a path, or its folder.

    For a file directly in a folder such as the home folder, return the file itself.
    """
    folder = next(path for path in (real, *real.parents) if path.is_dir())
    repositories = (path for path in (folder, *folder.parents) if (path / ".git").exists())
    for candidate in (*repositories, folder):
        if not _is_broad(candidate):
            return candidate
    return real


def _is_broad(folder: Path) -> bool:
    """Return whether a folder is too general to allow: a top-level folder, or around the home."""
    return len(folder.parts) <= 2 or Path.home().is_relative_to(folder)


def _real(paths: Iterable[Path]) -> Iterator[str]:
    """Yield each path with links resolved; their common folder is resolved only once."""
    folders: dict[str, str] = {}
    for path in paths:
        folder, name = os.path.split(os.path.abspath(path))
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        path_in_folder = os.path.join(folders[folder], name)
        yield os.path.realpath(path_in_folder) if os.path.islink(path_in_folder) else path_in_folder


@lru_cache(maxsize=64)
def _folded_parts(path: str) -> tuple[str, ...]:
    return folded_path(Path(path)).parts


def _is_own(real: Path, root: Path) -> bool:
    """Return whether the path is in Kore's own folder.

    Stored outputs are exempt: a caller that knows the random name of an output may read it.
    """
    if real.parent == spill_folder(root) and real.is_file():
        return False
    return _is_inside(real, root / OWN_FOLDER)


def _is_inside(path: Path, folder: Path) -> bool:
    return folded_path(path).is_relative_to(folded_path(folder))


def _privacy_test(call: CallContext) -> Callable[[Path], bool]:
    """Return a test for real paths that may contain other people's data."""
    if call.owner:
        return lambda real: False
    home = _home(call.memory)
    own = home.resolve() / call.memory.absolute().relative_to(home)
    places = {folded_path(call.workspace), folded_path(home.resolve())}
    try:
        inbox = user_inbox_dir(home.resolve(), own)
    except ValueError:
        inbox = own
    private = [folded_path(place / name) for place in places for name in PRIVATE_NAMES]

    def is_private(real: Path) -> bool:
        if real in (own, own.parent) or real.is_relative_to(inbox):
            return False
        # git stores older versions of private files.
        if ".git" in folded_path(real).parts:
            return True
        # Some file systems find USER.md under the name user.md.
        return any(folded_path(real).is_relative_to(path) for path in private)

    return is_private


def holds_files_of_others(call: CallContext) -> bool:
    """Return whether the working folder has files that the person may not see.

    A program that reads the whole folder could reveal them.
    """
    return not call.owner and _home(call.memory).resolve().is_relative_to(call.workspace)


def _inbox_elsewhere(path: str, call: CallContext) -> Path | None:
    """Return the folder of files sent by the person, if the path is in it.

    This applies if the inbox is outside of the working folder.
    """
    home = _home(call.memory)
    if call.workspace == home.resolve():
        return None
    try:
        own = home.resolve() / call.memory.absolute().relative_to(home)
        inbox = user_inbox_dir(home.resolve(), own)
        real = Path(os.path.realpath(call.base / path))
    except (ValueError, OSError):
        return None
    return inbox if real.is_relative_to(inbox) else None


def _home(memory: Path) -> Path:
    """Return the folder that contains the memory folder of `memory`."""
    memory = memory.absolute()
    above = [path for path in memory.parents if path.name == MEMORY_FOLDER]
    return above[0].parent if above else memory.parent


# Longest path of a system call: PATH_MAX of Linux, without the terminator.
_PATH_BYTES = 4_095


class VisibleFiles:
    """Visibility of the files below `folder`, a real path that was checked.

    Kore's own folder is omitted unless it was requested, and so are files in folders that the user
    of `rights` cannot list.
    """

    def __init__(
        self,
        scope: WorkspaceScope,
        call: CallContext,
        folder: Path,
        rights: ReadingRights | None = None,
    ) -> None:
        self.root = call.workspace
        self.folder = folder
        self._start = call.base
        self._paths = call.paths
        self._is_closed = scope.closed(call)
        self.rights = rights
        self._can_list = None if rights is None else cache(rights.can_list)
        self._ignores = Ignores(self.root, folder, _bytes)
        # True if a file was omitted because its path is too long for system calls.
        self.is_cut = False
        own = folded_path(self.root / OWN_FOLDER)
        self._own = None if folded_path(folder).is_relative_to(own) else own

    def find(self, name: str, glob: FilePattern | None) -> Path | None:
        """Return the file `name`, a path relative to the folder; None if it must not be shown."""
        parts = name.split("/")
        if glob is not None and not glob.matches(parts):
            return None
        if ".." in parts or hidden_character(name) or self._ignores.hides(parts):
            return None
        if self._can_list is not None and not self._can_list((self.folder / name).parent):
            return None
        return self.find_named(name)

    def find_named(self, name: str) -> Path | None:
        """Like `find`, for a file requested by name, regardless of `.gitignore`."""
        path = self.folder / name
        if len(os.fsencode(path)) > _PATH_BYTES:
            self.is_cut = True
            return None
        if self._is_closed(path):
            return None
        if self._own is not None and folded_path(path).is_relative_to(self._own):
            return None
        fits = all(in_paths(path, self.root, scope) for scope in self._paths)
        return path if fits else None

    def display_path(self, path: Path) -> str:
        """Return the path as other tools accept it: relative, if it is inside the workspace."""
        return os.path.relpath(path, self._start) if path.is_relative_to(self.root) else str(path)


def lines(path: Path, rights: ReadingRights | None = None) -> list[str] | None:
    """Return the lines of a text file; None if it is unreadable, for example binary."""
    try:
        data = file_io.read(path, MAX_BYTES, rights)
    except ToolError:
        return None
    return searchable(data)


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it is gone."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def changed_at(path: Path) -> int:
    """Return the modification time of a file in ns; 0 if it is gone."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _bytes(path: Path) -> bytes | None:
    try:
        return file_io.read(path, IGNORES_LIMIT_BYTES)
    except ToolError:
        return None


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three similar names; names that differ only in their extension come first."""
    present = list(names)
    stem = Path(name).stem.casefold()
    twins = [text for text in present if Path(text).stem.casefold() == stem]
    close = similar_names(name, present, 3)
    return list(dict.fromkeys([*sorted(twins), *close]))[:3]
