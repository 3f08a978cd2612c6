"""Programs of tests that run as root and as an ordinary user, in a folder open to both."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent.security.sandbox.landlock.sandbox import kernel_abi

ROOT = Path(__file__).parents[1]
DRIVER = Path("tests", "agent", "security", "sandbox", "driver.py")
NOBODY = 65534
USERS = ("root", "nobody") if os.geteuid() == 0 else ("me",)


@contextmanager
def shared_place(*programs: Path) -> Iterator[Path]:
    """Make a folder with the package `agent`, driver.py and these programs of the repository.

    Each user has a subfolder, which has the user's name.
    """
    place = Path(tempfile.mkdtemp(prefix="kore-users-", dir="/var/tmp"))
    place.chmod(0o755)
    # With the bytecode: compiling takes longer than everything else that a program does.
    shutil.copytree(ROOT / "agent", place / "agent")
    for program in (DRIVER, *programs):
        (place / program).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / program, place / program)
    for user in USERS:
        (place / user).mkdir()
        if user == "nobody":
            os.chown(place / user, NOBODY, NOBODY)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run_as(user: str, place: Path, program: Path, order: Mapping[str, Any]) -> Any:
    """Run a program of the place with an order on its input; return the JSON that it prints.

    The order gets the user's `folder`.
    """
    ran = subprocess.run(
        [_python(user), str(place / program)],
        input=json.dumps({"folder": str(place / user), **order}),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/", text=True, capture_output=True, check=False, **_rights(user),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def require_sandbox(name: str) -> None:
    """Skip the test if this machine does not have the sandbox."""
    if name == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if name == "landlock" and kernel_abi() < 1:
        pytest.skip("this kernel has no Landlock")


def _rights(user: str) -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if user == "nobody" else {}


@cache
def _python(user: str) -> str:
    """Return a Python that this user may run: the suite's own may be in root's home."""
    code = "import sys, ctypes; sys.exit(sys.version_info < (3, 11))"
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            command = [program, "-c", code]
            ran = subprocess.run(command, cwd="/", check=False, **_rights(user))
        except OSError:
            continue
        if ran.returncode == 0:
            return program
    pytest.skip("no Python 3.11 that another user may run")
