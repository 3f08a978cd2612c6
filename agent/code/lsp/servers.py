"""Language servers of an agent, one per language and folder, shared by conversations."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from agent.code.lsp.compilation_database import (
    MAX_BYTES,
    CompilationDatabase,
    has_database_argument,
    with_database,
)
from agent.code.lsp.known_servers import KNOWN_SERVERS, LANGUAGE_IDS
from agent.code.lsp.programs import (
    find_server_program,
    installed_typescript,
    module_cache,
    rust_toolchain,
    shown_folders,
)
from agent.code.lsp.server import FollowFolder, LanguageServer, WatchedFiles
from agent.code.status import ServerStatus
from agent.errors import ToolError
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity
from agent.security.files.private_folder import ProcessFolder
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import LspServerSettings, LspSettings, ToolSettings
from agent.tools.shell.confined_server import (
    ConfinedServer,
    ServerCommand,
    ServerLog,
    TooMuchOutput,
)
from agent.tools.shell.resource_limits import ResourceLimits

# Limit for a machine with little memory; the least recently used server is ended first.
MAX_SERVERS = 8
_REAP_INTERVAL_S = 30.0
# Programs are rarely installed or removed: their paths are looked up again after this time.
_CHOICE_TTL_S = 60.0


def all_servers(settings: LspSettings) -> list[LspServerSettings]:
    """Return the configured servers, then the built-in ones, without disabled servers."""
    configured = {server.name for server in settings.servers}
    built_in = (server for server in KNOWN_SERVERS if server.name not in configured)
    servers = (*settings.servers, *built_in)
    return [server for server in servers if server.name not in settings.without]


@frozen
class InstalledServer:
    """Installed server with the path of its program."""

    settings: LspServerSettings
    program: str


class LanguageServers:
    """Servers, started and ended on demand. Belongs to one event loop at a time."""

    def __init__(
        self,
        settings: LspSettings,
        tools: ToolSettings,
        trusted: Sequence[Path] = (),
        follow: FollowFolder | None = None,
    ) -> None:
        """Without a sandbox, servers without explicit configuration run only in `trusted`
        folders.

        `follow` reports changes on disk to running servers.
        """
        self.settings = settings
        self._tools = tools
        self._trusted = tuple(trusted)
        self._follow = follow
        self._servers: dict[tuple[str, Path], LanguageServer] = {}
        self._choices: dict[tuple[str, Path], tuple[float, InstalledServer | None]] = {}
        self._meters = ResourceLimits()
        self._own_folder = ProcessFolder("kore-lsp-")
        self._reaper: asyncio.Task[None] | None = None

    def candidates(self, path: Path) -> list[LspServerSettings]:
        """Return the servers for a file by preference, installed or not."""
        if not self.settings.enabled:
            return []
        suffix = path.suffix.lower()
        return [server for server in all_servers(self.settings) if suffix in server.extensions]

    def language(self, server: LspServerSettings, path: Path) -> str:
        """Return the language identifier that the server uses for a file."""
        suffix = path.suffix.lower()
        return server.languages.get(suffix) or LANGUAGE_IDS.get(suffix) or suffix.lstrip(".")

    async def find(self, path: Path, workspace: Path) -> LanguageServer | None:
        """Return the server for a file of a workspace, started or not, or None."""
        candidates = self.candidates(path)
        if not candidates:
            return None
        choices = await asyncio.to_thread(self._choose, candidates, path, workspace)
        if not choices:
            return None
        # Fall back to the next server if the preferred one fails to start.
        key = next(
            (choice for choice in choices if not self._has_failed(choice)), next(iter(choices))
        )
        server = self._servers.get(key)
        if server is None:
            await self._make_room()
            server = self._servers[key] = self._make(choices[key], key[1])
        self._servers[key] = self._servers.pop(key)
        if self._reaper is None or self._reaper.done():
            self._reaper = asyncio.create_task(self._reap(), name="idle language servers")
        return server

    def explain_absence(self, path: Path) -> str:
        """Explain to the model why no server handles a file."""
        if not self.settings.enabled:
            return "Language servers are switched off here."
        names = [server.name for server in self.candidates(path)]
        if not names:
            return f"No language server is known for files like {path.name}."
        if not self._may_run(path, names):
            return (
                "There is no sandbox here, so language servers run only where a person has "
                "configured them (lsp_servers) or trusts the folder."
            )
        return f"None of the language servers for this file is installed: {', '.join(names)}."

    @property
    def running(self) -> list[LanguageServer]:
        """Servers that are currently running."""
        return [server for server in self._servers.values() if server.running is not None]

    def status(self) -> list[ServerStatus]:
        """Return the status of all servers used so far, sorted by name."""
        states = [server.status for server in self._servers.values()]
        return sorted(states, key=lambda status: (status.name, status.folder))

    def retire(self) -> None:
        """End all servers without waiting."""
        for server in self._servers.values():
            server.retire()

    async def aclose(self) -> None:
        """End all servers and wait for them."""
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        servers, self._servers = self._servers, {}
        await asyncio.gather(*(server.aclose() for server in servers.values()))

    async def _make_room(self) -> None:
        while len(self._servers) >= MAX_SERVERS:
            await self._servers.pop(next(iter(self._servers))).aclose()

    async def _reap(self) -> None:
        """End idle servers until none is running."""
        interval_s = min(_REAP_INTERVAL_S, self.settings.idle_s)
        are_running = True
        while are_running:
            await asyncio.sleep(interval_s)
            running = [server for server in self._servers.values() if server.end_if_idle()]
            are_running = bool(running)

    def _choose(
        self, candidates: Sequence[LspServerSettings], path: Path, workspace: Path
    ) -> dict[tuple[str, Path], InstalledServer]:
        """Return the installed servers that may run, in order of preference, with their project
        folders.
        """
        choices = {}
        for server in candidates:
            installed_server = self._find_program(server, workspace)
            if installed_server is not None and self._may_run(workspace, [server.name]):
                folder = _project_folder(server, path, workspace)
                choices[(server.name, folder)] = installed_server
        if choices:
            self._root()  # create it in this thread, because it may block
        return choices

    def _find_program(self, server: LspServerSettings, workspace: Path) -> InstalledServer | None:
        key = (server.name, workspace)
        chosen_at, choice = self._choices.get(key, (float("-inf"), None))
        if monotonic() - chosen_at >= _CHOICE_TTL_S:
            program = find_server_program(server, (workspace,))
            choice = InstalledServer(server, program) if program is not None else None
            self._choices[key] = (monotonic(), choice)
        return choice

    def _has_failed(self, key: tuple[str, Path]) -> bool:
        server = self._servers.get(key)
        return server is not None and server.state == "failed"

    def _may_run(self, folder: Path, names: Sequence[str]) -> bool:
        """Return whether these servers may run in a folder.

        A server reads the project's configuration, and some run commands from it: without a
        sandbox, a person must have allowed that.
        """
        sandbox = self._tools.sandbox or Unconfined()
        if sandbox.confines or self._tools.full_access:
            return True
        configured = {server.name for server in self.settings.servers if server.configured}
        if configured.intersection(names):
            return True
        return any(folder.is_relative_to(trusted) for trusted in self._trusted)

    def _make(self, choice: InstalledServer, folder: Path) -> LanguageServer:
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        home = self._root() / f"{choice.settings.name.replace('/', '-')}-{digest}"
        log = ServerLog(lambda: home)
        settings = choice.settings
        program = Path(choice.program)
        if settings.name == "typescript" and (script := installed_typescript(choice.program)):
            settings = replace(settings, options=_with_tsserver(settings.options, script))
        command = ServerCommand(
            (str(program), *settings.command[1:]),
            folder,
            home,
            variables={**_VARIABLES, **settings.variables},
            read_only=True,
            identity=FolderIdentity.of(folder),
        )

        def find_command() -> ServerCommand:
            closed = self._tools.off_limits
            folders = shown_folders(choice.settings, choice.program, closed)
            variables = dict(command.variables)
            if settings.name == "gopls" and (cache := module_cache(closed)) is not None:
                folders += (cache,)
                variables.setdefault("GOMODCACHE", str(cache))
            # A `rust-toolchain.toml` may name a folder of the project, whose programs would run.
            variables.setdefault("RUSTUP_TOOLCHAIN", rust_toolchain())
            return replace(command, shown_folders=folders, variables=variables)

        title = f"language server {settings.name}"

        async def run_script(script: str, text: bytes) -> bytes:
            """Run a script as the server runs, and return its output."""
            build_command = replace(command, argv=("/bin/sh", "-c", script))
            build = ConfinedServer(title, lambda: build_command, self._tools, log, self._meters)
            return await _read_output(build, text)

        database: CompilationDatabase | None = None
        if settings.name == "clangd" and not has_database_argument(settings.command):
            is_confined = (self._tools.sandbox or Unconfined()).confines
            database = CompilationDatabase(folder, run_script if is_confined else None)

        @asynccontextmanager
        async def open_server(feed: Any, on_end: Any) -> AsyncIterator[asyncio.StreamWriter]:
            database_folder = await database.prepare() if database is not None else None
            log.begin()

            def find_with_database() -> ServerCommand:
                server_command = find_command()
                if database_folder is None:
                    return server_command
                argv = with_database(server_command.argv, database_folder)
                return replace(server_command, argv=argv)

            server = ConfinedServer(title, find_with_database, self._tools, log, self._meters)
            async with server.open(feed, on_end) as writer:
                yield writer

        language_server = LanguageServer(
            settings,
            folder,
            open_server,
            partial(ServerLog.last_words, log),
            self.settings.idle_s,
            WatchedFiles(self._follow, settings) if self._follow is not None else None,
        )
        language_server.database = database
        return language_server

    def _root(self) -> Path:
        if self.settings.folder is not None:
            return self.settings.folder
        return self._own_folder.path()


# Projects are read-only to servers; build output and caches go to their private /tmp.
_VARIABLES = {
    "CARGO_TARGET_DIR": "/tmp/target",  # noqa: S108 - the server's own /tmp
    "GOCACHE": "/tmp/go-build",  # noqa: S108
    # The sandbox has no network to download modules or toolchains.
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "XDG_CACHE_HOME": "/tmp/cache",  # noqa: S108
}


async def _read_output(program: ConfinedServer, text: bytes) -> bytes:
    """Return the output of a program with this input. Raises `ToolError` if it is too large."""
    output = bytearray()
    ended = asyncio.Event()
    is_flood = False

    def feed(data: bytes) -> None:
        nonlocal is_flood
        output.extend(data)
        if len(output) > MAX_BYTES:
            is_flood = True
            raise TooMuchOutput

    async def on_end() -> None:
        ended.set()

    async with program.open(feed, on_end) as writer:
        writer.write(text)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()
        await ended.wait()
    if is_flood:
        raise ToolError("The build system writes more than Kore accepts.")
    return bytes(output)


def _with_tsserver(options: Mapping[str, Any], script: Path) -> dict[str, Any]:
    """Add the path of `tsserver.js`, without which the server runs the project's own copy.

    The syntax server is disabled: it knows only single files, and would return empty answers while
    the project loads.
    """
    own = options.get("tsserver")
    tsserver = {"path": str(script), "useSyntaxServer": "never"}
    return {**options, "tsserver": {**tsserver, **(own if isinstance(own, dict) else {})}}


def _project_folder(server: LspServerSettings, path: Path, workspace: Path) -> Path:
    """Return the outermost parent folder of a file that looks like the root of a project.

    May block. With few servers, the parts of a project see each other.
    """
    if not path.is_relative_to(workspace):
        return workspace
    between = [parent for parent in path.parents if parent.is_relative_to(workspace)]
    tops = (
        folder
        for folder in reversed(between)
        if any((folder / name).is_file() for name in server.root_files)
    )
    return next(tops, workspace)
