"""Files outside the workspace that file tools share with sandboxed commands."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.built_in import default_tools
from agent.tools.registry import ToolRegistry
from tests.agent.tools.files.workbench import Workbench

HEADER = Path("/usr/include/stdio.h")


@pytest.fixture
def bench(box: Bubblewrap, call: CallContext, tmp_path: Path) -> Workbench:
    return Workbench(box, call, tmp_path / "kore")


@pytest.mark.skipif(not HEADER.exists(), reason="no C headers on this machine")
async def test_system_headers_are_read_without_a_question(bench: Workbench) -> None:
    result = await bench.run_allowed("read_file", path=str(HEADER))
    assert not result.is_error
    assert "printf" in result.for_model


async def test_system_folders_are_searched_and_listed(bench: Workbench) -> None:
    listing = await bench.run_allowed("list_dir", path="/usr")
    assert "lib/" in listing.for_model
    found = await bench.run_allowed("glob", pattern="python3*", path="/usr/bin")
    assert "/usr/bin/python3" in found.for_model


async def test_programs_of_the_machine_bring_no_taint(bench: Workbench) -> None:
    result = await bench.run_allowed("list_dir", path="/usr")
    assert "untrusted" not in result.taint


async def test_readable_files_are_those_that_commands_read(
    bench: Workbench, box: Bubblewrap, workspace: Path
) -> None:
    for place in box.readable_files(workspace):
        shown = await bench.run("exec", command=f"test -e {place} && echo seen")
        assert shown.startswith("seen"), place


async def test_file_of_a_command_is_read_under_its_tmp_path(bench: Workbench) -> None:
    await bench.run("exec", command="echo from a command > /tmp/note.txt")
    result = await bench.run_allowed("read_file", path="/tmp/note.txt")
    assert "from a command" in result.for_model


async def test_command_reads_what_a_file_tool_wrote_in_tmp(bench: Workbench) -> None:
    result = await bench.run_allowed("write_file", path="/tmp/sub/note.txt", content="from a tool")
    assert "/tmp/sub/note.txt" in result.for_model
    assert str(bench.spaces.folder("s1")) not in result.for_model
    assert "from a tool" in await bench.run("exec", command="cat /tmp/sub/note.txt")


async def test_change_in_tmp_asks_like_a_change_in_the_workspace(bench: Workbench) -> None:
    await bench.run_allowed("write_file", path="/tmp/note.txt", content="one\n")
    result = await bench.run_allowed(
        "edit_file", path="/tmp/note.txt", old_string="one", new_string="two"
    )
    assert "Changes an existing file" in result.for_model


async def test_tmp_of_another_conversation_stays_closed(bench: Workbench) -> None:
    other = bench.spaces.folder("s2") / "tmp" / "note.txt"
    other.write_text("of another conversation")
    with pytest.raises(ToolError, match="part of Kore"):
        await bench.run("read_file", path=str(other))


async def test_home_of_commands_is_not_written(bench: Workbench) -> None:
    await bench.run("exec", command="echo x > ~/.curlrc")
    assert "x" in await bench.run("read_file", path="/tmp/home/.curlrc")
    with pytest.raises(ToolError, match="home folder of commands"):
        await bench.run("write_file", path="/tmp/home/.bashrc", content="evil")


async def test_home_of_commands_is_not_written_through_a_link(bench: Workbench) -> None:
    await bench.run("exec", command="ln -s home /tmp/innocent")
    with pytest.raises(ToolError, match="home folder of commands"):
        await bench.run("write_file", path="/tmp/innocent/.bashrc", content="evil")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../config.json", "/root", "/tmp/.."])
async def test_link_in_tmp_is_judged_by_its_target(
    bench: Workbench, tmp_path: Path, target: str
) -> None:
    (tmp_path / "kore" / "config.json").parent.mkdir(exist_ok=True)
    (tmp_path / "kore" / "config.json").write_text("secret")
    await bench.run("exec", command=f"ln -s {target} /tmp/link")
    for tool in ("read_file", "list_dir"):
        with pytest.raises(ToolError, match=r"leads outside|blocked"):
            await bench.run(tool, path="/tmp/link")


@pytest.mark.parametrize(
    "path", ["/usr/../etc/shadow", "/etc/passwd", "/usr/bin/../../root", "/var/log", "/"]
)
async def test_other_places_are_refused(bench: Workbench, path: str) -> None:
    for tool in ("read_file", "list_dir"):
        with pytest.raises(ToolError, match=r"leads outside|blocked"):
            await bench.run(tool, path=path)


async def test_system_folders_are_not_written(bench: Workbench) -> None:
    with pytest.raises(ToolError, match="leads outside"):
        await bench.run("write_file", path="/usr/local/bin/x", content="x")


async def test_guests_see_nothing_outside_the_workspace(
    bench: Workbench, guest: CallContext
) -> None:
    assert bench.registry.shared_files(guest) is None
    for path in ("/usr/include", "/tmp"):
        with pytest.raises(ToolError, match="leads outside"):
            await bench.tool("list_dir").run({"path": path}, guest)
        # Even if the call carried them.
        shared = replace(guest, shared_files=bench.call.shared_files)
        with pytest.raises(ToolError, match="leads outside"):
            await bench.tool("list_dir").run({"path": path}, shared)


async def test_nothing_outside_is_shared_without_a_sandbox(
    call: CallContext, workspace: Path
) -> None:
    registry = ToolRegistry(default_tools(ToolSettings()))
    assert registry.shared_files(call) is None


async def test_folder_with_keys_inside_a_readable_folder_stays_closed(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    home = tmp_path / "person"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("key")
    (home / "notes.txt").write_text("a note")
    bench = Workbench(box.showing((home,)), call, tmp_path / "kore")
    assert "a note" in await bench.run("read_file", path=str(home / "notes.txt"))
    assert ".ssh" not in await bench.run("list_dir", path=str(home))
    assert "Nothing matches" in await bench.run("grep", pattern="key", path=str(home))
    with pytest.raises(ToolError, match="keys or logins"):
        await bench.run("read_file", path=str(home / ".ssh" / "id_ed25519"))
    os.symlink(home / ".ssh", home / "innocent")
    with pytest.raises(ToolError, match="keys or logins"):
        await bench.run("read_file", path=str(home / "innocent" / "id_ed25519"))


async def test_machine_file_that_tmp_lacks_is_not_taken_for_a_shared_one(
    bench: Workbench, tmp_path: Path
) -> None:
    file = tmp_path / "data.csv"
    file.write_text("of the machine")
    with pytest.raises(ToolError, match="leads outside"):
        await bench.run("read_file", path=str(file))
