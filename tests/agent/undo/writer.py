"""A process that writes, runs commands and undoes in an endless loop, to be killed at any moment.

    python -m tests.agent.undo.writer FOLDER

It announces its start. Files of others are in FOLDER/workspace/theirs and are never written.
"""

import random
import sys
from pathlib import Path

from agent.errors import ToolError
from agent.undo.command_diff import CommandChangeDetector
from tests.agent.undo.scene import Scene

NAMES = ("a", "d/b", "d/e/c")


def main(folder: Path) -> None:
    scene = Scene(folder / "workspace", folder / "undo")
    chance = random.Random()
    print("begun", flush=True)
    while True:
        name = chance.choice(NAMES)
        match chance.randrange(4):
            case 0:
                scene.write(name, str(chance.random()) * 50)
            case 1:
                try:
                    scene.call("edit_file", path=name, old_string="0.", new_string="1.")
                except ToolError:
                    continue
            case 2:
                work = CommandChangeDetector(scene.origin("exec"), scene.changes)
                work.begin()
                (scene.root / name).unlink(missing_ok=True)
                work.end()
            case _:
                scene.undo(steps=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
