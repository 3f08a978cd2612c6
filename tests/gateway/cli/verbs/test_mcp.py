"""`kore mcp`: servers in the configuration, tested and removed, and Kore as an MCP server."""

import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from agent.mcp.connection import McpConnection
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.settings import ToolSettings
from gateway.config.folder_trust import trust
from tests import fakes
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.fakes.model import ModelServer
from tests.gateway.cli.kore import kore, kore_here

pytest.importorskip("mcp", reason="needs the extra mcp")
SERVER = str(Path(fakes.__file__).with_name("mcp_server.py"))
PROGRAM = Path(sys.executable).with_name("kore")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "kore"
    folder.mkdir()
    (folder / "config.json").write_text('{"security": {"sandbox": "none"}}')
    return folder


def test_server_runs_by_the_shim_of_a_version_manager(home: Path) -> None:
    """The shim needs more of the person's home folder than its own folder."""
    installed_bubblewrap()
    (home / "config.json").write_text("{}")
    person = home.parent / "person"
    shim, pyenv = person / ".pyenv/shims/python3", person / ".pyenv/libexec/pyenv"
    for program, line in ((shim, f'exec "{pyenv}" exec python3 "$@"'), (pyenv, 'shift; exec "$@"')):
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\nexport PATH=/usr/bin\n{line}\n")
        program.chmod(0o755)
    environ = {"HOME": str(person), "PATH": f"{shim.parent}:/usr/bin:/bin"}
    added = kore("mcp", "add", "s", "--", "python3", SERVER, home=home, environ=environ)
    assert added.returncode == 0, added.stderr
    tested = kore("mcp", "test", "s", home=home, environ=environ)
    assert "echo: Say it again." in tested.stdout, tested.stderr


def test_servers_of_plugins_are_listed_and_tested(home: Path) -> None:
    row = {"name": "p", "version": "1", "description": "", "source": {}, "digest": "d"}
    servers = {"s": {"command": sys.executable, "args": [SERVER]}}
    plugins = {"version": 1, "plugins": [{**row, "folder": "cache/p", "servers": servers}]}
    (home / "plugins").mkdir()
    (home / "plugins" / "installed.json").write_text(json.dumps(plugins))
    tested = kore("mcp", "test", "plugin_p_s", home=home)
    assert "echo: Say it again." in tested.stdout, tested.stderr
    (row,) = json.loads(kore("mcp", "list", "--json", home=home).stdout)
    assert (row["name"], row["tools"], row["from"]) == ("plugin_p_s", 2, "plugin")
    removed = kore("mcp", "remove", "plugin_p_s", home=home)
    assert "comes from a plugin" in removed.stderr
    assert removed.returncode == 2


def test_server_is_added_tested_allowed_and_removed(home: Path) -> None:
    secret = "sk-not-to-be-shown-123456"
    added = kore(
        *("mcp", "add", "s", "-e", f"TOKEN={secret}", "--", sys.executable, SERVER), home=home
    )
    assert added.returncode == 0, added.stderr
    text = (home / "config.json").read_text()
    assert secret not in text
    assert "not started yet" in kore("mcp", "list", home=home).stdout
    test_result = kore("mcp", "test", "s", home=home)
    assert test_result.returncode == 0, test_result.stderr
    assert "echo: Say it again." in test_result.stdout
    assert "/s:greet: Greet." in test_result.stdout
    allowed = kore("mcp", "allow", "s", "echo", home=home)
    assert allowed.returncode == 0
    assert "mcp_servers.s.trusted_with_private_data true" in allowed.stderr
    data = json.loads(kore("mcp", "test", "s", "--json", home=home).stdout)
    assert {tool["name"]: tool["allowed"] for tool in data["tools"]} == {
        "echo": True,
        "where": False,
    }
    (row,) = json.loads(kore("mcp", "list", "--json", home=home).stdout)
    assert (row["name"], row["tools"], row["enabled"]) == ("s", 2, True)
    assert "stand-in server begins" in kore("mcp", "logs", "s", home=home).stdout
    assert kore("mcp", "allow", "s", "echo", "--revoke", home=home).returncode == 0
    assert json.loads((home / "config.json").read_text())["mcp_servers"]["s"]["allow"] == []
    removed = kore("mcp", "remove", "s", home=home)
    assert removed.returncode == 0, removed.stderr
    assert "no MCP servers" in kore("mcp", "list", home=home).stdout
    assert list((home / "mcp").iterdir()) == []


