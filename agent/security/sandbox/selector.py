"""Selection of the sandbox for commands: the configured one, or the first that works."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from agent.errors import ConfigError
from agent.i18n import t
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.sandbox.base import Limits, Sandbox
from agent.security.sandbox.bubblewrap import Bubblewrap, features_of
from agent.security.sandbox.environment import Toolchains
from agent.security.sandbox.probe import probe
from agent.security.sandbox.trusted_programs import find_trusted_program
from agent.security.sandbox.unconfined import NoCommands, Unconfined
from agent.security.sandbox.unprivileged_user import is_root
from agent.version import VERSION

SandboxName = Literal["auto", "bwrap", "landlock", "container", "none"]
ORDER = ("bwrap", "landlock", "container")
FAILURE_TTL_S = 600
_INSTALL = "install bubblewrap (apt install bubblewrap), then run kore doctor"
_OTHER_USER = "run Kore as another user (docs/docker.md says how in a container), then kore doctor"


@frozen
class SandboxOptions:
    """Configured options of sandboxes.

    Programs of the sandbox itself are never taken from the folders `workspaces`.
    """

    name: SandboxName = "auto"
    limits: Limits = field(default_factory=Limits)
    readable_folders: tuple[Path, ...] = ()
    toolchains: Toolchains = field(default_factory=Toolchains)
    image: str = "debian:stable-slim"
    workspaces: tuple[Path, ...] = ()


@frozen
class SandboxChoice:
    """Selected sandbox, and the failures of the preferred ones before it."""

    sandbox: Sandbox
    failures: Mapping[str, str]

    def __str__(self) -> str:
        if self.sandbox.confines:
            return self.sandbox.name
        why = "; ".join(f"{name}: {reason}" for name, reason in self.failures.items())
        return f"none ({why})" if why else "none, as configured"


def select_sandbox(options: SandboxOptions, home: Path, *, afresh: bool = False) -> SandboxChoice:
    """Return the sandbox to use; each is probed once per kernel, boot and version of its program.

    Results are cached in `home`, which must exist; `afresh` ignores the cache. May block for some
    tenths of a second. Raises `ConfigError` if the configured sandbox does not work.
    """
    if options.name == "none":
        return SandboxChoice(Unconfined(), {})
    cache = _CachedChoice(home / "sandbox.json", afresh)
    failures: dict[str, str] = {}
    for name in ORDER if options.name == "auto" else (options.name,):
        try:
            sandbox, failure = _MAKERS[name](options, cache, home)
        except OSError as exc:  # this user may not access the folder of its program
            sandbox, failure = None, f"{exc.filename}: {exc.strerror}"
        if sandbox is not None and failure is None:
            return SandboxChoice(sandbox, failures)
        failures[name] = failure or "it does not work here"
    if options.name != "auto":
        reason = failures[options.name]
        raise ConfigError(
            t(
                'security.sandbox: "{name}" does not work here: {reason}',
                name=options.name,
                reason=reason,
            ),
            hint=installation_hint(),
        )
    if os.geteuid() == 0:
        attempts = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
        return SandboxChoice(NoCommands(render_prompt("sandbox/refused", tried=attempts)), failures)
    return SandboxChoice(Unconfined(), failures)


def installation_hint() -> str:
    """Return advice on how to get a working sandbox."""
    return _OTHER_USER if is_root() and find_trusted_program("bwrap") else _INSTALL


class _CachedChoice:
    """Cached probe results; a key changes with everything that its result depends on."""

    def __init__(self, file: Path, afresh: bool) -> None:
        self._file = file
        self._entries: dict[str, Any] = {}
        if not afresh:
            with suppress(OSError, ValueError):
                data = json.loads(file.read_text(encoding="utf-8"))
                self._entries = data if isinstance(data, dict) else {}

    def facts(self, name: str, key: str, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the cached facts of this key, or call `find`."""
        entry = self._entries.get(name)
        if isinstance(entry, dict) and entry.get("key") == key and _is_fresh(entry):
            return entry
        self._entries[name] = {"key": key, "at": time.time(), **find()}
        text = json.dumps(self._entries, indent=1)
        with suppress(OSError):  # the sandbox is probed again next time
            part = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            part.write_text(text, encoding="utf-8")
            part.chmod(0o600)
            part.replace(self._file)
        return dict(self._entries[name])


