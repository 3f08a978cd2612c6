"""Sandbox of commands as configured."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from agent.errors import KoreError
from agent.security.local_services import OwnServices
from agent.security.sandbox.base import Limits
from agent.security.sandbox.environment import Toolchains, find_toolchains
from agent.security.sandbox.selector import SandboxChoice, SandboxOptions, select_sandbox
from gateway.config import Settings
from gateway.runtime.local_access import read_access
from gateway.runtime.paths import DataDir

_MB = 1_000_000


def command_limits(settings: Settings) -> Limits:
    """Return the resource limits of commands."""
    security = settings.security
    return Limits(
        processes=security.exec_processes,
        file_bytes=security.exec_file_mb * _MB,
        memory_bytes=security.exec_memory_mb * _MB,
        cpu_s=security.exec_cpu_s,
        session_bytes=security.exec_session_memory_mb * _MB,
        disk_bytes=security.exec_disk_mb * _MB,
        free_bytes=security.exec_disk_free_mb * _MB,
    )


def off_limits(settings: Settings, home: DataDir) -> tuple[Path, ...]:
    """Return the files and folders that no tool may open: those with secrets of Kore."""
    return (*home.protected_paths, *settings.private_files, *settings.store.local_paths)


def reachable_hosts(settings: Settings) -> tuple[str, ...]:
    """Return the hosts and local services that commands in a sandbox may reach."""
    return (*settings.security.exec_hosts, *settings.security.exec_local)


def own_services(settings: Settings, home: DataDir) -> OwnServices:
    """Return the services of Kore, which no command may reach."""
    listen = settings.server.listen or ""
    port = listen.rpartition(":")[2]
    ports = (settings.http.port, int(port) if port.isdecimal() else 0)
    paths = [*off_limits(settings, home)]
    if listen.startswith("unix:"):
        paths.append(Path(listen.removeprefix("unix:")).expanduser())
    return OwnServices(tuple(filter(None, ports)), tuple(paths), lambda: _server_port(home))


def _server_port(home: DataDir) -> Iterator[int]:
    """Yield the port of the server that another process of Kore runs."""
    with suppress(KoreError):
        access = read_access(home.server_access)
        port = urlsplit(access.web).port if access is not None else None
        yield from [] if port is None else [port]


def fixed_files(settings: Settings) -> tuple[Path, ...]:
    """Return the files that no tool may change, because they decide what tools may do.

    A project's configuration is not among them, because it applies only while its content is
    unchanged since it was trusted (`gateway.config.folder_trust`).
    """
    policy = settings.security.policy_file
    return () if policy is None else (policy,)


def sandbox_options(settings: Settings, root: Path) -> SandboxOptions:
    """Return the sandbox options of the section `security`; `root` is Kore's own folder."""
    security = settings.security
    limits = command_limits(settings)
    further = tuple(Path(name).expanduser() for name in security.sandbox_read)
    toolchains = Toolchains()
    if security.sandbox_toolchains:
        toolchains = find_toolchains(Path.home(), root)
    return SandboxOptions(
        security.sandbox,
        limits,
        further,
        toolchains,
        security.sandbox_image,
        workspaces=(settings.agent.workspace.expanduser(),),
    )


async def choose_sandbox(settings: Settings, home: DataDir) -> SandboxChoice:
    """Return the sandbox to use, probing it unless an earlier result exists.

    Raises `ConfigError`.
    """
    return await asyncio.to_thread(select_sandbox, sandbox_options(settings, home.root), home.root)
