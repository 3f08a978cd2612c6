"""Layout of Kore's folder, `~/.kore` or `KORE_HOME`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen


@frozen
class DataDir:
    """Paths of the data folder; nothing is created before `ensure`."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def draft(self) -> Path:
        """Invalid configuration saved by `kore config edit`."""
        return self.root / "config.edit.json"

    @property
    def last_good_config(self) -> Path:
        """Last configuration with which a gateway ran."""
        return self.root / "config.good.json"

    @property
    def trust_file(self) -> Path:
        """Digests of trusted project files."""
        return self.root / "trust.json"

    @property
    def asked_projects(self) -> Path:
        """Folders that a person declined to trust; Kore does not ask about them again."""
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
        """Digests of the tokens that may use the server."""
        return self.root / "tokens.json"

    @property
    def server_access(self) -> Path:
        """Address and token with which this user's programs reach the local server."""
        return self.root / "server.json"

    @property
    def server_socket(self) -> Path:
        return self.root / "server.sock"

    @property
    def login_page(self) -> Path:
        """Page that redirects a browser to its login link."""
        return self.root / "login.html"

    @property
    def lock(self) -> Path:
        return self.root / "kore.lock"

    @property
    def running_marker(self) -> Path:
        """Marker file of the running process, whose commands end when it ends."""
        return self.root / "running"

    def worker_marker(self, pid: int) -> Path:
        """Marker of a worker on this machine."""
        return self.root / f"running-{pid}"

    def worker_markers(self) -> list[Path]:
        return sorted(self.root.glob("running-*"))

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def channels(self) -> Path:
        """Folder with a subfolder for each channel that stores its own files, such as keys."""
        return self.root / "channels"

    @property
    def audit(self) -> Path:
        return self.root / "audit"

    @property
    def audit_mark(self) -> Path:
        """End of the audit log, stored next to its folder."""
        return self.root / "audit-mark.json"

    @property
    def audit_pending(self) -> Path:
        """Changes by the command line that the owner of the data has not recorded yet."""
        return self.root / "audit-pending.jsonl"

    @property
    def agents(self) -> Path:
        """Agents that the owner wrote. They are trusted, so no tool writes here."""
        return self.root / "agents"

    @property
    def commands(self) -> Path:
        """Commands that the owner wrote; their text counts as the owner's."""
        return self.root / "commands"

    @property
    def backups(self) -> Path:
        """Copies of the database from before upgrades."""
        return self.root / "backups"

    @property
    def undo(self) -> Path:
        """Earlier contents of changed files."""
        return self.root / "undo"

    @property
    def sandbox_cache(self) -> Path:
        """Results of probing the sandboxes."""
        return self.root / "sandbox.json"

    @property
    def long_work(self) -> Path:
        """Progress of long tasks in other folders."""
        return self.root / "long"

    @property
    def temporary(self) -> Path:
        """The /tmp of each session's commands."""
        return self.root / "tmp"

    @property
    def mcp(self) -> Path:
        """Homes, logs and tool lists of MCP servers."""
        return self.root / "mcp"

    @property
    def lsp(self) -> Path:
        """Homes and logs of language servers."""
        return self.root / "lsp"

    @property
    def plugins(self) -> Path:
        """Installed plugins and their marketplaces."""
        return self.root / "plugins"

    @property
    def outgoing(self) -> Path:
        """Files waiting to be sent to a chat, used when the database is not a local file."""
        return self.root / "outgoing"

    @property
    def protected_paths(self) -> tuple[Path, ...]:
        """Paths that no tool may open; the workspace is not among them."""
        return (
            *(self.config, self.draft, self.last_good_config, self.trust_file, self.secrets),
            *(self.asked_projects, self.socket, self.lock, self.backups),
            *(self.tokens, self.server_access, self.server_socket, self.login_page),
            *(self.logs, self.audit, self.sandbox_cache, self.agents, self.commands, self.undo),
            *(self.long_work, self.temporary, self.mcp, self.lsp, self.outgoing),
        )

    def ensure(self) -> None:
        """Create the folder and its parts for the owner only (0700). Raises `ConfigError`."""
        for folder in (self.root, self.logs, self.audit):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as exc:
                raise ConfigError(
                    t("{folder}: cannot be created: {reason}", folder=folder, reason=exc.strerror),
                    hint=t("set KORE_HOME to a writable folder"),
                ) from None


def find_data_dir(environ: Mapping[str, str], home: Path | None = None) -> DataDir:
    """Return `home`, else `KORE_HOME`, else `~/.kore`, as an absolute path."""
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


# Linux and macOS limit the path of a socket to 108 and 104 bytes.
_ADDRESS_LIMIT_BYTES = 100


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Yield a name for the socket that is short enough, however deep its folder is."""
    if len(os.fsencode(path)) <= _ADDRESS_LIMIT_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
