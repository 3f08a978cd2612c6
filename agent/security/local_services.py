"""Services of this machine that commands in a sandbox may reach: loopback ports, Unix sockets."""

import errno
import os
import re
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from ipaddress import ip_address
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import open_folder_beneath

_LOOPBACK = ("127.0.0.1", "::1")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+):([0-9]{1,5})", re.ASCII)
# Lower ports cannot be opened in the network of a command, which has no capabilities.
_FIRST_PORT, _LAST_PORT = 1024, 65_535
_UNIX = "unix:"
# The kernel's limit for the path of a socket.
_MAX_PATH_BYTES = 107
# Docker's own ports, without and with TLS, and words in the paths of sockets that grant root
# access.
_ENGINE_PORTS = (2375, 2376)
_ENGINE_PATH = re.compile(
    "docker|podman|containerd|buildkit|crio|lxd|incus|libvirt|kubelet|systemd|dbus|snapd",
    re.IGNORECASE,
)
# State and local addresses in /proc/net/tcp and tcp6.
_LISTENING = "0A"
_HOST_BY_ADDRESS = {
    "0100007F": "127.0.0.1",
    "00000000": "127.0.0.1",
    "0" * 32: "127.0.0.1",
    "0" * 24 + "01000000": "::1",
}
_MAX_LINKS = 40
# Folders whose links belong to root, such as /var/run, and that are never workspaces.
_SYSTEM_FOLDERS = (Path("/"), Path("/var"))
_PORT = re.compile(r"(?<![\d.])\d{4,5}(?![\d.]*\d)", re.ASCII)
_PATH = re.compile(r"/[\w./+@-]*[\w+@-]", re.ASCII)
_MAX_NAMED = 3
_MAX_PATHS = 200


class ReplacedSocketError(ConnectionRefusedError):
    """Error for a socket that has replaced the allowed one."""


@frozen
class LocalService:
    """Service at a port of a loopback address, or at the Unix socket `path`.

    Its text is `127.0.0.1:5432`, `[::1]:5432` or `unix:/run/docker.sock`. `identity` is the device
    and inode of the only socket that may be at the path, if this matters.
    """

    host: str = ""
    port: int = 0
    path: Path | None = None
    identity: tuple[int, int] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> "LocalService":
        """Parse `127.0.0.1:PORT`, `[::1]:PORT`, `localhost:PORT`, which means 127.0.0.1, or
        `unix:/PATH`.

        Raises `ValueError` with a sentence for anything else.
        """
        if text.startswith(_UNIX):
            return cls(path=_socket_path(text.removeprefix(_UNIX)))
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:60]!r} is not 127.0.0.1:PORT, [::1]:PORT or unix:/PATH.")
        host, port = match[1].strip("[]").lower(), int(match[2])
        if host == "localhost":
            host = _LOOPBACK[0]
        with suppress(ValueError):
            host = str(ip_address(host))
        if host not in _LOOPBACK:
            raise ValueError(f"{text[:60]} is not at 127.0.0.1 or ::1; hosts have no port.")
        if not _FIRST_PORT <= port <= _LAST_PORT:
            raise ValueError(f"{text[:60]}: the port must be {_FIRST_PORT} to {_LAST_PORT}.")
        return cls(host, port)

    def resolved(self) -> "LocalService":
        """Return the service with the real path of its socket. May block.

        Raises `ValueError` for a path through a link that root does not own: a command may have
        made it.
        """
        if self.path is None:
            return self
        return LocalService(path=_socket_path(str(_real_path(self.path, _is_of_root))))

    def pinned(self, writable: Iterable[Path]) -> "LocalService":
        """Return the service with the real path and the identity of its socket. May block.

        Call it once, before the service is judged and shown: a link or a socket may be replaced
        afterwards. Commands can change the real folders `writable`; a link there, or no socket
        there, raises `ValueError`.
        """
        if self.path is None:
            return self
        folders = tuple(writable)
        path = _socket_path(
            str(_real_path(self.path, lambda link: not any(map(link.is_relative_to, folders))))
        )
        service = LocalService(path=path)
        try:
            with service.open_socket() as descriptor:
                status = os.fstat(descriptor)
        except OSError as exc:
            if any(map(path.is_relative_to, folders)):
                raise ValueError(
                    f"{service} is not a socket, and commands can write to its folder."
                ) from exc
            return service  # it may be started later
        return LocalService(path=path, identity=(status.st_dev, status.st_ino))

    @contextmanager
    def open_socket(self) -> Iterator[int]:
        """Yield an O_PATH descriptor of its socket. Raises OSError.

        No link is followed, so that a replacement of the socket is not opened.
        """
        assert self.path is not None, "it has a socket"
        with open_folder_beneath(self.path.parent) as folder:
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.path.name, flags, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISSOCK(status.st_mode):
                raise ConnectionRefusedError(errno.ECONNREFUSED, "not a socket")
            if self.identity not in (None, (status.st_dev, status.st_ino)):
                raise ReplacedSocketError(errno.ECONNREFUSED, "another socket")
            yield descriptor
        finally:
            os.close(descriptor)

    def __str__(self) -> str:
        if self.path is not None:
            return f"{_UNIX}{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_engine(self) -> bool:
        """True if it is known to control containers or the system, which makes its users root."""
        if self.path is not None:
            return _ENGINE_PATH.search(str(self.path)) is not None
        return self.port in _ENGINE_PORTS


