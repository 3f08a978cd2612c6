"""Where the program of a language server lies: on PATH, and never among the files of a project."""

import json
import os
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path

from agent.security.files.regular_file import open_regular
from agent.security.sandbox.trusted_programs import is_closed_file
from agent.settings import LspServerSettings
from agent.tools.shell.program_folders import folders_of_command, interpreter_of

# The first version of TypeScript whose compiler is a server.
_FIRST_SERVER_TSC = 7
_MOST_BYTES = 1_000_000
_USUAL_TOOLCHAIN = "stable"


def find_server_program(server: LspServerSettings, projects: Iterable[Path]) -> str | None:
    """The path of the program, or None. One in a project, or where other users can put one, is not
    it: whoever wrote the project would decide what runs. May block."""
    name = server.command[0]
    folders = os.environ.get("PATH", "").split(os.pathsep)
    own = [os.path.realpath(project) for project in projects]
    if "/" in name:
        # Who names a path, in the configuration or in a plugin, has decided.
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
    """The folders that the sandbox has to show for the program to run: its own, and those of the
    files that its arguments name by their full paths; of a plugin's server only what is in the
    plugin. May block."""
    private = [Path.home(), *closed]
    plugin = server.plugin_folder
    # A plugin's script may name any program, and with it any folder.
    is_named = "/" in server.command[0]
    from_path = () if is_named else (Path(program), interpreter_of(program))

    def may_show(path: Path) -> bool:
        if plugin is None or path in from_path:
            return True
        return path.resolve().is_relative_to(plugin.resolve())

    return folders_of_command((program, *server.command[1:]), private, may_show)


def module_cache(closed: Iterable[Path]) -> Path | None:
    """Where Go keeps the packages that projects of this person use; nothing that is closed, or has
    anything closed in it. May block."""
    go_path = os.environ.get("GOPATH", "").split(os.pathsep)[0] or str(Path.home() / "go")
    cache = Path(os.path.realpath(os.environ.get("GOMODCACHE") or f"{go_path}/pkg/mod"))
    is_closed = any(cache.is_relative_to(path) for path in closed)
    has_closed = any(path.is_relative_to(cache) for path in (Path.home(), *closed))
    return cache if cache.is_dir() and not is_closed and not has_closed else None


def rust_toolchain() -> str:
    """The toolchain that rustup takes by default for this person, wherever it is started. May
    block."""
    folder = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    try:
        with (folder / "settings.toml").open("rb") as file:
            settings = tomllib.loads(file.read(_MOST_BYTES).decode())
    except (OSError, ValueError):
        settings = {}
    name = settings.get("default_toolchain")
    return name if isinstance(name, str) and name else _USUAL_TOOLCHAIN


def typescript_beside(program: str) -> Path | None:
    """The `tsserver.js` that lies beside typescript-language-server; that of a project is a
    stranger's program."""
    for folder in Path(os.path.realpath(program)).parents:
        script = folder / "node_modules" / "typescript" / "lib" / "tsserver.js"
        if folder.name != "node_modules" and script.is_file():
            return script if is_closed_file(os.path.realpath(script)) else None
    return None


def _has_typescript(server: LspServerSettings, program: str) -> bool:
    """Whether it need not take that of the project."""
    own = server.options.get("tsserver")
    has_own = isinstance(own, dict) and bool(own.get("path"))
    return has_own or typescript_beside(program) is not None


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
                package = json.loads(file.read(_MOST_BYTES))
            if package.get("name") == "typescript":
                return int(str(package["version"]).split(".")[0]) >= _FIRST_SERVER_TSC
        except (OSError, ValueError, KeyError, AttributeError):
            return False
    return False
