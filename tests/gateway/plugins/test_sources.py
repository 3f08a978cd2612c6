"""Sources of plugins: fetching, allowed hosts, and sources that a market may not name."""

import hashlib
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from gateway.config.installed_plugins import InstalledPlugins
from gateway.plugins import sources
from gateway.plugins.download import hash_file
from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller
from gateway.plugins.market import INDEX, Markets, read_market
from gateway.plugins.sources import fetch, is_pinned, name_in
from tests import fork_server

SHA = "0123456789abcdef" * 2 + "01234567"
Server = Callable[[dict[str, str | bytes]], str]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
        "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem",
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def serve(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start an https server that maps a path to its content or to another address."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    servers: list[http.server.HTTPServer] = []

    def start(pages: dict[str, str | bytes], scheme: str = "https") -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages[self.path]
                self.send_response(200 if isinstance(page, bytes) else 302)
                if isinstance(page, bytes):
                    self.send_header("Content-Length", str(len(page)))
                    self.end_headers()
                    self.wfile.write(page)
                else:
                    self.send_header("Location", page)
                    self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: the tests report failures."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if scheme == "https":
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"{scheme}://localhost:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("p/commands/fix.md", "Fix $ARGUMENTS")
        file.writestr("p/README.md", "A plugin")
    return path.read_bytes()


def test_download_follows_redirects_only_to_https(
    tmp_path: Path, serve: Any, archive: bytes
) -> None:
    plain = serve({"/p.zip": archive}, "http")
    safe = serve({"/p.zip": archive, "/there": "/p.zip", "/out": f"{plain}/p.zip"})
    source = {"source": "archive", "url": f"{safe}/there"}
    assert (fetch(source, tmp_path / "one") / "commands" / "fix.md").is_file()
    for address in (f"{safe}/out", f"{plain}/p.zip"):
        with pytest.raises(PluginError, match="https"):
            fetch({"source": "archive", "url": address}, tmp_path / "two")


def test_too_large_archive_is_not_read(
    tmp_path: Path, serve: Any, archive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_ARCHIVE_BYTES", 100)
    (tmp_path / "p.zip").write_bytes(archive)
    for address in (str(tmp_path / "p.zip"), serve({"/p.zip": archive}) + "/p.zip"):
        with pytest.raises(PluginError, match="too large"):
            fetch({"source": "archive", "url": address}, tmp_path / "out")


def test_file_is_hashed_without_loading_it(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from gateway.plugins.download import hash_file\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (150 * 2**20,) * 2)\n"
        "print(hash_file(Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == hash_file(path), done.stderr


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"sha": SHA}, True),
        ({"sha": SHA + "a" * 24}, True),
        ({"sha256": "A" * 64}, True),
        ({"sha": "main"}, False),
        ({"sha": SHA[:12]}, False),
        ({"sha": "z" * 40}, False),
        ({"sha256": SHA}, False),
        ({"ref": SHA}, False),
        ({"sha": 7}, False),
    ],
)
def test_only_a_full_hash_pins_a_source(source: dict[str, Any], expected: bool) -> None:
    assert is_pinned(source) is expected


@pytest.mark.parametrize(
    "source",
    [
        {"source": "github", "repo": "o/plain"},
        {"source": "url", "url": "https://x.org/o/plain.git"},
        {"source": "url", "url": "git@x.org:plain.git"},
        {"source": "git-subdir", "url": "https://x.org/o/r", "path": "plugins/plain/"},
        {"source": "archive", "url": "https://x.org/plain.tar.gz"},
        {"source": "npm", "package": "@o/plain"},
        {"source": "folder", "path": "/a/plain"},
    ],
)
def test_unnamed_plugin_is_named_after_its_address(source: dict[str, str]) -> None:
    assert name_in(source) == "plain"