def test_targets_are_shown_when_a_server_is_added_and_listed(home: Path) -> None:
    network = ("127.0.0.1:8123", "NAS.local:*", "unix:/srv/docker.sock")
    options = [word for entry in network for word in ("--network", entry)]
    added = kore("mcp", "add", "s", *options, "--", sys.executable, SERVER, home=home)
    assert added.returncode == 0, added.stderr
    lines = added.stdout.splitlines()
    places = "127.0.0.1:8123, unix:/srv/docker.sock, nas.local:*"
    assert f"it may reach, also on this machine and in private networks: {places}" in lines
    assert "unix:/srv/docker.sock makes it root on this machine" in lines
    normal = ["127.0.0.1:8123", "nas.local:*", "unix:/srv/docker.sock"]
    (row,) = json.loads(kore("mcp", "list", "--json", home=home).stdout)
    assert row["network"] == normal
    assert ", ".join(normal) in kore("mcp", "list", home=home).stdout


def test_relative_paths_become_absolute(home: Path) -> None:
    work = home.parent
    (work / "tools").mkdir()
    for name in ("server.js", "tools/server", "npx", "run", "debug"):
        (work / name).touch()
    target = (
        "npx",
        "-y",
        "run",
        "server.js",
        "./new.db",
        "--db=../x.db",
        "tools",
        "tools/",
        "missing.js",
    )
    variables = ("-e", "DATA=./data", "-e", "LEVEL=debug")
    added = kore("mcp", "add", "s", *variables, "--", *target, home=home)
    assert added.returncode == 0, added.stderr
    assert kore("mcp", "add", "t", "--", "tools/server", home=home).returncode == 0
    servers = json.loads((home / "config.json").read_text())["mcp_servers"]
    assert servers["s"]["command"] == "npx"
    assert servers["s"]["args"] == [
        *("-y", "run", f"{work}/server.js", f"{work}/new.db", f"--db={work.parent}/x.db"),
        *("tools", f"{work}/tools", "missing.js"),
    ]
    assert servers["t"]["command"] == f"{work}/tools/server"
    assert f"{work}/data" in (home / "secrets.json").read_text()
    assert f"{work}/debug" not in (home / "secrets.json").read_text()
    assert f"server.js is stored as {work}/server.js" in added.stderr.splitlines()
    assert f"./data is stored as {work}/data" in added.stderr.splitlines()


def test_folders_that_a_server_needs_are_named_and_opened(home: Path) -> None:
    (home / "config.json").write_text("{}")
    work = home.parent
    for name in ("notes", "music", "program", "data"):
        (work / name).mkdir()
    for name in ("program/server.py", "data/x.db", "key.json"):
        (work / name).touch()
    options = ("-e", f"MEMORY={work}/notes/memory.json", "-e", f"KEY={work}/key.json")
    target = ("python3", f"{work}/program/server.py", "--db", f"{work}/data/x.db")
    added = kore("mcp", "add", "s", *options, "--", *target, home=home)
    assert added.returncode == 0, added.stderr
    assert f"s can only read {work}/data/x.db; `--add-dir {work}/data`" in added.stderr
    assert f"s cannot open {work}/notes/memory.json; `--add-dir {work}/notes`" in added.stderr
    assert f"s cannot open {work}/key.json; move it into a folder of its own" in added.stderr
    assert "server.py" not in added.stderr
    folders = ("--add-dir", "data", "--add-read-dir", "notes")
    added = kore("mcp", "add", "t", *folders, *options[:2], "--", *target, home=home)
    assert added.stderr == ""
    entry = json.loads((home / "config.json").read_text())["mcp_servers"]["t"]
    assert entry["folders"] == {f"{work}/data": "write", f"{work}/notes": "read"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "a", "--add-dir", "/nowhere", "prog"), "/nowhere: no such folder"),
        (("test", "nope"), "there is no MCP server 'nope'"),
        (("add", "a b", "x"), "found the name 'a b'"),
        (("add", "a", "https://example.org", "x"), "a URL takes no arguments"),
        (("add", "a", "-H", "A: b", "prog"), "--header is for a URL"),
        (("add", "a", "-e", "A", "prog"), "found 'A', expected NAME=VALUE"),
        (("add", "a", "--network", "localhost:*", "prog"), "each port of this machine"),
        (("serve", "--tools", "ask,fly"), "--tools: there is no fly"),
    ],
)
def test_invalid_argument_is_reported_in_one_sentence(
    home: Path, words: tuple[str, ...], sentence: str
) -> None:
    refused = kore_here("mcp", *words, home=home)
    assert refused.returncode != 0
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr


