"""What is configured of an MCP server."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from agent.records import frozen

if TYPE_CHECKING:
    from agent.elicitation import Elicit
    from agent.mcp.login_file import Sealer

# A longer message is not taken: what a server floods with must not fill the memory.
MOST_MESSAGE_BYTES = 16_000_000
# Public hosts, whichever; never addresses of this machine or of a private network.
ANY_HOST = ("*",)


@frozen
class ArgumentReach:
    """What the arguments of a stranger's server can open: `program`, the folder of that program, to
    read, and `places`, the files and folders that a person named for it."""

    program: Path
    places: tuple[Path, ...] = ()

    def has_place(self, path: Path) -> bool:
        """Touches the disk."""
        return path.resolve() in {each.resolve() for each in self.places}

    def shows(self, path: Path) -> bool:
        """Whether it may be read. Touches the disk."""
        return path.resolve().is_relative_to(self.program.resolve()) or self.has_place(path)


@frozen
class McpServerSettings:
    """A server to start (`command`) or to reach (`url`).

    A started one runs in the sandbox of commands: it sees the programs of this machine, a home
    folder of its own, and `folder`, which it may change unless `read_only`; it reaches the hosts
    of `network`. Without `folder` that is the first folder that its arguments name, if any.
    Where a stranger has written the arguments, `reach` says what they can open.
    `is_sse` says that a `url` speaks the old transport of that name.
    `tools` and `without_tools` choose by patterns which of its tools there are; those of `allow`
    run without a question. `is_private` says whether its results count as private, None: if it has
    a folder, variables or headers of its own. `timeout_s` bounds one call, `start_timeout_s` the
    way to its list of tools. `protocol` is the version of the protocol to speak, such as
    "2025-11-25"; None finds it out. One that is not the owner's `own` came with a plugin or an
    editor: what it says of its tools is a stranger's word. One that is not `configured` belongs to
    one session, and no command knows it.
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
    read_only: bool = False
    network: tuple[str, ...] = ANY_HOST
    tools: tuple[str, ...] = ("*",)
    without_tools: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    is_private: bool | None = None
    timeout_s: float = 120.0
    start_timeout_s: float = 30.0
    protocol: str | None = None
    is_own: bool = True
    is_configured: bool = True

    def offers(self, tool: str) -> bool:
        """Whether a tool, by the server's name for it, is there for models."""
        return _fits(tool, self.tools) and not _fits(tool, self.without_tools)

    def allows(self, tool: str) -> bool:
        """Whether a tool may run without a question."""
        return _fits(tool, self.allow)

    @property
    def work_folder(self) -> Path | None:
        """The folder that a started server works in; None without one. Touches the disk."""
        if self.folder is not None:
            return self.folder.expanduser()
        path = self.argument_folder
        return None if path is None else path.resolve()

    @property
    def argument_folder(self) -> Path | None:
        """The first folder that the arguments name by a path, as they name it. Touches the
        disk."""
        for word in self.args:
            if word.startswith(("/", "./", "../", "~")) or word == ".":
                path = Path(word).expanduser()
                if self.reach is not None and not self.reach.has_place(path):
                    continue
                if path.is_dir() and path.resolve() != Path("/"):
                    return path
        return None

    @property
    def has_private_results(self) -> bool:
        if self.is_private is not None:
            return self.is_private
        return bool(self.env or self.headers or self.work_folder)

    def may_change_files(self, *, is_sandboxed: bool) -> bool:
        """Return whether calls may change files other than the server's own. Touches the disk."""
        if self.url is not None:
            return not self.read_only
        return not is_sandboxed or (not self.read_only and self.work_folder is not None)

    @property
    def digest(self) -> str:
        """A hash of what the server is: another one means another server."""
        identity = [
            self.command,
            list(self.args),
            dict(sorted(self.env.items())),
            self.url,
            dict(sorted(self.headers.items())),
        ]
        return hashlib.sha256(json.dumps(identity).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def program_digest(self) -> str:
        """A hash of the program or address alone: variables and headers may be other ones at each
        start."""
        identity = json.dumps([self.command, list(self.args), self.url])
        return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def host(self) -> str:
        """The machine that a call's arguments may get to; empty when they cannot leave."""
        if self.url is not None:
            from urllib.parse import urlsplit

            return urlsplit(self.url).hostname or self.url
        return "anywhere" if self.network else ""


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@frozen
class McpSettings:
    """All servers, and the folder that holds what is known of them, their homes, logs and logins;
    without one that lasts as long as the agent does. `sealer` seals the logins; `elicit` asks a
    person what servers want to know."""

    servers: tuple[McpServerSettings, ...] = ()
    folder: Path | None = None
    sealer: "Sealer | None" = field(default=None, repr=False)
    elicit: "Elicit | None" = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.servers)
