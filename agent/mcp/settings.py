"""Settings of MCP servers, and the names of their tools for models: `mcp__SERVER__TOOL`."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.approvals import FolderAccess
from agent.records import frozen
from agent.security.policy.base import SERVER_TOOLS

if TYPE_CHECKING:
    from agent.mcp.login_file import Sealer
    from agent.tools.elicitation import Elicit


# Longer messages are rejected, so that a server cannot fill the memory.
MAX_MESSAGE_BYTES = 16_000_000
# All public hosts; never addresses of this machine or of a private network.
ANY_HOST = ("*",)


@frozen
class ArgumentReach:
    """The paths that the arguments of a third-party server may open.

    `program` is the folder of its program, which it may read; `places` are the files and folders
    that a person named for it.
    """

    program: Path
    places: tuple[Path, ...] = ()

    def has_place(self, path: Path) -> bool:
        """Return whether a person named this path. Touches the disk."""
        return path.resolve() in {place.resolve() for place in self.places}

    def shows(self, path: Path) -> bool:
        """Return whether the path may be read. Touches the disk."""
        return path.resolve().is_relative_to(self.program.resolve()) or self.has_place(path)


@frozen
class McpServerSettings:
    """A server to start (`command`) or to connect to (`url`).

    A started server runs in the command sandbox: it sees the programs of this machine, a home
    folder of its own, and `folder`, which it may change unless `read_only`. It reaches the entries
    of `network`: public hosts ("example.org"), and with a port also this machine and private
    networks ("127.0.0.1:8123", "nas.local:*", "10.0.0.0/8:5432", "unix:/run/x.sock"). Without
    `folder` the first folder among its arguments is used, if any. It can also read `added_folders`,
    and change those that are writable. The server of a project has `project`, the folder in which
    it runs by default and to which its relative paths refer. If a third party has written the
    arguments, `reach` limits the paths that they can open.

    `is_sse` selects the old SSE transport for a `url`. `tools` and `without_tools` are patterns
    that select tools; tools that match `allow` run without approval. `is_private` marks results as
    private; None means that they are private if the server has a folder, variables or headers.
    `is_trusted_with_private_data`: private data is no reason to ask about calls of allowed tools.
    `timeout_s` limits a call, `start_timeout_s` everything up to the list of tools. `protocol` is a
    fixed protocol version such as "2025-11-25"; None detects it.

    If `is_own` is false, the server came with a plugin or an editor, and its tool descriptions are
    untrusted. If `is_configured` is false, it belongs to one session and is unknown to commands.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_sse: bool = False
    folder: Path | None = None
    reach: ArgumentReach | None = None
    added_folders: tuple[FolderAccess, ...] = ()
    project: Path | None = None
    read_only: bool = False
    network: tuple[str, ...] = ANY_HOST
    tools: tuple[str, ...] = ("*",)
    without_tools: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    is_private: bool | None = None
    is_trusted_with_private_data: bool = False
    timeout_s: float = 120.0
    start_timeout_s: float = 120.0
    protocol: str | None = None
    is_own: bool = True
    is_configured: bool = True

    def offers(self, tool: str) -> bool:
        """Return whether a tool, by the server's name for it, is available to models."""
        return _matches_any(tool, self.tools) and not _matches_any(tool, self.without_tools)

    def allows(self, tool: str) -> bool:
        """Return whether a tool may run without approval."""
        return _matches_any(tool, self.allow)

    @property
    def work_folder(self) -> Path | None:
        """Working folder of a started server, or None. Touches the disk."""
        folder = self.folder or self.project
        if folder is not None:
            return folder.expanduser()
        path = self.argument_folder
        return None if path is None else path.resolve()

    @property
    def open_folders(self) -> tuple[FolderAccess, ...]:
        """Real paths of the other folders that a started server may open. Touches the disk.

        A project's server also gets the first folder among its arguments.
        """
        work_folder, added = self.work_folder, [*self.added_folders]
        path = None if self.project is None or self.folder is not None else self.argument_folder
        if path is not None:
            added.append(FolderAccess(path, is_writable=True))
        accesses = [
            FolderAccess(
                access.path.expanduser().resolve(), access.is_writable and not self.read_only
            )
            for access in added
        ]
        return tuple(
            access
            for access in dict.fromkeys(accesses)
            if work_folder is None or not access.path.is_relative_to(work_folder.resolve())
        )

    @property
    def argument_folder(self) -> Path | None:
        """First folder that the arguments name by a path, as written. Touches the disk."""
        for word in self.args:
            if word.startswith(("/", "./", "../", "~")) or word == ".":
                path = (self.project or Path()) / Path(word).expanduser()
                if self.reach is not None and not self.reach.has_place(path):
                    continue
                if path.is_dir() and path.resolve() != Path("/"):
                    return path
        return None

    @property
    def has_private_results(self) -> bool:
        if self.is_private is not None:
            return self.is_private
        return bool(self.env or self.headers or self.work_folder or self.added_folders)

    def may_change_files(self, *, is_sandboxed: bool) -> bool:
        """Return whether calls may change files other than the server's own. Touches the disk."""
        if self.url is not None:
            return not self.read_only
        if not is_sandboxed:
            return True
        is_changing = any(access.is_writable for access in self.open_folders)
        return is_changing or (not self.read_only and self.work_folder is not None)

    @property
    def digest(self) -> str:
        """Hash of everything that identifies the server."""
        identity = [
            self.command,
            list(self.args),
            dict(sorted(self.env.items())),
            self.url,
            dict(sorted(self.headers.items())),
            *self._project_identity,
        ]
        return hashlib.sha256(json.dumps(identity).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def program_digest(self) -> str:
        """Hash of only the program or URL: variables and headers may differ at each start."""
        identity = json.dumps([self.command, list(self.args), self.url, *self._project_identity])
        return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def _project_identity(self) -> tuple[str, ...]:
        # The same relative path is another program in another project.
        return () if self.project is None else (str(self.project),)

    @property
    def host(self) -> str:
        """Host that receives a call's arguments; empty if they cannot leave the machine."""
        if self.url is not None:
            return urlsplit(self.url).hostname or self.url
        return "anywhere" if self.network else ""


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@frozen
class McpSettings:
    """All servers, and the folder for their listings, homes, logs and logins.

    Without a folder, these last as long as the agent. `sealer` encrypts the logins; `elicit` asks a
    person the servers' questions.
    """

    servers: tuple[McpServerSettings, ...] = ()
    folder: Path | None = None
    sealer: "Sealer | None" = field(default=None, repr=False)
    elicit: "Elicit | None" = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.servers)


# Limit of the model APIs for tool names, which also exclude dots.
_MAX_CHARS = 64
_DIGEST_CHARS = 8


def is_mcp_tool(name: str) -> bool:
    """Return whether a tool of this name belongs to a server."""
    return name.startswith(SERVER_TOOLS)


def tool_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a unique name for each pair of server and tool.

    A name that is too long or already taken ends with a digest that is stable across runs. A pair
    that occurs twice has one name.
    """
    names: dict[tuple[str, str], str] = {}
    used_names: set[str] = set()
    for server, tool in dict.fromkeys(tools):
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{SERVER_TOOLS}{server}__{tool}")
        if len(name) > _MAX_CHARS or name in used_names:
            digest = sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()
            short = name[: _MAX_CHARS - _DIGEST_CHARS - 1]
            name = f"{short}_{digest[:_DIGEST_CHARS]}"
        names[server, tool] = name
        used_names.add(name)
    return names