@pytest.mark.parametrize("sha", ["main", SHA[:12], "-x", 5])
def test_abbreviated_sha_is_rejected(tmp_path: Path, sha: Any) -> None:
    with pytest.raises(PluginError, match="sha"):
        fetch({"source": "url", "url": tmp_path.as_uri(), "sha": sha}, tmp_path / "out")


@pytest.mark.parametrize(
    "values",
    [
        {"package": "file:/etc"},
        {"package": "/etc"},
        {"package": "../x"},
        {"package": "owner/repository"},
        {"package": "git+ssh://x.org/y"},
        {"package": "a", "version": "file:/etc"},
        {"package": "a", "version": "npm:b@1"},
        {"package": "a", "registry": "http://x.org"},
        {"package": "--registry=http://x.org"},
    ],
)
def test_npm_is_used_only_for_packages(tmp_path: Path, values: dict[str, str]) -> None:
    with pytest.raises(PluginError, match=r"not a package|https"):
        fetch({"source": "npm", **values}, tmp_path / "out")


def index(folder: Path, *plugins: dict[str, Any]) -> Path:
    (folder / INDEX).parent.mkdir(parents=True)
    content = {"name": "m", "owner": {"name": "o"}, "plugins": plugins}
    (folder / INDEX).write_text(json.dumps(content))
    return folder


LOCAL = (
    {"source": "archive", "url": "/home/me/p.zip"},
    {"source": "archive", "url": "file:///home/me/p.zip"},
    {"source": "archive", "url": "http://x.org/p.zip"},
    {"source": "url", "url": "file:///home/me/p"},
    {"source": "url", "url": "http://x.org/p.git"},
    {"source": "git-subdir", "url": "file:///home/me/p", "path": "a"},
    {"source": "git", "url": "/home/me/p"},
)


@pytest.mark.parametrize("source", LOCAL)
def test_remote_market_may_only_name_https_and_ssh(tmp_path: Path, source: dict[str, Any]) -> None:
    folder = index(tmp_path / "m", {"name": "a", "source": source})
    remote = {"source": "github", "repo": "o/r"}
    (entry,) = read_market(folder, remote).entries
    assert "https" in entry.problem
    # The owner of a market in a local folder may name other local folders.
    local = read_market(folder, {"source": "folder", "path": str(folder)}).entries[0]
    assert bool(local.problem) is ("http://" in source["url"])


def test_remote_market_may_use_remote_sources(tmp_path: Path) -> None:
    good: tuple[Any, ...] = (
        {"source": "archive", "url": "https://x.org/p.zip"},
        {"source": "url", "url": "ssh://git@x.org/p"},
        {"source": "url", "url": "git@x.org:o/p.git", "path": "sub"},
        {"source": "git-subdir", "url": "https://x.org/p", "path": "a", "sha": SHA},
        {"source": "git-subdir", "url": "owner/repository", "path": "a"},
        {"source": "github", "repo": "o/p"},
        {"source": "npm", "package": "@o/p", "version": "^1.0"},
        "./plugins/p",
    )
    entries = [{"name": f"p{n}", "source": result} for n, result in enumerate(good)]
    folder = index(tmp_path / "m", *entries)
    market = read_market(folder, {"source": "url", "url": "https://x.org/m.git"})
    assert {entry.problem for entry in market.entries} == {""}


def test_links_out_of_a_remote_market_are_rejected(tmp_path: Path) -> None:
    folder = index(tmp_path / "m", {"name": "a", "source": "./a"})
    (tmp_path / "mine" / "commands").mkdir(parents=True)
    (folder / "a").symlink_to(tmp_path / "mine")
    with pytest.raises(PluginError, match="leaves its market"):
        fetch({"source": "relative", "path": "./a"}, tmp_path / "out", folder)


