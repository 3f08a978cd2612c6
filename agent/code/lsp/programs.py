"""Search for the programs of language servers on PATH, never inside a project."""

import json
import os
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path

from agent.security.files.safe_open import open_regular
from agent.security.sandbox.trusted_programs import is_closed_file
from agent.settings import LspServerSettings
from agent.tools.shell.program_folders import folders_of_command, interpreter_of

# First TypeScript version whose compiler is a server.
_FIRST_TSC_WITH_SERVER = 7
_MAX_BYTES = 1_000_000
_DEFAULT_TOOLCHAIN = "stable"


def find_server_program(server: LspServerSettings, projects: Iterable[Path]) -> str | None:
    """Return the path of the program, or None. May block.

    Programs inside a project or in folders that other users can write to are skipped, because
    others would decide what runs.
    """
    name = server.command[0]
    folders = os.environ.get("PATH", "").split(os.pathsep)
    own = [os.path.realpath(project) for project in projects]
    if "/" in name:
        # A person who configures a path, or a plugin that names one, has made the choice.
        return shutil.which(os.path.expanduser(name))
    for folder in folders:
        program = shutil.which(name, path=folder) if os.path.isabs(folder) else None
        if program is None or not _is_safe(program, own):
            continue
        if server.name == "tsc" and not server.configured and not _is_server_tsc(program):
            continue
        if server.name == "typescript" and not _has_typescript(server, program):
            continue
        return program
    return None


def shown_folders(
    server: LspServerSettings, program: str, closed: Iterable[Path]
) -> tuple[Path, ...]:
    """Return the folders that the sandbox must show for the program to run. May block.

    These are the folders of the program and of files that its arguments name by absolute path; for
    a plugin's server, only folders inside the plugin.
    """
    private = [Path.home(), *closed]
    plugin = server.plugin_folder
    # A plugin's script may name any program, and so any folder.
    is_named = "/" in server.command[0]
    from_path = () if is_named else (Path(program), interpreter_of(program))

    def may_show(path: Path) -> bool:
        if plugin is None or path in from_path:
            return True
        return path.resolve().is_relative_to(plugin.resolve())

    return folders_of_command((program, *server.command[1:]), private, may_show)


def module_cache(closed: Iterable[Path]) -> Path | None:
    """Return the module cache of Go, or None. May block.

    A cache that lies inside a closed folder or contains one is not returned.
    """
    go_path = os.environ.get("GOPATH", "").split(os.pathsep)[0] or str(Path.home() / "go")
    cache = Path(os.path.realpath(os.environ.get("GOMODCACHE") or f"{go_path}/pkg/mod"))
    is_closed = any(cache.is_relative_to(path) for path in closed)
    has_closed = any(path.is_relative_to(cache) for path in (Path.home(), *closed))
    return cache if cache.is_dir() and not is_closed and not has_closed else None


def rust_toolchain() -> str:
    """Return the user's default rustup toolchain, wherever the server starts. May block."""
    folder = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    try:
        with (folder / "settings.toml").open("rb") as file:
            settings = tomllib.loads(file.read(_MAX_BYTES).decode())
    except (OSError, ValueError):
        settings = {}
    name = settings.get("default_toolchain")
    return name if isinstance(name, str) and name else _DEFAULT_TOOLCHAIN


def installed_typescript(program: str) -> Path | None:
    """Return the `tsserver.js` installed next to typescript-language-server.

    A copy inside a project is untrusted code.
    """
    for folder in Path(os.path.realpath(program)).parents:
        script = folder / "node_modules" / "typescript" / "lib" / "tsserver.js"
        if folder.name != "node_modules" and script.is_file():
            return script if is_closed_file(os.path.realpath(script)) else None
    return None


def _has_typescript(server: LspServerSettings, program: str) -> bool:
    """Return whether the server can avoid the TypeScript of the project."""
    own = server.options.get("tsserver")
    has_own = isinstance(own, dict) and bool(own.get("path"))
    return has_own or installed_typescript(program) is not None


def _is_safe(program: str, projects: Iterable[str]) -> bool:
    real = os.path.realpath(program)
    for project in projects:
        if any(path.startswith(f"{project.rstrip('/')}/") for path in (program, real)):
            return False
    return is_closed_file(real)


def _is_server_tsc(program: str) -> bool:
    for folder in Path(os.path.realpath(program)).parents:
        path = folder / "package.json"
        if not path.is_file():
            continue
        try:
            with open_regular(path) as file:
                package = json.loads(file.read(_MAX_BYTES))
            if package.get("name") == "typescript":
                return int(str(package["version"]).split(".")[0]) >= _FIRST_TSC_WITH_SERVER
        except (OSError, ValueError, KeyError, AttributeError):
            return False
    return False
