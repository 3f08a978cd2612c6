"""Sources of plugins and markets: folders, git, npm, archives. Their code is never run."""

import os
import posixpath
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import hexdigits
from types import MappingProxyType
from typing import IO, Any

from agent.i18n import t
from agent.security.archive.entry import ArchiveLimits
from agent.security.archive.extract import extract
from agent.security.sandbox.trusted_programs import find_trusted_program, is_closed_file
from gateway.plugins.download import download, hash_file
from gateway.plugins.errors import PluginError

Source = Mapping[str, Any]
MAX_ARCHIVE_BYTES = 256 * 2**20
# Limits of a checkout; every entry counts, however well it compresses.
_REPOSITORY_LIMITS = ArchiveLimits(entries=50_000, total_bytes=MAX_ARCHIVE_BYTES)
# Limit of the list of entries: trees that contain each other can make it endless.
_MAX_LIST_BYTES = 20_000_000
_TIMEOUT_S = 300
_GIT = ("url", "git", "git-subdir")
_REMOTE = ("https://", "ssh://", "git@")
_PACKAGE = re.compile(r"(@[a-z0-9~][\w.~-]*/)?[A-Za-z0-9~][\w.~-]*", re.ASCII)
_VERSION = re.compile(r"[\w.+^~<>=*| -]{0,100}", re.ASCII)
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
# Attributes of a repository select the person's filters to run; none of them may run.
_WITHOUT_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
# Check files out as stored: conversions would enlarge them or run filters.
_WITHOUT_CONVERSION = "* -text -ident -filter -working-tree-encoding\n"
# Folders of a plugin; a single subfolder with such a name is not a wrapper around the plugin.
_PARTS = frozenset({".claude-plugin", "skills", "commands", "agents", "hooks", "output-styles"})


def source_of(text: str, ref: str | None = None, *, has_folder: bool = True) -> dict[str, Any]:
    """Return the source that a person names.

    Without `has_folder` there is no current folder, so a path must begin with / or ~. Raises
    `PluginError`.
    """
    more = {"ref": ref} if ref else {}
    if has_folder or text.startswith(("/", "~")):
        path = _path_of(text)
        if path.is_dir():
            return {"source": "folder", "path": str(path.resolve())}
        if path.is_file():
            return {"source": "archive", "url": str(path.resolve())}
    if text.startswith("npm:"):
        name, _, version = text.removeprefix("npm:").rpartition("@")
        return {
            "source": "npm",
            "package": name or version,
            **({"version": version} if name else {}),
        }
    if text.endswith((".zip", ".tar.gz", ".tgz", ".tar")) and "://" in text:
        return {"source": "archive", "url": text}
    if "://" in text or text.startswith("git@"):
        return {"source": "url", "url": text, **more}
    owner, _, repository = text.partition("/")
    if owner and repository and "/" not in repository and ":" not in text:
        return {"source": "github", "repo": text, **more}
    raise PluginError(
        t(
            "{source}: no folder, git address, owner/repository, archive or npm:NAME",
            source=text[:200],
        )
    )


def _path_of(text: str) -> Path:
    """Return a path. Raises `PluginError` for a text that cannot be one."""
    try:
        path = Path(text).expanduser()
        path.stat()
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError, ValueError) as exc:
        raise PluginError(f"{text[:200]!r}: {exc}"[:300]) from None
    return path


def fetch(source: Source, target: Path, base: Path | None = None) -> Path:
    """Fetch a source and return its folder: `target`, or an existing folder.

    `base` is the start of a market's relative sources. Blocks. Raises `PluginError`.
    """
    kind = source.get("source")
    if kind == "folder":
        return _folder(Path(str(source.get("path"))), None)
    if kind == "relative":
        if base is None:
            raise PluginError(t("a relative source needs its market"))
        return _folder(base / str(source.get("path")), base)
    if kind in ("github", *_GIT):
        address = _git_address(str(source.get("repo" if kind == "github" else "url")))
        return _subfolder(_clone(address, source, target), source.get("path"))
    if kind == "archive":
        return _single(_unpack(source, target))
    if kind == "npm":
        return _npm(source, target)
    raise PluginError(t("sources of the kind {kind!r} are not supported", kind=str(kind)[:80]))


def describe(source: Source) -> str:
    """Describe a source in a line."""
    words = [str(source[key]) for key in ("path", "repo", "url", "package") if source.get(key)]
    pins = [str(source[key]) for key in ("sha", "ref", "version", "sha256") if source.get(key)]
    return " ".join([*words[:2], *(f"@{pin[:12]}" for pin in pins[:1])])


