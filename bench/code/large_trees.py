"""Trees of many files, for what walks and watches them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

_SIZES = ((10_000, 1_000), (100_000, 10_000))


def large_trees() -> Iterator[tuple[Path, int, str]]:
    """One after the other, each gone before the next: its root, how many folders it has, and what
    it is in words."""
    for files, folders in _SIZES:
        with tempfile.TemporaryDirectory(prefix="kore-bench-") as name:
            root = Path(name).resolve()
            for folder in range(folders):
                path = root / f"{folder // 100}/{folder % 100}"
                path.mkdir(parents=True)
                for number in range(files // folders):
                    (path / f"{number}.py").write_text("x")
            yield root, folders, f"{files:,} files in {folders:,} folders"
