"""The corpus of paths, requested by a guest through the real tools in separate processes.

The processes run as root and as nobody, with and without `openat2`, and with the kernel's views
mounted inside.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.agent.security.paths.cases import ALLOWED, HARMLESS, REFUSED
from tests.agent.security.paths.world import CANARY

ROOT = Path(__file__).parents[3]
NOBODY = 65534
is_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def play(folder: Path, prefix: list[str], *options: str) -> dict[str, Any]:
    command = [*prefix, sys.executable, "-m", "tests.agent.security.paths", str(folder), *options]
    done = subprocess.run(
        command, cwd=ROOT, env={"CANARY": CANARY, "HOME": "/root"}, capture_output=True, timeout=100
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["escapes"] == []
    assert report["let_through"] == []
    assert report["reached"] == list(ALLOWED)
    assert report["cases"] >= len(REFUSED) + len(HARMLESS)
    return report


def test_corpus_has_its_minimum_size() -> None:
    assert len(set(REFUSED) | set(HARMLESS)) >= 150


def test_hostile_paths_do_not_escape(tmp_path: Path) -> None:
    # A search starts a process; the proofs search every path.
    assert play(tmp_path, [], "--search-every", "6")["uid"] == os.getuid()


@pytest.mark.slow
@only_linux
def test_hostile_paths_do_not_escape_without_openat2(tmp_path: Path) -> None:
    assert play(tmp_path, [], "--without-openat2")["openat2"] is False


@pytest.mark.slow
@is_root
@only_linux
def test_hostile_paths_do_not_escape_as_another_user() -> None:
    # pytest's own folders are closed to other users.
    with TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        for options in ([], ["--without-openat2"]):
            folder = Path(name) / f"world{len(options)}"
            folder.mkdir()
            os.chown(folder, NOBODY, NOBODY)
            assert play(folder, [], "--as", str(NOBODY), *options)["uid"] == NOBODY


@pytest.mark.slow
@is_root
@only_linux
def test_hostile_paths_do_not_escape_into_kernel_mounts(tmp_path: Path) -> None:
    private = ["unshare", "--mount"]
    if subprocess.run([*private, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces here")
    for options in ([], ["--without-openat2"]):
        folder = tmp_path / f"world{len(options)}"
        folder.mkdir()
        assert play(folder, private, "--mounts", *options)["calls"] > 1500
