"""All language servers of an agent: one for each language and folder, shared by conversations."""

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.code.lsp.known_servers import KNOWN_SERVERS, LANGUAGE_IDS
from agent.code.lsp.programs import (
    find_server_program,
    module_cache,
    rust_toolchain,
    shown_folders,
    typescript_beside,
)
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.watched_files import FollowFolder, WatchedFiles
from agent.code.status import ServerStatus
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity
from agent.security.files.process_folder import ProcessFolder
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import LspServerSettings, LspSettings, ToolSettings
from agent.tools.shell.confined_server import ConfinedServer, ServerCommand
from agent.tools.shell.resource_limits import ResourceLimits
from agent.tools.shell.server_log import ServerLog

# More than these at a time would fill the memory of a small machine: the one that was not used for
# longest is ended first.
MOST_SERVERS = 8
_LOOK_S = 30.0
# Programs come and go seldom: where one lies is looked up again after this.
_CHOICE_S = 60.0


def all_servers(settings: LspSettings) -> list[LspServerSettings]:
    """Those that are configured, then those that Kore knows, without what is switched off."""
    configured = {one.name for one in settings.servers}
    built_in = (one for one in KNOWN_SERVERS if one.name not in configured)
    servers = (*settings.servers, *built_in)
    return [one for one in servers if one.name not in settings.without]


@frozen
class FoundServer:
    """A server that is there for a kind of files, with the path of its program."""

    settings: LspServerSettings
    program: str


