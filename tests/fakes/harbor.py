"""A fake of harbor 0.24: the part of its installed agents that an adapter uses.

with installed(): agent = importlib.import_module("kore_harbor.agent").Kore(...)
"""

import asyncio
import functools
import importlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


@dataclass
class CliFlag:
    kwarg: str
    cli: str
    type: str = "str"


@dataclass
class Executed:
    stdout: str
    stderr: str
    return_code: int


@dataclass
class AgentContext:
    n_input_tokens: int | None = None
    n_output_tokens: int | None = None
    n_cache_tokens: int | None = None
    cost_usd: float | None = None


def with_prompt_template(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapper(self: Any, instruction: str, *args: Any, **kwargs: Any) -> None:
        await function(self, instruction, *args, **kwargs)

    return wrapper


class BaseInstalledAgent(ABC):
    CLI_FLAGS: list[CliFlag] = []  # noqa: RUF012  # as harbor has it

    def __init__(
        self,
        logs_dir: Path,
        model_name: str | None = None,
        version: str | None = None,
        extra_env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.logs_dir = logs_dir
        self.model_name = model_name
        self._version = version
        self._extra_env = extra_env or {}
        self._flags = {f.kwarg: kwargs.pop(f.kwarg) for f in self.CLI_FLAGS if f.kwarg in kwargs}
        if kwargs:
            raise TypeError(f"unknown keyword arguments: {sorted(kwargs)}")

    @abstractmethod
    async def install(self, environment: Any) -> None: ...

    def version(self) -> str | None:
        return self._version

    def build_cli_flags(self) -> str:
        known = [(f, self._flags[f.kwarg]) for f in self.CLI_FLAGS if f.kwarg in self._flags]
        return " ".join(f.cli if f.type == "bool" else f"{f.cli} {v}" for f, v in known if v)

    async def setup(self, environment: Any) -> None:
        await self.install(environment)
        done = await environment.exec(self.get_version_command())
        self._version = self.parse_version(done.stdout)

    async def exec_as_agent(
        self, environment: Any, command: str, env: dict[str, str] | None = None
    ) -> Executed:
        done: Executed = await environment.exec(f"set -o pipefail; {command}", env=env)
        if done.return_code != 0:
            raise RuntimeError(f"exit {done.return_code}: {command}\n{done.stdout}{done.stderr}")
        return done

    @abstractmethod
    def get_version_command(self) -> str: ...

    @abstractmethod
    def parse_version(self, stdout: str) -> str: ...

    def _get_env(self, key: str) -> str | None:
        return self._extra_env.get(key, os.environ.get(key))


class LocalEnvironment:
    """A container that is a folder: `paths` maps the container's folders to local ones."""

    def __init__(self, cwd: Path, paths: dict[str, Path], environ: dict[str, str]) -> None:
        self.cwd = cwd
        self.paths = paths
        self.environ = environ
        self.commands: list[str] = []
        self.uploads: list[tuple[str, str]] = []

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self.uploads.append((str(source_path), target_path))

    async def exec(self, command: str, env: dict[str, str] | None = None) -> Executed:
        self.commands.append(command)
        for inside, outside in self.paths.items():
            command = command.replace(inside, str(outside))
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", command),
            cwd=self.cwd,
            env={**self.environ, **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Executed(out.decode(), err.decode(), process.returncode or 0)


@contextmanager
def installed(adapters: Path) -> Iterator[SimpleNamespace]:
    """Make harbor and the adapters in that folder importable."""
    parts: dict[str, dict[str, Any]] = {
        "harbor": {},
        "harbor.agents": {},
        "harbor.agents.installed": {},
        "harbor.agents.installed.base": {
            "BaseInstalledAgent": BaseInstalledAgent,
            "CliFlag": CliFlag,
            "with_prompt_template": with_prompt_template,
        },
        "harbor.environments": {},
        "harbor.environments.base": {"BaseEnvironment": LocalEnvironment},
        "harbor.models": {},
        "harbor.models.agent": {},
        "harbor.models.agent.context": {"AgentContext": AgentContext},
    }
    before = dict(sys.modules)
    for name, members in parts.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module
    sys.path.insert(0, str(adapters))
    try:
        names = ("agent", "trajectory")
        modules = {name: importlib.import_module(f"kore_harbor.{name}") for name in names}
        yield SimpleNamespace(**modules)
    finally:
        sys.path.remove(str(adapters))
        for name in set(sys.modules) - set(before):
            if name.partition(".")[0] in ("harbor", "kore_harbor"):
                del sys.modules[name]
