"""Replacement of an MCP server's folders while Kore is running."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.approvals import FolderAccess
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import ToolSettings
from tests.agent.mcp.serving import SERVER
from tests.agent.tools.bubblewrap import installed_bubblewrap

pytest.importorskip("mcp", reason="needs the extra mcp")
REFUSAL = "is no longer the folder that was chosen"


def put_link(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def put_folder(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    target.rename(folder)


def server_with(*args: str, **settings: Any) -> McpServerSettings:
    words = ("-B", str(SERVER), *args)
    return McpServerSettings("s", "/usr/bin/python3", words, **settings, start_timeout_s=20)


def server_with_access(folder: Path, kind: str) -> McpServerSettings:
    """Return a server that may open the folder, which is beside the folder `other`."""
    other = folder.with_name("other")
    other.mkdir()
    access = FolderAccess(folder, is_writable=kind == "written")
    return {
        "setting": server_with(folder=folder),
        "argument": server_with(str(folder)),
        "read": server_with(added_folders=(access,)),
        "written": server_with(added_folders=(access,), folder=other),
        "project": server_with(project=folder),
        "argument of a project": server_with("../data", project=other),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["setting", "argument", "read", "written", "project", "argument of a project"]
)
@pytest.mark.parametrize("is_confined", [True, False], ids=["bubblewrap", "none"])
@pytest.mark.parametrize("put", [put_link, put_folder])
async def test_server_does_not_start_in_a_replaced_folder(
    tmp_path: Path, put: Callable[[Path, Path], None], is_confined: bool, kind: str
) -> None:
    folder, elsewhere = tmp_path / "project" / "data", tmp_path / "elsewhere"
    folder.mkdir(parents=True)
    elsewhere.mkdir()
    sandbox = installed_bubblewrap() if is_confined else Unconfined()
    server = server_with_access(folder, kind)
    servers = McpServers(McpSettings((server,), tmp_path / "mcp"), ToolSettings(sandbox=sandbox))
    try:
        put(folder, elsewhere)
        (notice,) = await servers.load()
        assert REFUSAL in notice
        assert servers.connection("s").state == "failed"
        assert "stand-in server begins" not in (servers.folder_of("s") / "log").read_text()
    finally:
        await asyncio.shield(servers.aclose())


async def start_after(put: Callable[[], None], tmp_path: Path, server: McpServerSettings) -> str:
    """Add a server that does not speak the protocol, call `put`, and start the server.

    Returns the notices.
    """
    tools = ToolSettings(sandbox=installed_bubblewrap())
    servers = McpServers(McpSettings((server,), tmp_path / "mcp"), tools)
    try:
        put()
        return " ".join(await servers.load())
    finally:
        await asyncio.shield(servers.aclose())


@pytest.mark.parametrize("kind", ["setting", "argument", "read", "written"])
async def test_link_in_place_of_a_missing_folder_is_not_followed(tmp_path: Path, kind: str) -> None:
    folder, elsewhere = tmp_path / "project" / "data", tmp_path / "elsewhere"
    folder.parent.mkdir()
    elsewhere.mkdir()
    server = server_with_access(folder, kind)
    (elsewhere / "private").write_text("private")
    script = f"cp {elsewhere}/private /tmp/read; touch {elsewhere}/written; true"
    server = replace(server, command="/usr/bin/sh", args=("-c", script, *server.args[2:]))
    await start_after(lambda: folder.symlink_to(elsewhere), tmp_path, server)
    assert [path.name for path in elsewhere.iterdir()] == ["private"]
    assert list((tmp_path / "mcp").rglob("read")) == []


async def test_link_in_a_project_opens_no_folder_outside_for_its_server(tmp_path: Path) -> None:
    """Commands may change the folder of the argument, a part of the project."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / "data").mkdir(parents=True)
    elsewhere.mkdir()
    script = f"touch started {elsewhere}/written"
    server = McpServerSettings("s", "/usr/bin/sh", ("-c", script, "./data"), project=project)
    await start_after(lambda: put_link(project / "data", elsewhere), tmp_path, server)
    assert (project / "started").exists()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "kind", ["command", "interpreter", "file of an argument", "folder of a file of an argument"]
)
async def test_changed_program_opens_no_folder_outside_for_its_server(
    tmp_path: Path, kind: str
) -> None:
    """Commands may change the project: links in it, and the first line of a script."""
    project, diary = tmp_path / "project", tmp_path / "diary"
    (project / "data").mkdir(parents=True)
    diary.mkdir()
    (diary / "private").write_text("private")
    copy = f"cat {diary}/* >/tmp/read"
    for path in (project / "server", project / "data" / "config.json", diary / "server"):
        path.write_text(f"#!/bin/sh\n{copy}\n")
        path.chmod(0o755)
    (diary / "config.json").write_text("{}")
    is_command = kind in ("command", "interpreter")
    server = McpServerSettings(
        "s",
        "./server" if is_command else "/usr/bin/sh",
        () if is_command else ("-c", copy, "./data/config.json"),
        project=project,
    )

    def put() -> None:
        if kind == "command":
            put_link(project / "server", diary / "server")
        elif kind == "interpreter":
            (project / "server").write_text(f"#!{diary}/server\n")
        elif kind == "file of an argument":
            put_link(project / "data" / "config.json", diary / "config.json")
        else:
            put_link(project / "data", diary)

    notice = await start_after(put, tmp_path, server)
    assert f"now needs {diary}" in notice
    assert list((tmp_path / "mcp").rglob("read")) == []


async def test_link_in_place_of_a_program_folder_is_not_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "program", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
        (path / "config.json").write_text("{}")
    server = McpServerSettings("s", "/usr/bin/sh", ("-c", "true", str(folder / "config.json")))
    notice = await start_after(lambda: put_link(folder, elsewhere), tmp_path, server)
    assert f"now needs {elsewhere}" in notice


async def test_server_starts_with_a_reinstalled_program(tmp_path: Path) -> None:
    """Installers put a new folder in place of the old one."""
    program, update = tmp_path / "program", tmp_path / "update"
    for folder, version in ((program, "1"), (update, "2")):
        folder.mkdir()
        (folder / "pyvenv.cfg").touch()
        (folder / "server.sh").write_text(f"echo {version} >/tmp/version")
    server = McpServerSettings("s", "/usr/bin/sh", (str(program / "server.sh"),))
    await start_after(lambda: put_folder(program, update), tmp_path, server)
    (version_file,) = (tmp_path / "mcp").rglob("version")
    assert version_file.read_text() == "2\n"


async def test_program_that_moved_is_opened_after_a_restart(tmp_path: Path) -> None:
    """The link of a program leads to its new version."""
    link = tmp_path / "bin" / "server"
    link.parent.mkdir()
    for version in ("1", "2"):
        script = tmp_path / version / "server"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\necho {version} >/tmp/version\n")
        script.chmod(0o755)
    link.symlink_to(tmp_path / "1" / "server")
    server = McpServerSettings("s", str(link))

    def upgrade() -> None:
        link.unlink()
        link.symlink_to(tmp_path / "2" / "server")

    notice = await start_after(upgrade, tmp_path, server)
    assert "restart Kore" in notice
    await start_after(lambda: None, tmp_path, server)
    (version_file,) = (tmp_path / "mcp").rglob("version")
    assert version_file.read_text() == "2\n"