def place_of(source: Source) -> tuple[str, ...]:
    """Return the location of a source without its version."""
    keys = ("repo", "url", "package", "registry", "path")
    words = [str(source.get(key) or "") for key in keys]
    for n in range(2):
        words[n] = _git_address(words[n]).removesuffix(".git").rstrip("/")
    return tuple(filter(None, [words[0] or words[1], *words[2:]]))


def name_in(source: Source) -> str:
    """Return the name that the last part of a source's address suggests."""
    words = [str(source[key]) for key in ("path", "repo", "url", "package") if source.get(key)]
    name = re.split(r"[/:]", words[0].rstrip("/"))[-1] if words else ""
    return re.sub(r"\.(git|zip|tar|tgz|tar\.gz)$", "", name)


def is_pinned(source: Source) -> bool:
    """Return whether the source has a full hash and therefore always the same content."""
    sha, sha256 = source.get("sha"), source.get("sha256")
    return _is_hash(sha, 40, 64) or _is_hash(sha256, 64)


def is_local(source: Source) -> bool:
    """Return whether the source is on this machine; only then it belongs to the person."""
    address = str(source.get("url") or "")
    has_host = "://" in address and not address.startswith("file:")
    kind = source.get("source")
    return kind == "folder" or (kind in ("archive", *_GIT) and not has_host and "@" not in address)


def check_remote(source: Source) -> None:
    """Refuse sources that a stranger may not name: only https and ssh. Raises `PluginError`."""
    kind, address = source.get("source"), str(source.get("url") or "")
    allowed = ("https://",) if kind == "archive" else _REMOTE
    if kind in ("archive", *_GIT) and not _git_address(address).startswith(allowed):
        raise PluginError(
            t("{address}: a market may name https:// and ssh addresses only", address=address[:200])
        )


def _is_hash(value: Any, *lengths: int) -> bool:
    return isinstance(value, str) and len(value) in lengths and not set(value) - set(hexdigits)


def _git_address(address: str) -> str:
    """Return the address; `owner/repository` is at GitHub."""
    is_short = _REPOSITORY.fullmatch(address) and not address.startswith(".")
    return f"https://github.com/{address}.git" if is_short else address


def _folder(path: Path, base: Path | None) -> Path:
    real = path.expanduser().resolve()
    if base is not None and not real.is_relative_to(base.resolve()):
        raise PluginError(t("{path} leaves its market", path=path))
    if not real.is_dir():
        raise PluginError(t("{folder}: no such folder", folder=path))
    return real


def _subfolder(folder: Path, name: Any) -> Path:
    return _folder(folder / str(name), folder) if name else folder


def _clone(address: str, source: Source, target: Path) -> Path:
    """Check out a single commit: `sha`, else `ref`, else the newest."""
    if not address.startswith((*_REMOTE, "file:///")) or any(
        char.isspace() or ord(char) < 32 for char in address
    ):
        raise PluginError(
            t(
                "{address}: expected an https:// or ssh address of a git repository",
                address=address[:200],
            )
        )
    sha = source.get("sha")
    if sha and not _is_hash(sha, 40, 64):
        raise PluginError(t("sha: expected 40 or 64 hex digits"))
    wish = str(sha or source.get("ref") or "HEAD")
    if wish.startswith("-"):
        raise PluginError(t("{ref}: not a commit, tag or branch", ref=wish[:80]))
    target.mkdir(parents=True)
    git = ["git", "-c", f"core.hooksPath={os.devnull}", "-c", "gc.auto=0"]
    _run([*git, "init", "-q", "--template="], target, _WITHOUT_SETTINGS)
    # Use the person's settings, which contain logins; no file of the repository exists yet.
    fetch_words = ["fetch", "-q", "--depth", "1", "--no-recurse-submodules"]
    _run([*git, *fetch_words, "--", address, wish], target)
    (target / ".git" / "info").mkdir(exist_ok=True)
    (target / ".git" / "info" / "attributes").write_text(_WITHOUT_CONVERSION)
    part = posixpath.normpath(str(source.get("path") or "."))
    git.append("--literal-pathspecs")
    if _has_entries(git, part, target):
        _run([*git, "checkout", "-q", "FETCH_HEAD", "--", part], target, _WITHOUT_SETTINGS)
    return target


