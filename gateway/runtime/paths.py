"""Kore's folder, `~/.kore` or `KORE_HOME`, and what lies where in it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen


@frozen
class DataDir:
    """Paths only; nothing is made before `ensure`."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def draft(self) -> Path:
        """A configuration that `kore config edit` could not put in place."""
        return self.root / "config.edit.json"

    @property
    def last_good_config(self) -> Path:
        """The last configuration that a gateway ran with."""
        return self.root / "config.good.json"

    @property
    def trust_file(self) -> Path:
        """Which files of projects are trusted, by what they hold."""
        return self.root / "trust.json"

    @property
    def asked_projects(self) -> Path:
        """Folders whose trust a person declined: they are not asked again."""
        return self.root / "projects.json"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets.json"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def database(self) -> Path:
        return self.root / "kore.db"

    @property
    def socket(self) -> Path:
        return self.root / "kore.sock"

    @property
    def tokens(self) -> Path:
        """Who may speak to the server, by digests."""
        return self.root / "tokens.json"

    @property
    def server_access(self) -> Path:
        """How programs of this person reach the server that runs here."""
        return self.root / "server.json"

    @property
    def server_socket(self) -> Path:
        return self.root / "server.sock"

    @property
    def login_page(self) -> Path:
        """A page that leads a browser to its login link."""
        return self.root / "login.html"

    @property
    def lock(self) -> Path:
        return self.root / "kore.lock"

    @property
    def running_marker(self) -> Path:
        """Which process has commands that end with it; there as long as it runs."""
        return self.root / "running"

    def worker_marker(self, pid: int) -> Path:
        """The same for a worker of this machine."""
        return self.root / f"running-{pid}"

    def worker_markers(self) -> list[Path]:
        return sorted(self.root.glob("running-*"))

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def audit(self) -> Path:
        return self.root / "audit"

    @property
    def audit_mark(self) -> Path:
        """Where the audit log ended, beside its folder."""
        return self.root / "audit-mark.json"

    @property
    def audit_pending(self) -> Path:
        """What the command line has changed, until the owner of the data records it."""
        return self.root / "audit-pending.jsonl"

    @property
    def agents(self) -> Path:
        """Agents that the owner wrote: they are trusted, so no tool writes here."""
        return self.root / "agents"

    @property
    def commands(self) -> Path:
        """Commands that the owner wrote: what they say counts as the owner's word."""
        return self.root / "commands"

    @property
    def backups(self) -> Path:
        """Copies of the database, each from before an upgrade."""
        return self.root / "backups"

    @property
    def undo(self) -> Path:
        """What changed files held before."""
        return self.root / "undo"

    @property
    def sandbox_cache(self) -> Path:
        """What became of trying each sandbox."""
        return self.root / "sandbox.json"

    @property
    def long_work(self) -> Path:
        """How far long work in other folders has got."""
        return self.root / "long"

    @property
    def temporary(self) -> Path:
        """The /tmp of each conversation's commands."""
        return self.root / "tmp"

    @property
    def mcp(self) -> Path:
        """The homes, logs and lists of tools of MCP servers."""
        return self.root / "mcp"

    @property
    def lsp(self) -> Path:
        """The homes and logs of language servers."""
        return self.root / "lsp"

    @property
    def plugins(self) -> Path:
        """Installed plugins, and the markets that they may come from."""
        return self.root / "plugins"

    @property
    def outgoing(self) -> Path:
        """Files on their way to a chat, where the database is none beside which they could lie."""
        return self.root / "outgoing"

    @property
    def protected_paths(self) -> tuple[Path, ...]:
        """What no tool may open; the workspace is not among it."""
        return (
            *(self.config, self.draft, self.last_good_config, self.trust_file, self.secrets),
            *(self.asked_projects, self.socket, self.lock, self.backups),
            *(self.tokens, self.server_access, self.server_socket, self.login_page),
            *(self.logs, self.audit, self.sandbox_cache, self.agents, self.commands, self.undo),
            *(self.long_work, self.temporary, self.mcp, self.lsp, self.outgoing),
        )

    def ensure(self) -> None:
        """Make the folder and its own parts, for its owner only (0700). Raises `ConfigError`."""
        for folder in (self.root, self.logs, self.audit):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as exc:
                raise ConfigError(
                    t("{folder}: cannot be created: {reason}", folder=folder, reason=exc.strerror),
                    hint=t("set KORE_HOME to a writable folder"),
                ) from None


def find_data_dir(environ: Mapping[str, str], home: Path | None = None) -> DataDir:
    """`home`, else `KORE_HOME`, else `~/.kore`; always absolute."""
    try:
        folder = home or Path(environ.get("KORE_HOME") or "~/.kore")
        return DataDir(Path(os.path.abspath(folder.expanduser())))
    except RuntimeError:
        raise ConfigError(t("no home folder found; set KORE_HOME to the folder to use")) from None


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read (0600). Raises `FileExistsError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


# Linux and macOS keep a socket's path in 108 and 104 bytes.
_ADDRESS_LIMIT_BYTES = 100


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """A name for the socket that fits into an address, however deep its folder lies."""
    if len(os.fsencode(path)) <= _ADDRESS_LIMIT_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