def names_service(text: str) -> bool:
    """Return whether a text refers to a local service rather than to a host."""
    return text.startswith(_UNIX) or _ADDRESS.fullmatch(text) is not None


def _socket_path(text: str) -> Path:
    """Check the path of a socket. Raises `ValueError`."""
    if not text.startswith("/") or os.path.normpath(text) != text or not text.isprintable():
        raise ValueError(f"{text[:60]!r} is not the full path of a Unix socket.")
    if len(os.fsencode(text)) > _MAX_PATH_BYTES or any(mark in text for mark in " ,"):
        raise ValueError(f"{text[:60]!r} is too long for a Unix socket, or contains a space.")
    return Path(text)


def _is_of_root(link: Path) -> bool:
    """Return whether a link belongs to root and cannot have been made by a command."""
    if os.geteuid() == 0:
        # The files of commands then belong to root, too, except in folders of the system.
        return link.parent in _SYSTEM_FOLDERS
    with suppress(OSError):
        return os.lstat(link).st_uid == 0
    return False


def _real_path(path: Path, may_follow: Callable[[Path], bool]) -> Path:
    """Follow the links of a path. Raises `ValueError` for a link that may not be followed."""
    real, links = Path("/"), 0
    pending = [*reversed(path.parts[1:])]
    while pending:
        name = pending.pop()
        if name == "..":
            real = real.parent
            continue
        try:
            target = os.readlink(real / name)
        except OSError:
            real /= name
            continue
        links += 1
        if links > _MAX_LINKS:
            raise ValueError(f"{_UNIX}{path} leads through too many links.")
        if not may_follow(real / name):
            raise ValueError(
                f"{_UNIX}{path} leads through the symbolic link {real / name}, which commands may"
                " change; name the path of the socket itself."
            )
        real = Path("/") if target.startswith("/") else real
        pending += [part for part in reversed(target.split("/")) if part not in ("", ".")]
    return real


def split_services(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[LocalService, ...]]:
    """Return the names of hosts, and the local services among the names."""
    hosts, services = [], []
    for name in names:
        try:
            services.append(LocalService.parse(name))
        except ValueError:
            hosts.append(name)
    return tuple(hosts), tuple(services)


def mentioned_services(text: str) -> tuple[LocalService, ...]:
    """Return a few services of this machine whose port or socket a text names. May block."""
    return (*_mentioned_ports(text), *_mentioned_sockets(text))


