"""Runs a command in a workspace that is replaced meanwhile, as the current user.

    echo '{"name": "landlock", "folder": "/srv/test", "put": "link"}' | python replaced_folder.py

The workspace is replaced once the command is prepared, or before that with {"is_early": true}. The
output is JSON: whether the sandbox `refused`, the command's `output`, and the names of the files
`elsewhere` and in the folder that was `moved` away. The script needs only the package `agent` and
driver.py.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent.security.files.folder_identity import FolderIdentity, FolderReplaced
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.brief_run import run_briefly
from tests.agent.security.sandbox.driver import sandbox


def main(order: dict[str, Any]) -> dict[str, Any]:
    base = Path(tempfile.mkdtemp(dir=order["folder"]))
    workspace, elsewhere, moved = base / "workspace", base / "elsewhere", base / "moved"
    for folder, name in ((workspace, "own.txt"), (elsewhere, "secret.txt")):
        folder.mkdir()
        (folder / name).write_text(name)
    job = SandboxCommand(
        "cat *.txt; echo x >new", workspace, workspace, identity=FolderIdentity.of(workspace)
    )

    def put() -> None:
        workspace.rename(moved)
        if order["put"] == "link":
            workspace.symlink_to(elsewhere)
        else:
            elsewhere.rename(workspace)

    output = bytearray()
    is_refused = False
    if order["is_early"]:
        put()
    try:
        with sandbox(order["name"], None).prepare(job) as spawn:
            if not order["is_early"]:
                put()
            run_briefly(spawn, 20, output.extend)
    except FolderReplaced:
        is_refused = True
    return {
        "refused": is_refused,
        "output": output.decode(),
        "elsewhere": sorted(os.listdir(workspace)),
        "moved": sorted(os.listdir(moved)),
    }


if __name__ == "__main__":
    os.umask(0o022)
    print(json.dumps(main(json.load(sys.stdin))))