async def test_concurrent_processes_keep_entries_of_each_other(tmp_path: Path) -> None:
    """Many processes install a plugin and add a market at the same time: no entry is lost."""
    count = 6
    for n in range(count):
        (tmp_path / f"p{n}" / "commands").mkdir(parents=True)
        (tmp_path / f"p{n}" / "commands" / "a.md").write_text(f"{n}")
        market = tmp_path / f"m{n}"
        (market / INDEX).parent.mkdir(parents=True)
        (market / INDEX).write_text(json.dumps({"name": f"m{n}", "plugins": []}))
    script = (
        "import sys; from pathlib import Path\n"
        "from gateway.plugins.installation import PluginInstaller\n"
        "from gateway.plugins.market import Markets\n"
        "top, n = Path(sys.argv[1]), sys.argv[2]\n"
        "installer, markets = PluginInstaller(top / 'kore'), Markets(top / 'kore')\n"
        "sys.stdin.readline()\n"
        "for _ in range(5):\n"
        "    source = {'source': 'folder', 'path': str(top / ('p' + n))}\n"
        "    with installer.fetched(source) as review: installer.install(review)\n"
        "    installer.change('p' + n, is_pinned=True)\n"
        "    markets.add({'source': 'folder', 'path': str(top / ('m' + n))})\n"
    )
    processes = [
        await fork_server.start_talking(
            ["python", "-c", script, tmp_path, str(n)],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            stderr=2,
            limit=2**16,
        )
        for n in range(count)
    ]
    for process in processes:
        process.stdin.write(b"go\n")
    for process in processes:
        assert await process.wait() == 0
    assert len(InstalledPlugins(tmp_path / "kore").load()) == count
    assert len(Markets(tmp_path / "kore").load()) == count


def test_unreadable_list_is_not_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "p" / "commands"
    folder.mkdir(parents=True)
    installer = PluginInstaller(tmp_path / "kore")
    installer.installed.folder.mkdir()
    path = installer.installed.folder / "installed.json"
    path.write_text("{ broken")
    with (
        pytest.raises(ConfigError, match="cannot be read"),
        installer.fetched({"source": "folder", "path": str(folder.parent)}) as review,
    ):
        installer.install(review)
    assert path.read_text() == "{ broken"


def test_reinstallation_restores_the_reviewed_files(tmp_path: Path) -> None:
    """A copy modified since is restored instead of trusted for its name."""
    folder = tmp_path / "p" / "commands"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("good")
    installer = PluginInstaller(tmp_path / "kore")
    source = {"source": "folder", "path": str(folder.parent)}
    with installer.fetched(source) as review:
        plugin = installer.install(review)
    copy = installer.installed.folder / plugin.folder / "commands" / "a.md"
    copy.write_text("evil")
    with installer.fetched(source) as review:
        installer.install(review)
    assert copy.read_text() == "good"
    assert installer.audit() == {"p": ""}


def test_inner_links_are_copied_and_tool_files_are_not(tmp_path: Path) -> None:
    place = tmp_path / "p"
    (place / "skills" / "hi").mkdir(parents=True)
    (place / "skills" / "hi" / "SKILL.md").write_text("---\ndescription: d\n---\nB")
    (place / ".agents").mkdir()
    (place / ".agents" / "skills").symlink_to("../skills")
    (place / "loop").symlink_to(".")
    (place / "skills" / "up").symlink_to("..")
    (place / "out").symlink_to(tmp_path)
    for name in (".git", "node_modules/.cache", "node_modules/x/node_modules/.cache", "a/.cache"):
        (place / name).mkdir(parents=True)
        (place / name / "config").write_text("token")
    (place / "config").symlink_to(".git/config")
    (place / "history").symlink_to(".git")
    installer = PluginInstaller(tmp_path / "kore")
    with installer.fetched({"source": "folder", "path": str(place)}) as review:
        assert set(review.files) == {
            "skills/hi/SKILL.md",
            ".agents/skills/hi/SKILL.md",
            "a/.cache/config",
        }
        assert set(review.dropped) == {
            "loop", "skills/up", ".agents/skills/up", "out", "config", "history",
        }  # fmt: skip


def test_hashes_depend_on_the_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert hash_file(tmp_path / "f") == hashlib.sha256(b"abc").hexdigest()