def test_server_without_command_or_url_is_named(home: Path) -> None:
    (home / "config.json").write_text('{"mcp_servers": {"s": {"args": ["x"]}}}')
    refused = kore_here("mcp", "list", home=home)
    assert "mcp_servers.s: expected either `command` or `url`" in refused.stderr


def test_server_of_the_folder_cannot_be_changed(home: Path) -> None:
    file = home.parent / ".mcp.json"
    servers = {"theirs": {"command": sys.executable, "args": [SERVER]}}
    file.write_text(json.dumps({"mcpServers": servers}))
    # A folder other than the person's own home.
    listed = kore("mcp", "list", home=home, environ={"HOME": "/nowhere"})
    assert "theirs" not in listed.stdout
    assert f"{file}: ignored until you trust" in listed.stderr
    before = (home / "config.json").read_text()
    done = kore("mcp", "remove", "theirs", home=home)
    assert done.returncode == 2
    assert "kore config import" in done.stderr
    assert (home / "config.json").read_text() == before
    (row,) = json.loads(kore("mcp", "list", "--json", home=home).stdout)
    assert row["from"] == str(file)
    assert kore("mcp", "add", "theirs", "--", "own", home=home).returncode == 0
    (row,) = json.loads(kore("mcp", "list", "--json", home=home).stdout)
    assert (row["server"], row["from"]) == ("own", str(home / "config.json"))


def test_imported_server_is_copied_when_a_tool_is_allowed(home: Path) -> None:
    secret = "sk-not-to-be-shown-123456"
    server = {"command": sys.executable, "args": [SERVER], "env": {"TOKEN": secret}}
    (home.parent / ".kode.json").write_text(json.dumps({"mcpServers": {"theirs": server}}))
    environ = {"HOME": str(home.parent)}
    done = kore("mcp", "allow", "theirs", "echo", home=home, environ=environ)
    assert done.returncode == 0, done.stderr
    assert "copied the server theirs" in done.stderr
    text = (home / "config.json").read_text()
    copied = json.loads(text)["mcp_servers"]["theirs"]
    assert (copied["command"], copied["allow"]) == (sys.executable, ["echo"])
    assert secret not in text
    (row,) = json.loads(kore("mcp", "list", "--json", home=home, environ=environ).stdout)
    assert row["from"] == str(home / "config.json")


def test_project_server_is_not_copied(home: Path) -> None:
    file = home.parent / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"theirs": {"command": "true"}}}))
    environ = {"HOME": "/nowhere"}
    trust([file], home)
    done = kore("mcp", "allow", "theirs", "echo", home=home, environ=environ)
    assert done.returncode == 2
    assert "kore config import" in done.stderr
    assert "mcp_servers" not in json.loads((home / "config.json").read_text())


def test_tools_of_servers_and_configured_tools_are_listed(home: Path) -> None:
    config = json.loads((home / "config.json").read_text()) | {"tools": {"summarize": True}}
    (home / "config.json").write_text(json.dumps(config))
    kore("mcp", "add", "s", "--", sys.executable, SERVER, home=home)
    assert "not listed yet: s" in kore("tools", "list", home=home).stderr
    kore("mcp", "test", "s", "--accept", home=home)
    listed = json.loads(kore("tools", "list", "--json", home=home).stdout)
    names = {tool["name"] for tool in listed}
    assert {"exec", "summarize", "mcp__s__echo", "mcp__s__where"} <= names


