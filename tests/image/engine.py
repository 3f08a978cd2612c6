"""Engines that build and run the image: Docker or Podman, or buildah where no engine can run.

All give a container the host's network, so that the fake servers on 127.0.0.1 are reachable and no
ports have to be published.
"""

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

IMAGE = "localhost/kore-image-test"
DATA = "/home/kore/.kore"
UID = 10001


class ImageTestFailed(Exception):
    """A failed step; the text names it and shows its output."""


@dataclass(frozen=True, slots=True)
class Run:
    """Result of a command; `output` contains standard output and error, interleaved."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Build:
    """This machine's inputs to a build: `mounts` are host paths that pip's settings name."""

    context: Path
    base: str
    pip_conf: Path
    mounts: Mapping[Path, str] = field(default_factory=dict)


async def run(*command: str, env: Mapping[str, str] | None = None) -> Run:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(env or {})},
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return Run(process.returncode, output.decode(errors="replace"))


async def run_checked(*command: str, env: Mapping[str, str] | None = None) -> str:
    """Run the command and return its output. Raise `ImageTestFailed` if it fails."""
    ended = await run(*command, env=env)
    if ended.code:
        tail = ended.output[-4000:]
        raise ImageTestFailed(f"{shlex.join(command[:6])} ... ended with {ended.code}:\n{tail}")
    return ended.output


class Engine(Protocol):
    """Engine interface that the test uses. There is one service container at a time."""

    async def build(self, build: Build) -> dict[str, Any]:
        """Build the image; return its configuration in Docker's format."""
        ...

    async def once(self, *command: str) -> Run:
        """Run one command in a new container without volume, bypassing the entry point."""
        ...

    async def start(self, env: Mapping[str, str]) -> None:
        """Start the image's own entry point and command on the test's volume."""
        ...

    async def inside(self, *command: str) -> Run:
        """Run a command in the running service's container."""
        ...

    async def send(self, number: signal.Signals) -> int:
        """Send a signal as the engine would; return the exit code of the ended service."""
        ...

    async def logs(self) -> str: ...

    async def remove(self) -> None:
        """Remove containers and volumes of this test; built images may stay."""
        ...


class Docker:
    """Docker or Podman; `program` selects it."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._name = f"kore-image-test-{os.getpid()}"

    async def build(self, build: Build) -> dict[str, Any]:
        secret = f"id=pip_conf,src={build.pip_conf}"
        arguments = ["--secret", secret, "--build-arg", f"BASE={build.base}", "-t", IMAGE]
        await run_checked(self._program, "build", *arguments, str(build.context))
        (inspected,) = json.loads(await run_checked(self._program, "image", "inspect", IMAGE))
        config: dict[str, Any] = inspected["Config"]
        return config

    async def once(self, *command: str) -> Run:
        entry = ["--entrypoint", command[0], IMAGE, *command[1:]]
        return await run(self._program, "run", "--rm", "--network", "host", *entry)

    async def start(self, env: Mapping[str, str]) -> None:
        await run(self._program, "rm", "-f", self._name)
        safety = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
        safety += ["--security-opt", "no-new-privileges"]
        settings = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        place = ["--name", self._name, "--network", "host", "-v", f"{self._name}:{DATA}"]
        await run_checked(self._program, "run", "-d", *place, *safety, *settings, IMAGE)

    async def inside(self, *command: str) -> Run:
        return await run(self._program, "exec", self._name, *command)

    async def send(self, number: signal.Signals) -> int:
        await run_checked(self._program, "kill", "-s", number.name, self._name)
        return int((await run_checked(self._program, "wait", self._name)).split()[-1])

    async def logs(self) -> str:
        return (await run(self._program, "logs", self._name)).output

    async def remove(self) -> None:
        await run(self._program, "rm", "-f", self._name)
        await run(self._program, "volume", "rm", "-f", self._name)


def command_words(config: Mapping[str, Any]) -> Sequence[str]:
    return [*(config["Entrypoint"] or []), *(config["Cmd"] or [])]
