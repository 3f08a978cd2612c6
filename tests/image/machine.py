"""Local resources of the image test: an engine, and access to packages."""

import ast
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.image.chroot import Chroot
from tests.image.engine import Build, Docker, Engine, ImageTestFailed, run, run_checked

CHROOT_PROGRAMS = ("buildah", "debootstrap")
SLIM_BASE = "python:3.13-slim"
# Settings of pip that belong to this machine's user and not to a build.
PERSONAL = {"cache-dir", "log", "target", "user", "prefix", "root", "require-virtualenv"}


@asynccontextmanager
async def engine(work: Path) -> AsyncIterator[tuple[Engine, str]]:
    """Yield the engine and the base image to build on; `KORE_IMAGE_BASE` sets another base."""
    configured_base = os.environ.get("KORE_IMAGE_BASE")
    for program in ("docker", "podman"):
        if shutil.which(program) and (await run(program, "info")).code == 0:
            docker: Engine = Docker(program)
            try:
                yield docker, configured_base or SLIM_BASE
            finally:
                await docker.remove()
            return
    await install_missing()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kore-image-test"
    cache.mkdir(parents=True, exist_ok=True)
    chroot = Chroot(cache, work)
    try:
        yield chroot, configured_base or await chroot.make_base()
    finally:
        await chroot.remove()


async def install_missing() -> None:
    """Install buildah if it is missing. Raise `ImageTestFailed` if that is impossible."""
    missing = [program for program in CHROOT_PROGRAMS if not shutil.which(program)]
    if os.geteuid():
        raise ImageTestFailed("No Docker or Podman answers here; buildah in a chroot needs root.")
    if missing and not shutil.which("apt-get"):
        names = " and ".join(missing)
        raise ImageTestFailed(f"No Docker or Podman answers here: start one, or install {names}.")
    if missing:
        print(f"installing {' '.join(missing)}", flush=True)
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        await run_checked("apt-get", "update", "-qq", env=env)
        await run_checked(
            "apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=env
        )


async def build_settings(context: Path, base: str, work: Path) -> Build:
    """Write this machine's pip settings to a file for the build; local paths become mounts."""
    mounts: dict[Path, str] = {}
    lines = ["[global]"]
    for name, value in pip_settings(
        await run_checked(sys.executable, "-m", "pip", "config", "list")
    ):
        if name in PERSONAL:
            continue
        words = value.split()
        for path in (Path(word.removeprefix("file://")) for word in words):
            if path.is_absolute() and path.exists():
                root = served_folder(path)
                mounts[root] = str(root) if root.is_dir() else f"/etc/kore-build/{root.name}"
        lines.append(f"{name} = {' '.join(relocate(word, mounts) for word in words)}")
    conf = work / "pip.conf"
    conf.write_text("\n".join(lines) + "\n")
    return Build(context, base, conf, mounts)


def pip_settings(listed: str) -> Iterator[tuple[str, str]]:
    """Parse `section.name='value'` lines; the environment's come last, so that they win."""
    merged: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        key, separator, quoted = line.partition("=")
        if separator and (key.startswith(("global.", ":env:.", "install."))):
            value: Any = ast.literal_eval(quoted)
            merged[key.rpartition(".")[2]] = str(value)
    yield from merged.items()


def served_folder(path: Path) -> Path:
    """Return the folder to mount: an index folder links to files in its parent."""
    return path.parent if path.name == "simple" else path


def relocate(word: str, mounts: dict[Path, str]) -> str:
    path = Path(word.removeprefix("file://"))
    return mounts[path] if path in mounts and path.is_file() else word