def _is_fresh(entry: Mapping[str, Any]) -> bool:
    """Return whether a result is still valid; a failure expires, since the system may have
    changed."""
    return entry.get("failure") is None or 0 <= time.time() - entry["at"] < FAILURE_TTL_S


_Made = tuple[Sandbox | None, str | None]


def _bubblewrap(options: SandboxOptions, cache: _CachedChoice, home: Path) -> _Made:
    program = find_trusted_program("bwrap", options.workspaces)
    if program is None:
        return None, "bubblewrap is not installed in a folder that only root or you can write to"

    def make_sandbox(features: list[str]) -> Bubblewrap:
        return Bubblewrap(
            program,
            frozenset(features),
            options.limits,
            options.readable_folders,
            toolchains=options.toolchains,
        )

    def find() -> dict[str, Any]:
        ran = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
        features = sorted(features_of(ran.stdout + ran.stderr))
        return {"features": features, "failure": _probe(make_sandbox(features), home)}

    facts = cache.facts("bwrap", _key(program, options), find)
    return make_sandbox(facts["features"]), facts["failure"]


def _landlock(options: SandboxOptions, cache: _CachedChoice, home: Path) -> _Made:
    from agent.security.sandbox.landlock.sandbox import Landlock, kernel_abi

    if os.geteuid() == 0:
        return None, "it does not confine root well enough"

    def make_sandbox(abi: int) -> Landlock:
        return Landlock(
            abi, options.limits, options.readable_folders, toolchains=options.toolchains
        )

    def find() -> dict[str, Any]:
        abi = kernel_abi()
        if abi < 1:
            return {"abi": 0, "failure": "this kernel has no Landlock, or it is not enabled"}
        return {
            "abi": abi,
            "failure": _probe(make_sandbox(abi), home),
        }

    facts = cache.facts("landlock", _key(Landlock(1).python, options), find)
    return make_sandbox(facts["abi"]), facts["failure"]


def _container(options: SandboxOptions, cache: _CachedChoice, home: Path) -> _Made:
    from agent.security.sandbox.container import ContainerSandbox

    program = find_trusted_program("docker", options.workspaces) or find_trusted_program(
        "podman", options.workspaces
    )
    if program is None:
        return None, "neither docker nor podman is installed"
    if is_root():
        return None, "its commands would run as root"
    sandbox = ContainerSandbox(program, options.image, options.limits)

    def find() -> dict[str, Any]:
        return {"failure": _probe(sandbox, home)}

    return sandbox, cache.facts("container", _key(program, options), find)["failure"]


_MAKERS: dict[str, Callable[[SandboxOptions, _CachedChoice, Path], _Made]] = {
    "bwrap": _bubblewrap,
    "landlock": _landlock,
    "container": _container,
}


def _probe(sandbox: Sandbox, home: Path) -> str | None:
    return probe(sandbox, home)


def _key(program: str, options: SandboxOptions) -> str:
    """Return a key that changes with the boot, kernel, user, program, Kore version and options."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    info, machine = os.stat(program), os.uname()
    parts = (
        boot.read_text().strip() if boot.exists() else "",
        machine.release, machine.version, str(os.geteuid()), program,
        str(info.st_mtime_ns), str(info.st_size), VERSION,
        repr((options.limits, options.readable_folders, options.toolchains, options.image)),
        load_prompt("sandbox/probe"),
    )  # fmt: skip
    return "|".join(parts)
