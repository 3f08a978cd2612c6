"""Trees of many files, for benchmarks that walk and watch them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

_SIZES = ((10_000, 1_000), (100_000, 10_000))


def large_trees() -> Iterator[tuple[Path, int, str]]:
    """Yield one tree after the other: root, number of folders, and description.

    Each tree is removed before the next one is created.
    """
    for files, folders in _SIZES:
        with tempfile.TemporaryDirectory(prefix="kore-bench-") as name:
            root = Path(name).resolve()
            for folder in range(folders):
                path = root / f"{folder // 100}/{folder % 100}"
                path.mkdir(parents=True)
                for number in range(files // folders):
                    (path / f"{number}.py").write_text("x")
            yield root, folders, f"{files:,} files in {folders:,} folders"