def _mentioned_sockets(text: str) -> tuple[LocalService, ...]:
    services: dict[LocalService, None] = {}
    for path in dict.fromkeys(_PATH.findall(text)[:_MAX_PATHS]):
        with suppress(ValueError, OSError):
            service = LocalService.parse(f"{_UNIX}{os.path.realpath(path)}")
            with service.open_socket():
                services[service] = None
    return tuple(services)[:_MAX_NAMED]


def _mentioned_ports(text: str) -> tuple[LocalService, ...]:
    ports = {int(port) for port in _PORT.findall(text)}
    own = _own_ports()
    services = {
        LocalService(host, port): None
        for host, port, _ in _listening_sockets()
        if host and port in ports - own and port >= _FIRST_PORT
    }
    return tuple(services)[:_MAX_NAMED]


@frozen
class OwnServices:
    """Services of Kore itself, which no command may reach.

    `ports` and `paths` are its ports and sockets, or folders with sockets; the sockets on which
    this process listens are added. `find_ports` returns the ports of Kore's other processes.
    """

    ports: tuple[int, ...] = ()
    paths: tuple[Path, ...] = ()
    find_ports: Callable[[], Iterable[int]] = tuple

    def objection(self, service: LocalService) -> str | None:
        """Return the reason why commands may not reach this service, or None if they may.

        May block.
        """
        if service.path is None:
            is_own = service.port in self._all_ports()
        else:
            real, paths = service.path.resolve(), (*self.paths, *_own_paths())
            is_own = any(real.is_relative_to(path.resolve()) for path in paths)
        return _objection(str(service)) if is_own else None

    def objection_at(self, where: str, address: str, port: int) -> str | None:
        """Like `objection`, for a port of any address, which people know as `where`.

        May block.
        """
        is_own = is_of_this_machine(address) and port in self._all_ports()
        return _objection(where) if is_own else None

    def _all_ports(self) -> set[int]:
        return {*self.ports, *self.find_ports(), *_own_ports()}


def _objection(where: str) -> str:
    return f"{where} belongs to Kore itself, which no command can reach."


def is_of_this_machine(text: str) -> bool:
    """Return whether an address leads to this machine, in doubt True."""
    address = ip_address(text)
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Nothing is sent. Only to itself a machine sends from the address of the destination.
            probe.connect((str(address), _LAST_PORT))
            source: str = probe.getsockname()[0]
    except OSError:
        return True
    return source == str(address)


def _own_ports() -> frozenset[int]:
    """Return the ports on which this process listens."""
    own = set(_own_sockets())
    return frozenset(port for _, port, inode in _listening_sockets() if inode in own)


def _own_paths() -> Iterator[Path]:
    """Yield the paths of the Unix sockets of this process."""
    own = set(_own_sockets())
    with suppress(OSError), open("/proc/self/net/unix") as file:
        for line in list(file)[1:]:
            words = line.rstrip("\n").split(maxsplit=7)
            if len(words) == 8 and words[6] in own and words[7].startswith("/"):
                yield Path(words[7])


def _own_sockets() -> Iterator[str]:
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith("socket:["):
                yield target.removeprefix("socket:[").removesuffix("]")


def listener_owners(port: int) -> set[int] | None:
    """Return the user ids of the TCP sockets that listen on a port, at any address.

    None if the system does not list its sockets in /proc.
    """
    if not os.access("/proc/self/net/tcp", os.R_OK):
        return None
    return {int(row[7]) for row in _listening_rows() if int(row[1].rpartition(":")[2], 16) == port}


def _listening_sockets() -> Iterator[tuple[str, int, str]]:
    """Yield host, port and inode of each TCP socket that listens; '' for a host that is not
    loopback."""
    for row in _listening_rows():
        address, _, port = row[1].rpartition(":")
        yield _HOST_BY_ADDRESS.get(address, ""), int(port, 16), row[9]


def _listening_rows() -> Iterator[list[str]]:
    """Yield the columns of each TCP socket that listens, as in /proc/net/tcp."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/self/net/{table}") as file:
            for line in list(file)[1:]:
                columns = line.split()
                if columns[3] == _LISTENING:
                    yield columns
