"""A process that repeatedly writes 50 files in one call, to be killed at any moment.

    python -m tests.agent.undo.set_writer FOLDER

It announces its start. Each round is one call, which writes the number of the round to every file.
"""

import itertools
import sys
from pathlib import Path

from agent.tools.files.draft_check import Draft
from agent.tools.files.write_set import write_set
from tests.agent.undo.scene import Scene

COUNT = 50


def main(folder: Path) -> None:
    scene = Scene(folder / "workspace", folder / "undo")
    paths = [scene.root / f"d{n % 5}" / f"{n}.txt" for n in range(COUNT)]
    for number in itertools.count(1):
        before = f"{number - 1}\n" if number > 1 else None
        drafts = [Draft(path, before, f"{number}\n") for path in paths]
        write_set(drafts, scene.context("sync_virtual"))
        if number == 1:
            print("begun", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