class LanguageServers:
    """What is there for which file, and who answers. Belongs to one event loop at a time."""

    def __init__(
        self,
        settings: LspSettings,
        tools: ToolSettings,
        trusted: Sequence[Path] = (),
        follow: FollowFolder | None = None,
    ) -> None:
        """Without a sandbox, servers that nobody configured run only in `trusted` folders. With
        `follow` those that run learn what changes on the disk."""
        self.settings = settings
        self._tools = tools
        self._trusted = tuple(trusted)
        self._follow = follow
        self._servers: dict[tuple[str, Path], LanguageServer] = {}
        self._choices: dict[tuple[str, Path], tuple[float, FoundServer | None]] = {}
        self._meters = ResourceLimits()
        self._own_folder = ProcessFolder("kore-lsp-")
        self._reaper: asyncio.Task[None] | None = None

    def candidates(self, path: Path) -> list[LspServerSettings]:
        """The servers for a file, the preferred one first, whether they are there or not."""
        if not self.settings.enabled:
            return []
        suffix = path.suffix.lower()
        return [one for one in all_servers(self.settings) if suffix in one.extensions]

    def language(self, server: LspServerSettings, path: Path) -> str:
        """What the server calls the language of a file."""
        suffix = path.suffix.lower()
        return server.languages.get(suffix) or LANGUAGE_IDS.get(suffix) or suffix.lstrip(".")

    async def find(self, path: Path, workspace: Path) -> LanguageServer | None:
        """The server for a file of a workspace, started or not; None when there is none."""
        candidates = self.candidates(path)
        if not candidates:
            return None
        choices = await asyncio.to_thread(self._choose, candidates, path, workspace)
        if not choices:
            return None
        # One that does not start leaves the files to the next.
        key = next((one for one in choices if not self._has_failed(one)), next(iter(choices)))
        server = self._servers.get(key)
        if server is None:
            await self._make_room()
            server = self._servers[key] = self._make(choices[key], key[1])
        self._servers[key] = self._servers.pop(key)
        if self._reaper is None or self._reaper.done():
            self._reaper = asyncio.create_task(self._reap(), name="idle language servers")
        return server

    def explain_absence(self, path: Path) -> str:
        """Why no server answers for a file, for the model."""
        if not self.settings.enabled:
            return "Language servers are switched off here."
        names = [one.name for one in self.candidates(path)]
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
        """Those that run now."""
        return [one for one in self._servers.values() if one.running is not None]

    def status(self) -> list[ServerStatus]:
        """How each is that was ever asked for, in the order of their names."""
        states = [one.status for one in self._servers.values()]
        return sorted(states, key=lambda one: (one.name, one.folder))

    def retire(self) -> None:
        """End all of them without waiting for that."""
        for server in self._servers.values():
            server.retire()

    async def aclose(self) -> None:
        """End all of them."""
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        servers, self._servers = self._servers, {}
        await asyncio.gather(*(server.aclose() for server in servers.values()))

    async def _make_room(self) -> None:
        while len(self._servers) >= MOST_SERVERS:
            await self._servers.pop(next(iter(self._servers))).aclose()

    async def _reap(self) -> None:
        """End those that nobody asks, until none runs."""
        interval_s = min(_LOOK_S, self.settings.idle_s)
        are_running = True
        while are_running:
            await asyncio.sleep(interval_s)
            running = [server for server in self._servers.values() if server.end_if_idle()]
            are_running = bool(running)

    def _choose(
        self, candidates: Sequence[LspServerSettings], path: Path, workspace: Path
    ) -> dict[tuple[str, Path], FoundServer]:
        """The servers that are there and may run, the preferred one first, each with the folder
        that it would work in."""
        choices = {}
        for server in candidates:
            found_server = self._find_program(server, workspace)
            if found_server is not None and self._may_run(workspace, [server.name]):
                folder = _project_folder(server, path, workspace)
                choices[(server.name, folder)] = found_server
        if choices:
            self._root()  # here, as it may block
        return choices

    def _find_program(self, server: LspServerSettings, workspace: Path) -> FoundServer | None:
        from time import monotonic

        key = (server.name, workspace)
        looked_at, choice = self._choices.get(key, (float("-inf"), None))
        if monotonic() - looked_at >= _CHOICE_S:
            program = find_server_program(server, (workspace,))
            choice = FoundServer(server, program) if program is not None else None
            self._choices[key] = (monotonic(), choice)
        return choice

    def _has_failed(self, key: tuple[str, Path]) -> bool:
        server = self._servers.get(key)
        return server is not None and server.state == "failed"

    def _may_run(self, folder: Path, names: Sequence[str]) -> bool:
        """A server reads a project's configuration, and some run what stands there: without a
        sandbox a person has to have decided that."""
        sandbox = self._tools.sandbox or Unconfined()
        if sandbox.confines or self._tools.full_access:
            return True
        configured = {one.name for one in self.settings.servers if one.configured}
        if configured.intersection(names):
            return True
        return any(folder.is_relative_to(each) for each in self._trusted)

    def _make(self, choice: FoundServer, folder: Path) -> LanguageServer:
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        home = self._root() / f"{choice.settings.name.replace('/', '-')}-{digest}"
        log = ServerLog(lambda: home)
        settings = choice.settings
        program = Path(choice.program)
        if settings.name == "typescript" and (script := typescript_beside(choice.program)):
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

        def open_server(feed: Any, on_end: Any) -> Any:
            log.begin()
            server = ConfinedServer(title, find_command, self._tools, log, self._meters)
            return server.open(feed, on_end)

        return LanguageServer(
            settings,
            folder,
            open_server,
            partial(ServerLog.last_words, log),
            self.settings.idle_s,
            WatchedFiles(self._follow, settings) if self._follow is not None else None,
        )

    def _root(self) -> Path:
        if self.settings.folder is not None:
            return self.settings.folder
        return self._own_folder.path()


# The project is read-only to them: what they build and keep goes into their own /tmp.
_VARIABLES = {
    "CARGO_TARGET_DIR": "/tmp/target",  # noqa: S108 - the server's own /tmp
    "GOCACHE": "/tmp/go-build",  # noqa: S108
    # There is no network to bring modules or another Go.
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "XDG_CACHE_HOME": "/tmp/cache",  # noqa: S108
}


def _with_tsserver(options: Mapping[str, Any], script: Path) -> dict[str, Any]:
    """Without a path it takes the program of the project; and while it loads a project, its second
    server, which knows single files only, would answer that nothing was found."""
    own = options.get("tsserver")
    tsserver = {"path": str(script), "useSyntaxServer": "never"}
    return {**options, "tsserver": {**tsserver, **(own if isinstance(own, dict) else {})}}


def _project_folder(server: LspServerSettings, path: Path, workspace: Path) -> Path:
    """The outermost folder of the workspace around a file that looks like the top of a project:
    few servers, and parts of a project see each other. May block."""
    if not path.is_relative_to(workspace):
        return workspace
    between = [parent for parent in path.parents if parent.is_relative_to(workspace)]
    tops = (
        folder
        for folder in reversed(between)
        if any((folder / name).is_file() for name in server.root_files)
    )
    return next(tops, workspace)
