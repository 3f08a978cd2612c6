"""The part of the machine that a confined command sees: programs, toolchains, configuration and
variables without secrets."""

import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

from agent.records import frozen
from agent.security.files.safe_open import open_folder_beneath
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program

# With a merged /usr, the other folders are links into it.
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/var/lib/gems")
CONFIGURATION = (
    "/etc/alternatives",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/dotnet/install_location",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/maven/logging",
    "/etc/maven/m2.conf",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
# Java's own configuration, with the number of the version in its name.
_JAVA_CONFIGURATION = "java-*-openjdk"
# Private to each command.
TEMPORARY = "/tmp"  # noqa: S108 - a fresh file system in the sandbox
_BASH = ("/bin/bash", "/usr/bin/bash")
UNATTENDED = {
    # An editor that changes nothing: git takes its own message, or says that there is none.
    **dict.fromkeys(("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "EDITOR", "VISUAL"), "true"),
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), "cat"),
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
}
_PASSED = ("LANG", "TERM", "TZ")
# Files or folders with the certificates that programs trust, such as those of a company's proxy.
_CERTIFICATES = (
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)


def readable_programs(further: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the existing folders to read and run from."""
    return tuple(path for path in (*map(Path, PROGRAMS), *further) if path.exists())


def configuration() -> tuple[str, ...]:
    """Return the files and folders of /etc to read; some may not exist."""
    return (*CONFIGURATION, *map(str, sorted(Path("/etc").glob(_JAVA_CONFIGURATION))))


def readable_files(further: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the real files and folders that commands read, including `further` ones.

    Links are left out: they are shown as links, and a target is visible only if it is shown itself.
    """
    return real_places((*readable_programs(further), *map(Path, configuration())))


def real_places(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the real paths of existing files and folders, except links."""
    real_paths = (
        Path(os.path.realpath(path)) for path in paths if path.exists() and not path.is_symlink()
    )
    return tuple(dict.fromkeys(real_paths))


def shell() -> str:
    """Return the shell for commands: bash if the machine has it."""
    return next((path for path in _BASH if os.access(path, os.X_OK)), "/bin/sh")


def command_environment(
    environ: Mapping[str, str], home: str, visible: Iterable[Path]
) -> dict[str, str]:
    """Return all variables of a confined command, with only a few harmless inherited ones.

    PATH is limited to folders below `visible` and folders that contain a visible program, the
    variables for certificates to paths below `visible` or `configuration`.
    """
    visible = tuple(visible)
    roots = [os.path.realpath(path) for path in visible]
    # Folders in which only single programs are visible.
    parents = {str(path.parent) for path in visible if path.is_symlink() or path.is_file()}
    folders = [
        folder
        for folder in environ.get("PATH", "").split(":")
        if folder.startswith("/")
        and (folder in parents or any(_is_below(os.path.realpath(folder), r) for r in roots))
    ]
    path = ":".join(dict.fromkeys([*folders, *SYSTEM_PATH.split(":")]))
    inherited = {
        name: value for name, value in environ.items() if name in _PASSED or name.startswith("LC_")
    }
    readable = [*roots, *map(os.path.realpath, configuration())]
    inherited |= {
        name: value
        for name in _CERTIFICATES
        if (value := environ.get(name, "")).startswith("/")
        and any(_is_below(os.path.realpath(value), root) for root in readable)
    }
    own = {"PATH": path, "HOME": home, "TMPDIR": TEMPORARY, "LANG": "C.UTF-8"}
    # git fails on a configuration file that it may not read.
    return {**own, "GIT_CONFIG_NOSYSTEM": "1", **inherited}


def variables_of_command(job: SandboxCommand) -> dict[str, str]:
    """Return additional variables.

    In a read-only workspace, git must not refresh its index. Without a person at a terminal, no
    program may wait for an editor, a pager or a password.
    """
    variables = {"GIT_OPTIONAL_LOCKS": "0"} if job.read_only else {}
    if job.terminal is None:
        variables |= UNATTENDED
    return variables


def proxy_variables(port: int) -> dict[str, str]:
    """Return the variables that direct programs to a proxy at this port of 127.0.0.1 for all
    hosts."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    spelled = [*names, *map(str.upper, names)]
    return dict.fromkeys(spelled, f"http://127.0.0.1:{port}") | {"no_proxy": "", "NO_PROXY": ""}


def python(visible: Iterable[Path]) -> str | None:
    """Return a Python that a confined command can run: Kore's own or the machine's, or None."""
    roots = [os.path.realpath(path) for path in visible]
    for program in (sys.executable, find_trusted_program("python3", path=SYSTEM_PATH)):
        if program and any(_is_below(os.path.realpath(program), root) for root in roots):
            return os.path.realpath(program)
    return None


def limit_commands(limits: Mapping[str, int]) -> str:
    """Return shell commands that set hard and soft limits with the `ulimit` of any sh.

    The process limit is -u in bash and -p in dash and busybox, where -p has another meaning in
    bash. File sizes are in blocks of 512 bytes, memory in kilobytes.
    """
    commands = [f"ulimit -{option} {value}" for option, value in limits.items() if option != "u"]
    count = limits.get("u")
    if count is not None:
        commands.append(f"{{ ulimit -u {count} || ulimit -p {count}; }} 2>/dev/null")
    return "; ".join(commands)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


@frozen
class Toolchains:
    """Folders and files to read and run from, and variables that point to them.

    `caches` are folders with packages, opened without following links and shown only if they belong
    to Kore's user. `cache_variables` let programs use these instead of the network, so commands
    have them only without a network.
    """

    folders: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    caches: tuple[Path, ...] = ()
    cache_variables: Mapping[str, str] = field(default_factory=dict)

    def variables_of(self, job: SandboxCommand) -> dict[str, str]:
        """Return the variables for a command."""
        offline = {} if job.reaches_hosts else self.cache_variables
        return {**self.variables, **offline}

    def without_caches(self) -> "Toolchains":
        """Return the toolchains without their caches."""
        return Toolchains(self.folders, self.variables)

    @contextmanager
    def open_caches(self, workspace: Path) -> Iterator[Mapping[Path, int]]:
        """Open the caches to show to commands in this workspace.

        Links, other users' folders, and folders that overlap with the workspace are left out,
        because a command could have created them.
        """
        with ExitStack() as stack:
            opened: dict[Path, int] = {}
            for path in self.caches:
                if _overlap(path, workspace):
                    continue
                with suppress(OSError):
                    folder = stack.enter_context(open_folder_beneath(path))
                    if os.fstat(folder).st_uid == os.geteuid():
                        opened[path] = folder
            yield opened


def find_toolchains(home: Path, closed: Path | None = None) -> Toolchains:
    """Return the toolchains of `toolchains.toml` that exist in this home folder.

    No cache contains the folder `closed` or lies in it.
    """
    real_home = home.resolve()
    real_closed = None if closed is None else closed.resolve()
    folders: list[Path] = []
    caches: list[Path] = []
    variables: dict[str, str] = {}
    cache_variables: dict[str, str] = {}
    for entry in _table().values():
        existing = [home / name for name in entry.get("folders", ()) if (home / name).exists()]
        existing_caches = [
            path
            for path in (real_home / name for name in entry.get("caches", ()))
            if path.is_dir() and not (real_closed is not None and _overlap(path, real_closed))
        ]
        folders += existing
        caches += existing_caches
        if existing:
            folder_by_name = entry.get("variables", {})
            # A program could not create a missing folder in the sandbox, only one of its own.
            variables |= {
                name: str(home / folder)
                for name, folder in folder_by_name.items()
                if (home / folder).exists()
            }
        if existing_caches:
            value_by_name = entry.get("cache_variables", {})
            cache_variables |= {
                name: _expanded(value, real_home) for name, value in value_by_name.items()
            }
    folders += _linked_programs(home / ".local/bin", (*folders, *caches))
    return Toolchains(tuple(folders), variables, tuple(caches), cache_variables)


def _expanded(value: str, home: Path) -> str:
    """Return a value with the home folder for ~ and the existing folders for a pattern."""
    entries = value.replace("~", str(home)).split(":")
    expanded = [sorted(glob(entry)) if "*" in entry else [entry] for entry in entries]
    return ":".join(entry for entries in expanded for entry in entries)


def _overlap(first: Path, second: Path) -> bool:
    return first.is_relative_to(second) or second.is_relative_to(first)


def _linked_programs(folder: Path, targets: Sequence[Path]) -> list[Path]:
    """Return the links in a folder that lead to one of these targets."""
    with suppress(OSError):
        links = [path for path in sorted(folder.iterdir()) if path.is_symlink()]
        return [
            link
            for link in links
            if any(link.resolve().is_relative_to(target.resolve()) for target in targets)
        ]
    return []


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    with Path(__file__).with_name("toolchains.toml").open("rb") as file:
        return tomllib.load(file)