def test_missing_tool_is_not_allowed(home: Path) -> None:
    kore("mcp", "add", "s", "--", sys.executable, SERVER, home=home)
    assert kore("mcp", "allow", "s", "unseen", home=home).returncode == 0  # not started yet
    kore("mcp", "test", "s", home=home)
    done = kore("mcp", "allow", "s", "ecko", home=home)
    assert done.returncode == 1
    assert "its tools: echo, where" in done.stderr
    assert kore("mcp", "allow", "s", "ec*", home=home).returncode == 0


def test_failing_server_is_explained(home: Path) -> None:
    kore("mcp", "add", "s", "--", "no-such-program", home=home)
    failed = kore("mcp", "test", "s", home=home)
    assert failed.returncode == 1
    assert "There is no program no-such-program" in failed.stderr


def configure(home: Path, server: ModelServer) -> None:
    entry = {"model_name": "m", "model": "openai/m", "api_base": server.base_url, "api_key": "k"}
    config = {
        "model_list": [entry],
        "agent": {"model": "m"},
        "security": {"sandbox": "none"},
    }
    (home / "config.json").write_text(json.dumps(config))


@asynccontextmanager
async def kore_as_server(server: McpServerSettings, folder: Path) -> AsyncIterator[McpConnection]:
    """Connect Kore's own client to Kore's own server."""
    servers = McpServers(McpSettings((server,), folder), ToolSettings())
    try:
        yield servers.connection(server.name)
    finally:
        await servers.aclose()


async def test_other_programs_call_ask_and_search(home: Path, model_server: ModelServer) -> None:
    configure(home, model_server)
    serve = ("mcp", "serve", "--tools", "ask,search_conversations")
    server = McpServerSettings("kore", str(PROGRAM), serve, env={"KORE_HOME": str(home)})
    async with kore_as_server(server, home.parent / "mcp") as connection:
        listing = await connection.list()
        assert [tool.name for tool in listing.tools] == ["ask", "search_conversations"]

        async def call(tool: str, **arguments: object) -> dict[str, object]:
            result = await connection.request(
                lambda client: client.call_tool(tool, arguments), 60, operation=tool
            )
            assert not result.is_error, result.content
            return dict(result.structured_content or {})

        first = await call("ask", message="where is the lamp")
        assert "where is the lamp" in str(first["answer"])
        second = await call("ask", message="and the chair", session=first["session"])
        assert second["session"] == first["session"]
        hits = (await call("search_conversations", words="lamp"))["result"]
        assert "where is the lamp" in json.dumps(hits)


async def test_http_requires_the_token(home: Path, model_server: ModelServer) -> None:
    configure(home, model_server)
    token = "a-token-for-this-test-only"
    import asyncio
    import os

    environ = {**os.environ, "KORE_HOME": str(home), "KORE_MCP_TOKEN": token}
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "mcp", "serve", "--port", "0",
        env=environ, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        url = (await process.stderr.readline()).decode().strip()
        assert url.startswith("http://127.0.0.1:")
        right = McpServerSettings("k", url=url, headers={"Authorization": f"Bearer {token}"})
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json={}) as response,
        ):
            assert response.status == 401
        async with kore_as_server(right, home.parent / "mcp") as connection:
            assert [tool.name for tool in (await connection.list()).tools]
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {token}x"}
            async with session.post(url, json={}, headers=headers) as response:
                assert response.status == 401
            headers = {"Authorization": f"Bearer {token}", "Host": "evil.example"}
            async with session.post(url, json={}, headers=headers) as response:
                assert response.status in (403, 421)
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize("port", ["busy", "99999"])
def test_unusable_port_is_reported_in_one_sentence(home: Path, port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        number = str(busy.getsockname()[1]) if port == "busy" else port
        done = kore("mcp", "serve", "--port", number, home=home)
    assert done.returncode == 1
    assert done.stderr.startswith(f"kore: port {number} cannot be used: ")
    assert "Bearer" not in done.stderr


def test_help_of_a_subcommand_is_translated(home: Path) -> None:
    environ = {"KORE_AGENT_LANGUAGE": "zh-Hans"}
    text = kore("mcp", "add", "--help", home=home, environ=environ).stdout
    assert "用法：kore mcp add" in text
    assert "服务器的环境变量" in text
    assert "usage:" not in text
