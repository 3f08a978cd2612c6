"""Random file operations: the reported changes reproduce the state of the folder."""

import random
import shutil
from pathlib import Path

import pytest

from agent.code.watch.inotify_source import InotifySource
from agent.code.watch.project_watches import ChangeSubscription, ProjectWatches

NAMES = ("a", "b", "c", "skip")
STEPS = 400


def files_in(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file() and "skip" not in path.parts}


class Folders:
    """Performs random file operations in a folder."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self._random = random.Random(seed)

    def work(self) -> None:
        step = self._random.choice((self._write, self._write, self._make, self._move, self._delete))
        try:
            step()
        except OSError:
            # The operation is not possible, such as moving a folder into itself.
            return

    def _path(self) -> Path:
        depth = self._random.randint(1, 4)
        return self.root.joinpath(*self._random.choices(NAMES, k=depth))

    def _existing(self) -> Path:
        paths = sorted(path for path in self.root.rglob("*") if path.name != ".gitignore")
        return self._random.choice(paths) if paths else self.root / "a"

    def _write(self) -> None:
        path = self._path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(self._random.random()))

    def _make(self) -> None:
        self._path().mkdir(parents=True)

    def _move(self) -> None:
        self._existing().rename(self._path())

    def _delete(self) -> None:
        path = self._existing()
        shutil.rmtree(path) if path.is_dir() else path.unlink()


async def follow_until(subscription: ChangeSubscription, root: Path, last: Path) -> set[Path]:
    """Return the files according to the reported changes, once `last` is among them."""
    existing: set[Path] = set()
    async for batch in subscription:
        if not batch.is_complete:
            existing = files_in(root)
        for change in batch.changes:
            if change.kind == "deleted":
                existing = {path for path in existing if not path.is_relative_to(change.path)}
            else:
                existing.add(change.path)
        if last in existing:
            return existing
    raise AssertionError("a subscription does not end")


@pytest.mark.parametrize("seed", range(12))
async def test_reported_changes_add_up_to_existing_files(tmp_path: Path, seed: int) -> None:
    root = tmp_path.resolve()
    (root / ".gitignore").write_text("skip\n")
    watches = ProjectWatches(make_source=InotifySource)
    with watches.follow(root) as subscription:
        await subscription.wait_begun()
        folders = Folders(root, seed)
        for _ in range(STEPS):
            folders.work()
        (last := root / "last").write_text("x")
        existing = await follow_until(subscription, root, last)
    watches.close()
    assert existing == files_in(root) - {root / ".gitignore"}
