"""Watches under kernel limits, set in a user namespace."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLLOW = """
import asyncio, logging, sys
from pathlib import Path
from agent.code.watch.project_watches import ProjectWatches

async def main(root):
    watches = ProjectWatches()
    with watches.follow(root) as subscription:
        await subscription.wait_begun()
        print(watches.watched().get(root, 0))
        if watches.watched():
            (root / "x").write_text("x")
            print(await anext(aiter(subscription)))
    watches.close()

logging.basicConfig(format="%(message)s")
asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(5):
        (tmp_path / f"{number}/deep").mkdir(parents=True)
    return tmp_path.resolve()


def follow_with(limit: str, root: Path) -> tuple[list[str], list[str]]:
    """Return the lines that the script prints and logs."""
    name, _, value = limit.partition("=")
    script = f"echo {value} > /proc/sys/user/{name} && exec {sys.executable} -c '{FOLLOW}' {root}"
    process = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare" in process.stderr or f"/proc/sys/user/{name}" in process.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines(), process.stderr.splitlines()


def test_top_folders_are_watched_up_to_the_limit(root: Path) -> None:
    shown, logged = follow_with("max_inotify_watches=4", root)
    assert shown[0] == "4"
    assert str(root / "x") in shown[1]
    assert len(logged) == 1
    assert "max_user_watches leaves: only the top 4 are watched" in logged[0]


@pytest.mark.parametrize(
    ("limit", "setting"),
    [
        ("max_inotify_watches=0", "max_user_watches"),
        ("max_inotify_instances=0", "max_user_instances"),
    ],
)
def test_unavailable_watch_logs_one_sentence(root: Path, limit: str, setting: str) -> None:
    shown, logged = follow_with(limit, root)
    assert shown == ["0"]
    assert len(logged) == 1
    assert logged[0].startswith(f"cannot watch {root}")
    assert setting in logged[0]
