"""A symbolic link in the path of a configured folder is rejected."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.mcp.settings import ArgumentReach
from gateway.config import Settings
from gateway.config.real_folder import real_folder
from gateway.config.sections import McpServer
from gateway.config.servers import mcp_settings, server_of
from tests.gateway.cli.kore import kore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "real" / "data"
    made.mkdir(parents=True)
    return made


def make_link(tmp_path: Path, folder: Path, kind: str) -> Path:
    """Return a path that leads to the folder through a link."""
    link = tmp_path / "link"
    if kind == "end":
        link.symlink_to(folder)
        return link
    if kind == "relative":
        link.symlink_to("real/data")
        return link
    if kind == "middle":
        link.symlink_to(folder.parent)
        return link / folder.name
    other = tmp_path / "other"
    other.symlink_to(folder.parent)
    link.symlink_to(other)
    return link / folder.name


KINDS = pytest.mark.parametrize("kind", ["end", "relative", "middle", "two"])


@KINDS
def test_link_is_rejected_with_the_name_of_the_real_folder(
    tmp_path: Path, folder: Path, kind: str
) -> None:
    link = make_link(tmp_path, folder, kind)
    with pytest.raises(ConfigError) as caught:
        real_folder("some.key", str(link))
    text = f"some.key: {link} leads through a link to {folder}; name that folder itself"
    assert text in str(caught.value)


def test_loop_of_links_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ConfigError, match="leads through a link"):
        real_folder("some.key", str(tmp_path / "a"))


def test_real_path_is_accepted(folder: Path) -> None:
    assert real_folder("some.key", f"{folder.parent}/../real/data") == folder
    assert real_folder("some.key", str(folder / "not-there")) == folder / "not-there"


@pytest.mark.skipif(
    os.geteuid() == 0 or not Path("/bin").is_symlink(), reason="root could have made every link"
)
def test_system_link_is_followed() -> None:
    assert real_folder("some.key", "/bin") == Path("/bin").resolve()


@KINDS
def test_link_as_the_folder_of_a_server_is_rejected(
    tmp_path: Path, folder: Path, kind: str
) -> None:
    link = make_link(tmp_path, folder, kind)
    server = McpServer(command="python3", folder=str(link))
    with pytest.raises(ConfigError, match=r"mcp_servers\.s\.folder: .* leads through a link"):
        server_of("s", server)
    settings = Settings().model_copy(update={"mcp_servers": {"s": server}})
    with pytest.raises(ConfigError):
        mcp_settings(settings, tmp_path / "mcp")
    assert server_of("s", McpServer(command="python3", folder=str(folder))).folder == folder


@KINDS
def test_link_in_an_argument_is_rejected(tmp_path: Path, folder: Path, kind: str) -> None:
    link = make_link(tmp_path, folder, kind)
    server = McpServer(command="python3", args=("x.py", str(link)))
    with pytest.raises(ConfigError, match=r"mcp_servers\.s\.args: .* leads through a link"):
        server_of("s", server)
    reach = ArgumentReach(tmp_path / "program", (folder,))
    with pytest.raises(ConfigError):
        server_of("s", server, reach)
    assert server_of("s", server, replace(reach, places=())).work_folder is None
    real = McpServer(command="python3", args=("x.py", str(folder)))
    assert server_of("s", real).work_folder == folder


@pytest.mark.parametrize("key", ["folder", "args"])
def test_program_rejects_a_link_created_between_two_starts(
    tmp_path: Path, folder: Path, key: str
) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    home = tmp_path / "kore"
    named, argument = ([folder], []) if key == "folder" else ([], [folder])
    option = ["--folder", *named] if named else []
    added = kore("mcp", "add", "s", *option, "--", "python3", "x.py", *argument, home=home)
    assert added.returncode == 0, added.stderr
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("/etc")
    for words in (("agent", "-m", "hi"), ("mcp", "test", "s"), ("mcp", "list")):
        done = kore(*words, home=home, environ={"KORE_AGENT_MODEL": "offline/echo"})
        assert done.returncode == 2, done.stdout
        assert f"mcp_servers.s.{key}: {folder} leads through a link to /etc" in done.stderr
    removed = kore("mcp", "remove", "s", home=home)
    assert removed.returncode == 0, removed.stderr
