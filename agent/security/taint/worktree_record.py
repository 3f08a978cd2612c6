"""Record of linked worktrees that are trusted like their repositories.

Git's own files cannot decide this: commands may write some of them. So a worktree counts only if it
is in this record, which no tool can reach, and if it and the repository still name each other.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from agent.records import frozen
from agent.security.files.git_layout import find_outer_store, repository_store
from agent.security.files.safe_open import read_regular

_MAX_ENTRY_BYTES = 10_000


@frozen
class WorktreeRecord:
    """Record in Kore's own folder, with one file for each worktree.

    Processes may use it at the same time. Without a folder, the record ends with the process.
    """

    own_folder: Path | None = None
    _repositories: dict[Path, Path] = field(default_factory=dict, compare=False, repr=False)

    def add(self, worktree: Path, repository: Path) -> None:
        """Record a worktree of the repository whose main checkout is `repository`.

        Without a main checkout, it is the worktree that this one was created from.

        Both are real paths. Raises `OSError`.
        """
        if (file := self._file(worktree)) is None:
            self._repositories[worktree] = repository
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"worktree": str(worktree), "repository": str(repository)})
        new_file = file.with_name(f".{os.urandom(8).hex()}")
        try:
            new_file.write_text(text)
            new_file.replace(file)
        finally:
            new_file.unlink(missing_ok=True)

    def remove(self, worktree: Path) -> None:
        self._repositories.pop(worktree, None)
        if (file := self._file(worktree)) is not None:
            with suppress(OSError):
                file.unlink()

    def in_repository(self, path: Path) -> Path | None:
        """Return the same path in the recorded checkout, for a real path in a recorded worktree.

        None for any other path. May block.
        """
        for folder in (path, *path.parents):
            repository = self._repository_of(folder)
            if repository is not None:
                store = find_outer_store(folder)
                is_linked = store is not None and store.common == repository_store(repository)
                return repository / path.relative_to(folder) if is_linked else None
        return None

    def _repository_of(self, worktree: Path) -> Path | None:
        if (file := self._file(worktree)) is None:
            return self._repositories.get(worktree)
        try:
            entry = json.loads(read_regular(file, _MAX_ENTRY_BYTES, follow_links=False))
        except (OSError, ValueError):
            return None
        is_own = isinstance(entry, dict) and entry.get("worktree") == str(worktree)
        return Path(str(entry["repository"])) if is_own and "repository" in entry else None

    def _file(self, worktree: Path) -> Path | None:
        if self.own_folder is None:
            return None
        return (
            self.own_folder
            / "worktrees"
            / f"{hashlib.sha256(os.fsencode(worktree)).hexdigest()[:32]}.json"
        )
