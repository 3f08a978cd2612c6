"""Shape of the official market, and plugins from every kind of source."""

import base64
import hashlib
import http.server
import io
import json
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.plugins.installation import PluginInstaller
from gateway.plugins.market import INDEX, Markets, read_market
from gateway.plugins.sources import fetch, is_pinned

REMOTE = {"source": "github", "repo": "owner/official"}


def write_index(folder: Path, plugins: list[dict[str, Any]], **more: Any) -> Path:
    (folder / INDEX).parent.mkdir(parents=True, exist_ok=True)
    content = {"name": "official", "owner": {"name": "o"}, **more, "plugins": plugins}
    (folder / INDEX).write_text(json.dumps(content))
    return folder


def official() -> list[dict[str, Any]]:
    """Return 286 entries: 150 git (4 with a path), 83 folders of git, 53 in the market itself."""
    entries: list[dict[str, Any]] = []
    for n in range(150):
        sha = hashlib.sha1(b"%d" % n, usedforsecurity=False).hexdigest()
        source = {"source": "url", "url": f"https://x.org/o/r{n}.git", "sha": sha}
        entries.append({"source": {**source, **({"path": "plugin"} if n < 4 else {})}})
    for n in range(83):
        sha = hashlib.sha1(b"s%d" % n, usedforsecurity=False).hexdigest()
        source = {"source": "git-subdir", "url": "https://x.org/o/r.git", "path": f"p/{n}"}
        entries.append({"source": {**source, "ref": "main", "sha": sha}})
    entries += [{"source": f"./plugins/p{n}", "strict": bool(n % 2)} for n in range(53)]
    for n, entry in enumerate(entries):
        entry |= {
            "name": f"plugin-{n}",
            "description": f"Does the thing number {n}.",
            "category": "development",
            "author": {"name": "A", "email": "a@x.org"},
            "homepage": "https://x.org",
            "tags": ["community"],
            "lspServers": {"l": {"command": "x", "extensionToLanguage": {}}},
        }
    return entries


def test_official_market_is_read_completely(tmp_path: Path) -> None:
    folder = write_index(
        tmp_path / "m",
        official(),
        **{"$schema": "x", "version": "1", "description": "d", "metadata": {"version": "1"}},
    )
    market = read_market(folder, REMOTE)
    assert len(market.entries) == 286
    assert {entry.problem for entry in market.entries} == {""}
    assert sum(is_pinned(entry.source) for entry in market.entries) == 233


def test_plugin_root_is_prepended_to_bare_names(tmp_path: Path) -> None:
    plugins = [{"name": "a", "source": "a"}, {"name": "b", "source": "./b"}]
    folder = write_index(tmp_path, plugins, metadata={"pluginRoot": "./plugins"})
    paths = [entry.source["path"] for entry in read_market(folder, REMOTE).entries]
    assert paths == ["./plugins/a", "./b"]


def write_plugin(folder: Path, words: str) -> Path:
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / "go.md").write_text(words)
    return folder


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.programs("git")
def test_plugin_is_fetched_from_every_kind_of_source(tmp_path: Path) -> None:
    repository = write_plugin(tmp_path / "repository", "top")
    write_plugin(repository / "deep" / "one", "deep")
    git(repository, "init", "-q", "-b", "main")
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "one")
    sha = git(repository, "rev-parse", "HEAD").strip()
    git(repository, "tag", "v1")
    (repository / "commands" / "go.md").write_text("newer")
    git(repository, "commit", "-qam", "two")
    archive = tmp_path / "p.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(write_plugin(tmp_path / "packed", "packed"), "packed")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    url = repository.as_uri()
    expected = {
        "newest": ({"source": "url", "url": url}, "newer"),
        "branch": ({"source": "git", "url": url, "ref": "main"}, "newer"),
        "tag": ({"source": "url", "url": url, "ref": "v1"}, "top"),
        "commit": ({"source": "url", "url": url, "ref": "main", "sha": sha}, "top"),
        "folder": ({"source": "url", "url": url, "path": "deep/one"}, "deep"),
        "subdir": ({"source": "git-subdir", "url": url, "path": "deep/one", "sha": sha}, "deep"),
        "archive": ({"source": "archive", "url": str(archive), "sha256": digest}, "packed"),
        "own": ("./own", "own"),
    }
    folder = tmp_path / "market"
    write_plugin(folder / "own", "own")
    entries = [{"name": name, "source": source} for name, (source, _) in expected.items()]
    write_index(folder, entries)
    markets, installer = Markets(tmp_path / "kore"), PluginInstaller(tmp_path / "kore")
    markets.add({"source": "folder", "path": str(folder)})
    result = {}
    for name in expected:
        source, more = markets.locate(name)
        with installer.fetched(source, **more) as review:
            plugin = installer.install(review)
        copy = installer.installed.folder / plugin.folder
        result[plugin.name] = (copy / "commands" / "go.md").read_text()
    assert result == {name: words for name, (_, words) in expected.items()}
    assert set(installer.audit().values()) == {""}


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_package_is_fetched_without_running_its_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry is local and has one package; npm is the real program."""
    marker = tmp_path / "ran"
    manifest = {
        "name": "kore-test-plugin",
        "version": "1.2.3",
        "scripts": dict.fromkeys(("prepare", "prepack", "install"), f"touch {marker}"),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in (("package.json", json.dumps(manifest)), ("commands/go.md", "npm")):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    data = buffer.getvalue()
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = data
            if not self.path.endswith(".tgz"):
                address = f"http://127.0.0.1:{self.server.server_port}/p.tgz"  # type: ignore[attr-defined]
                version = {**manifest, "dist": {"tarball": address, "integrity": integrity}}
                about = {"name": manifest["name"], "dist-tags": {"latest": "1.2.3"}}
                body = json.dumps({**about, "versions": {"1.2.3": version}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: the test reports failures."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    home = tmp_path / "home"
    home.mkdir()
    (home / ".npmrc").write_text(f"registry=http://127.0.0.1:{server.server_port}/\n")
    monkeypatch.setenv("HOME", str(home))
    try:
        source = {"source": "npm", "package": "kore-test-plugin", "version": "^1.0"}
        folder = fetch(source, tmp_path / "out")
    finally:
        server.shutdown()
        server.server_close()
    assert (folder / "commands" / "go.md").read_text() == "npm"
    assert not marker.exists()