def _has_entries(git: Sequence[str], part: str, target: Path) -> bool:
    """Return whether there is anything to check out. Raises `PluginError` if it is too much."""
    listing = [
        "ls-tree",
        "-r",
        "-t",
        "-l",
        "-z",
        "FETCH_HEAD",
        "--",
        *([part] if part != "." else []),
    ]
    with tempfile.TemporaryFile(dir=target) as output:
        _run([*git, *listing], target, _WITHOUT_SETTINGS, output, _MAX_LIST_BYTES)
        output.seek(0)
        entries = output.read().split(b"\0")[:-1]
    # Mode, kind, object and size, then a tab and the path. A folder has no size.
    sizes = [entry.split(b"\t", 1)[0].split()[-1] for entry in entries]
    sizes_bytes = [int(size) for size in sizes if size != b"-"]
    limits = _REPOSITORY_LIMITS
    if (
        len(entries) > limits.entries
        or sum(sizes_bytes) > limits.total_bytes
        or max(sizes_bytes, default=0) > limits.file_bytes
    ):
        raise PluginError(
            t(
                "the repository is too large: {most:,} files and folders, 64 MB for a file and"
                " 256 MB in all are the most",
                most=limits.entries,
            )
        )
    return bool(entries)


def _unpack(source: Source, target: Path) -> Path:
    url = str(source.get("url"))
    archive = Path(url)
    if "://" in url:
        archive = target.with_suffix(".download")
        download(url, archive, MAX_ARCHIVE_BYTES)
    try:
        if archive.stat().st_size > MAX_ARCHIVE_BYTES:
            raise PluginError(t("{path} is too large", path=url[:200]))
        expected = source.get("sha256")
        if expected and hash_file(archive) != str(expected).lower():
            raise PluginError(
                t("{url}: its SHA-256 is not the one that was announced", url=url[:200])
            )
    except OSError as exc:
        raise PluginError(f"{url[:200]}: {exc.strerror}") from None
    extract(archive, target, ArchiveLimits(total_bytes=MAX_ARCHIVE_BYTES))
    return target


def _single(folder: Path) -> Path:
    """Return the only subfolder, as archives often have one around everything, or the folder."""
    inner = list(folder.iterdir())
    if len(inner) != 1 or not inner[0].is_dir() or inner[0].name in _PARTS:
        return folder
    return inner[0]


def _npm(source: Source, target: Path) -> Path:
    """Fetch a published package without running its scripts."""
    package = str(source.get("package") or source.get("name") or "")
    version = str(source.get("version") or "")
    if not _PACKAGE.fullmatch(package) or not _VERSION.fullmatch(version):
        raise PluginError(t("{name}: not a package", name=f"{package} {version}".strip()[:80]))
    registry = str(source.get("registry") or "")
    if registry and not registry.startswith("https://"):
        raise PluginError(t("{url}: expected an https:// address", url=registry[:200]))
    target.mkdir(parents=True)
    words = [*_npm_program(), "pack", "--ignore-scripts", "--silent"]
    words += [f"--registry={registry}"] if registry else []
    _run([*words, "--", f"{package}@{version}" if version else package], target)
    archives = list(target.glob("*.tgz"))
    if len(archives) != 1:
        raise PluginError(t("{name}: not a package", name=package[:80]))
    return _single(_unpack({"url": str(archives[0])}, target / "package"))


def _npm_program() -> list[str]:
    """Return the command of npm.

    Its script is in a folder `node_modules`, as projects have them, so it is found by the path of
    node; elsewhere it is a program.
    """
    if node := find_trusted_program("node"):
        prefix = Path(node).resolve().parent.parent
        script = str(prefix / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
        if os.path.realpath(script) == script and is_closed_file(script):
            return ["node", script]
    return ["npm"]


def _run(
    words: Sequence[str],
    folder: Path,
    variables: Mapping[str, str] = MappingProxyType({}),
    output: IO[bytes] | None = None,
    max_bytes: int = MAX_ARCHIVE_BYTES,
) -> None:
    """Run a program whose files, including `output`, are limited to `max_bytes` each."""
    program = find_trusted_program(words[0])
    if program is None:
        raise PluginError(t("There is no program {name} on this machine.", name=words[0]))
    environ = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "SSH_AUTH_SOCK", "LANG") or name.lower().endswith("_proxy")
    }
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    # Forbid changes of the protocol.
    environ |= {"GIT_ALLOW_PROTOCOL": "https:ssh:file", **variables}
    # A lower limit of the system stays in effect.
    limit = f'ulimit -f {max_bytes // 512} 2>/dev/null; exec "$@"'
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", limit, "sh", str(program), *words[1:]],
            cwd=folder,
            env=environ,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PluginError(f"{words[0]}: {exc}") from None
    if done.returncode == -signal.SIGXFSZ:
        raise PluginError(t("what {name} fetches is too large", name=words[0]))
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise PluginError(f"{words[0]}: {(lines or [f'exit code {done.returncode}'])[-1][:300]}")
