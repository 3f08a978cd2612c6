"""Engine based on buildah with chroot isolation, which needs root but no daemon."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.image.engine import DATA, IMAGE, UID, Build, Run, command_words, run, run_checked

BASE = "localhost/kore-image-base"
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
SETTINGS = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}


class Chroot:
    """Engine with its images in `cache`, to build the base once; `work` contains the volume.

    The isolation is a chroot: no read-only root and no dropped capabilities, but the image's own
    user, files, entry point and command, and a volume that outlives them.
    """

    def __init__(self, cache: Path, work: Path) -> None:
        self._storage = ["--root", str(cache / "storage"), "--runroot", str(work / "run")]
        self._work = work
        self._volume = work / "volume"
        self._volume.mkdir()
        os.chown(self._volume, UID, UID)
        self._config: dict[str, Any] = {}
        self._container = ""
        self._env: list[str] = []
        self._service: asyncio.subprocess.Process | None = None

    async def make_base(self) -> str:
        "A small Debian with Python, made by debootstrap when it does not exist yet."
        if (await run(*self._words("inspect", "--type", "image", BASE), env=SETTINGS)).code:
            root = self._work / "base"
            packages = f"--include={BASE_PACKAGES}"
            await run_checked("debootstrap", "--variant=minbase", packages, "bookworm", str(root))
            container = (await self._buildah("from", "scratch")).strip()
            await self._buildah("add", "-q", container, str(root), "/")
            await self._buildah("commit", "-q", "--rm", container, BASE)
            await asyncio.to_thread(shutil.rmtree, root)
        return BASE

    async def build(self, build: Build) -> dict[str, Any]:
        mounts = [f"{host}:{inner}:ro" for host, inner in build.mounts.items()]
        await self._buildah(
            *("build", "--format", "docker", "--network", "host"),
            *("--secret", f"id=pip_conf,src={build.pip_conf}"),
            *("--build-arg", f"BASE={build.base}"),
            *(word for mount in mounts for word in ("-v", mount)),
            *("-t", IMAGE, str(build.context)),
        )
        image = json.loads(await self._buildah("inspect", "--type", "image", IMAGE))
        self._config = image["Docker"]["config"]
        return self._config

    async def once(self, *command: str) -> Run:
        container = (await self._buildah("from", IMAGE)).strip()
        try:
            return await run(*self._words("run", container, "--", *command), env=SETTINGS)
        finally:
            await self._buildah("rm", container)

    async def start(self, env: Mapping[str, str]) -> None:
        await self._drop_container()
        self._container = (await self._buildah("from", IMAGE)).strip()
        # Here tini is not process 1, and must be set to reap anyway.
        settings = {**env, "TINI_SUBREAPER": "1"}
        self._env = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._service = await asyncio.create_subprocess_exec(
                *self._inside(command_words(self._config)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **SETTINGS},
            )

    async def inside(self, *command: str) -> Run:
        return await run(*self._inside(command), env=SETTINGS)

    async def send(self, number: signal.Signals) -> int:
        assert self._service is not None
        for pid in self._targets(number):
            os.kill(pid, number)
        return await self._service.wait()

    async def logs(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    async def remove(self) -> None:
        if self._service is not None and self._service.returncode is None:
            await self.send(signal.SIGKILL)
        await self._drop_container()

    @property
    def _log(self) -> Path:
        return self._work / "service.log"

    def _targets(self, number: signal.Signals) -> list[int]:
        """Return the image's first process, and for a kill its descendants, like an engine."""
        assert self._service is not None
        first_word = command_words(self._config)[0]
        for pid in descendants(self._service.pid):
            if program(pid) == first_word:
                return [pid, *descendants(pid)] if number is signal.SIGKILL else [pid]
        return []

    def _inside(self, command: Sequence[str]) -> list[str]:
        volume = f"{self._volume}:{DATA}"
        return self._words("run", *self._env, "-v", volume, self._container, "--", *command)

    async def _drop_container(self) -> None:
        if self._container:
            await self._buildah("rm", self._container)
            self._container = ""

    def _words(self, *arguments: str) -> list[str]:
        return ["buildah", *self._storage, *arguments]

    async def _buildah(self, *arguments: str) -> str:
        return await run_checked(*self._words(*arguments), env=SETTINGS)


def program(pid: int) -> str:
    """Return the name that a process was started by; empty when it has just ended."""
    try:
        return Path(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])).name
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process, each parent before its children."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    result, waiting = [], [pid]
    while waiting:
        children = sorted(parents.get(waiting.pop(0), []))
        result += children
        waiting += children
    return result
