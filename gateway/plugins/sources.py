"""Where plugins and markets come from: a folder, git, npm, an archive. Nothing of them is run."""

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.i18n import t
from agent.security.archive.entry import ArchiveLimits
from agent.security.archive.extract import extract
from agent.security.sandbox.trusted_programs import find_trusted_program
from gateway.plugins.manifest import PluginError

Source = Mapping[str, Any]
_TIMEOUT_S = 300
_ARCHIVE_BYTES = 256 * 2**20


def source_of(text: str, ref: str | None = None) -> dict[str, Any]:
    """The source that a word on the command line names. Raises `PluginError`."""
    more = {"ref": ref} if ref else {}
    path = Path(text).expanduser()
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


def fetch(source: Source, target: Path, base: Path | None = None) -> Path:
    """The folder that a source leads to: a new one at `target`, or the one that is there already.
    `base` is where a market's relative sources start. Blocks. Raises `PluginError`."""
    kind = source.get("source")
    if kind == "folder":
        return _folder(Path(str(source.get("path"))), None)
    if kind == "relative":
        if base is None:
            raise PluginError(t("a relative source needs its market"))
        return _folder(base / str(source.get("path")), base)
    if kind == "github":
        address = f"https://github.com/{source.get('repo')}.git"
        return _clone(address, source, target)
    if kind in ("url", "git"):
        return _subfolder(_clone(str(source.get("url")), source, target), source.get("path"))
    if kind == "git-subdir":
        return _subfolder(_clone(str(source.get("url")), source, target), source.get("path"))
    if kind == "archive":
        return _single(_unpack(source, target))
    if kind == "npm":
        return _npm(source, target)
    raise PluginError(t("sources of the kind {kind!r} are not supported", kind=str(kind)[:80]))


def describe(source: Source) -> str:
    """A source in one line."""
    words = [str(source[key]) for key in ("path", "repo", "url", "package") if source.get(key)]
    pins = [str(source[key]) for key in ("sha", "ref", "version", "sha256") if source.get(key)]
    return " ".join([*words[:2], *(f"@{pin[:12]}" for pin in pins[:1])])


def is_pinned(source: Source) -> bool:
    """Whether the source always leads to the same content."""
    return bool(source.get("sha") or source.get("sha256"))


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
    """One commit of a repository: that of `sha`, else of `ref`, else the newest."""
    is_address = address.startswith(("https://", "ssh://", "git@", "file:///"))
    if not is_address or any(char.isspace() or ord(char) < 32 for char in address):
        raise PluginError(
            t(
                "{address}: expected an https:// or ssh address of a git repository",
                address=address[:200],
            )
        )
    wish = str(source.get("sha") or source.get("ref") or "HEAD")
    if wish.startswith("-"):
        raise PluginError(t("{ref}: not a commit, tag or branch", ref=wish[:80]))
    target.mkdir(parents=True)
    git = ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"]
    _run(["git", *git, "init", "-q"], target)
    _run(["git", *git, "fetch", "-q", "--depth", "1", "--", address, wish], target)
    _run(["git", *git, "checkout", "-q", "--detach", "FETCH_HEAD"], target)
    return target


def _unpack(source: Source, target: Path) -> Path:
    url = str(source.get("url"))
    archive = Path(url)
    if "://" in url:
        archive = target.with_suffix(".download")
        _download(url, archive)
    expected = source.get("sha256")
    if expected and hashlib.sha256(archive.read_bytes()).hexdigest() != str(expected).lower():
        raise PluginError(t("{url}: its SHA-256 is not the one that was announced", url=url[:200]))
    extract(archive, target, ArchiveLimits(total_bytes=_ARCHIVE_BYTES))
    return target


def _download(url: str, path: Path) -> None:
    import urllib.request

    if urlsplit(url).scheme != "https":
        raise PluginError(t("{url}: expected an https:// address", url=url[:200]))
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response, path.open("wb") as file:  # noqa: S310 - https only, above
            size = 0
            while chunk := response.read(65_536):
                size += len(chunk)
                if size > _ARCHIVE_BYTES:
                    raise PluginError(t("{path} is too large", path=url[:200]))
                file.write(chunk)
    except OSError as exc:
        raise PluginError(f"{url[:200]}: {exc}") from None


def _single(folder: Path) -> Path:
    """The folder itself, or the only one in it: archives often have one around all."""
    inner = list(folder.iterdir())
    return inner[0] if len(inner) == 1 and inner[0].is_dir() else folder


def _npm(source: Source, target: Path) -> Path:
    """The package as it was published; none of its scripts is run."""
    package = str(source.get("package") or source.get("name") or "")
    if not package or package.startswith("-") or any(char.isspace() for char in package):
        raise PluginError(t("{name}: not a package", name=package[:80]))
    target.mkdir(parents=True)
    version = f"@{source['version']}" if source.get("version") else ""
    _run(["npm", "pack", "--ignore-scripts", "--silent", f"{package}{version}"], target)
    archives = list(target.glob("*.tgz"))
    if len(archives) != 1:
        raise PluginError(t("{name}: not a package", name=package[:80]))
    return _single(_unpack({"url": str(archives[0])}, target / "package"))


def _run(words: Sequence[str], folder: Path) -> None:
    program = find_trusted_program(words[0])
    if program is None:
        raise PluginError(t("There is no program {name} on this machine.", name=words[0]))
    environ = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "SSH_AUTH_SOCK", "LANG") or name.lower().endswith("_proxy")
    }
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        done = subprocess.run(
            [str(program), *words[1:]],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PluginError(f"{words[0]}: {exc}") from None
    if done.returncode:
        line = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PluginError(f"{words[0]}: {line[:300]}")
