"""Language servers that are slow, crash, misbehave or use other options
(tests/fakes/lsp_server.py)."""

import asyncio
import json
import os
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.diagnostics import read_diagnostics
from agent.code.lsp.protocol.positions import uri_of
from agent.errors import ToolError
from agent.types import ToolResult
from tests.contracts.code_servers import (
    CodeCalls,
    all_ended,
    code_calls,
    processes_in,
    stand_in,
)

TEXT = "def apple\ndef pear\n蘋果 🍎 apple é pear\n"
# Without versions, only silence shows that a server has finished, which takes seconds with each
# edit.
WAYS = (
    *("plain", "pull", "register", "stale"),
    *(pytest.param(way, marks=pytest.mark.slow) for way in ("unversioned", "changes")),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "project").mkdir()
    (folder / "a.txt").write_text(TEXT, encoding="utf-8")
    return folder


def errors_of(result: ToolResult) -> list[str]:
    return [line for line in result.for_model.splitlines() if " error: " in line]


async def edit(calls: CodeCalls, old: str, new: str) -> list[str]:
    return errors_of(await calls.run("edit_file", path="a.txt", old_string=old, new_string=new))


async def ask_until_answered(calls: CodeCalls, operation: str, **args: Any) -> ToolResult:
    """Repeat a call until it succeeds: a crashed server restarts after a pause."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await calls.ask(operation, "a.txt", **args)
            except ToolError:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("way", WAYS)
async def test_errors_belong_to_the_last_text_sent(folder: Path, way: str) -> None:
    async with code_calls(folder, stand_in(way)) as calls:
        assert await edit(calls, "def pear", "def ERROR") == [
            "a.txt:2:5 error: an error: def ERROR (E1)"
        ]
        assert await edit(calls, "def apple", "def ERROR and ERROR") == [
            "a.txt:1:5 error: an error: def ERROR and ERROR (E1)",
            "a.txt:1:15 error: an error: def ERROR and ERROR (E1)",
        ]
        # Existing errors are not new, even at other positions.
        assert await edit(calls, "def ERROR and ERROR", "one\ntwo\ndef apple") == []
        assert await edit(calls, "def ERROR", "def pear") == []
        assert await calls.lines("diagnostics", "a.txt") == [
            f"Nothing is wrong in {folder / 'a.txt'}."
        ]


async def test_silence_ends_diagnostics_without_versions(folder: Path) -> None:
    async with code_calls(folder, stand_in("unversioned")) as calls:
        await edit(calls, "def pear", "def ERROR")
        assert await calls.lines("diagnostics", "a.txt") == ["2:5 error: an error: def ERROR (E1)"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_positions_are_correct_in_each_encoding(folder: Path, encoding: str) -> None:
    async with code_calls(folder, stand_in(encoding)) as calls:
        assert await calls.lines("references", "a.txt", line=3, symbol="pear") == [
            "a.txt:2: def pear",
            "a.txt:3: 蘋果 🍎 apple é pear",
        ]
        await calls.ask("rename", "a.txt", line=3, symbol="pear", new_name="梨🍐")
        await calls.ask("rename", "a.txt", line=3, symbol="apple", new_name="x")
    text = "def x\ndef 梨🍐\n蘋果 🍎 x é 梨🍐\n"
    assert (folder / "a.txt").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("way", ["plain", "pull"])
async def test_random_edits_keep_disk_and_server_in_sync(folder: Path, way: str) -> None:
    chance = random.Random(7)
    paths = [folder / f"{name}.txt" for name in "abcde"]
    for path in paths:
        path.write_text("def start\n", encoding="utf-8")
    async with code_calls(folder, stand_in(way)) as calls:
        for number in range(40):
            path = chance.choice(paths)
            word = chance.choice(["ERROR", "蘋果🍎", "plain"])
            match chance.randrange(4):
                case 0:
                    await calls.run("read_file", path=path.name)
                    content = f"def {word}\nnumber {number}\n"
                    await calls.run("write_file", path=path.name, content=content)
                case 1:
                    # An external change.
                    path.write_text(f"def outside {number}\n", encoding="utf-8")
                case 2:
                    await calls.ask("document_symbols", path.name)
                case 3:
                    first = path.read_text(encoding="utf-8").splitlines()[0]
                    new = f"def {word} {number}\n{first}"
                    await calls.run("edit_file", path=path.name, old_string=first, new_string=new)
        for path in paths:
            await calls.ask("document_symbols", path.name)
            text = await calls.session.peer.request("$/text", {"uri": uri_of(path)}, 5)
            assert text == path.read_text(encoding="utf-8")


async def test_rejected_draft_is_removed_from_the_server(folder: Path) -> None:
    async with code_calls(folder, stand_in(before_write="block")) as calls:
        with pytest.raises(ToolError, match="an error: def ERROR"):
            await edit(calls, "def pear", "def ERROR")
        assert (folder / "a.txt").read_text(encoding="utf-8") == TEXT
        await calls.ask("document_symbols", "a.txt")
        uri = uri_of(folder / "a.txt")
        assert await calls.session.peer.request("$/text", {"uri": uri}, 5) == TEXT
        insisting = {"old_string": "def pear", "new_string": "def ERROR", "despite_errors": "so"}
        await calls.run("edit_file", path="a.txt", **insisting)
        assert "ERROR" in (folder / "a.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", ["hang", "die", "notes", "length", "garbage", "deep"])
async def test_failed_request_is_reported_and_server_recovers(folder: Path, fault: str) -> None:
    behaviours = (f"{fault}=textDocument/hover", "once=/tmp/happened")
    async with code_calls(folder, stand_in(*behaviours, timeout_s=1)) as calls:
        with pytest.raises(ToolError, match=r"^The language server stand-in [^\n]*\.$"):
            await calls.ask("hover", "a.txt", line=1, symbol="apple")
        result = await ask_until_answered(calls, "hover", line=1, symbol="apple")
        assert result.for_model == "word apple"
    await all_ended(folder)


@pytest.mark.parametrize("fault", ["hang", "die", "notes", "length", "garbage", "deep"])
async def test_edit_succeeds_unchecked_despite_a_faulty_server(folder: Path, fault: str) -> None:
    behaviours = ("pull", f"{fault}=textDocument/diagnostic")
    async with code_calls(folder, stand_in(*behaviours, wait_s=1)) as calls:
        result = await calls.run(
            "edit_file", path="a.txt", old_string="def pear", new_string="def ERROR"
        )
        assert errors_of(result) == []
        assert "\nNot checked for new errors: The language server stand-in " in result.for_model
        assert result.for_user is not None
        assert result.for_user.endswith("not checked for new errors")
        assert "ERROR" in (folder / "a.txt").read_text(encoding="utf-8")
    await all_ended(folder)


async def test_unchecked_edit_is_written_in_the_mode_that_blocks_errors(folder: Path) -> None:
    async with code_calls(folder, stand_in("fail", before_write="block")) as calls:
        result = await calls.run("write_file", path="b.txt", content="def ERROR\n")
        assert "Not checked for new errors: The language server stand-in" in result.for_model
        assert (folder / "b.txt").exists()


@pytest.mark.parametrize("name", ["gopls", "other"])
async def test_late_first_diagnostics_are_awaited(folder: Path, name: str) -> None:
    """A server that has just started publishes late on a busy machine.

    Servers named gopls publish nothing for unchanged diagnostics, so silence ends the wait for
    later ones.
    """
    async with code_calls(folder, stand_in(f"name={name}", "late=2.5")) as calls:
        assert len(await edit(calls, "def pear", "def ERROR")) == 1


async def test_silent_server_is_not_taken_for_one_without_errors(folder: Path) -> None:
    async with code_calls(folder, stand_in("name=gopls", "late=1000", wait_s=0.5)) as calls:
        result = await calls.run("write_file", path="b.txt", content="def ERROR\n")
        assert "Not checked for new errors" in result.for_model


async def test_errors_that_quote_a_renamed_symbol_are_not_new(folder: Path) -> None:
    (folder / "a.txt").write_text("def pear\npear ERROR\nspear\n", encoding="utf-8")
    async with code_calls(folder, stand_in()) as calls:
        result = await calls.ask("rename", "a.txt", symbol="pear", new_name="quince")
        assert errors_of(result) == []
        assert (folder / "a.txt").read_text(encoding="utf-8") == "def quince\nquince ERROR\nspear\n"
        result = await calls.ask("rename", "a.txt", symbol="quince", new_name="ERROR")
        assert len(errors_of(result)) == 2


async def test_failed_start_is_followed_by_a_pause(folder: Path) -> None:
    async with code_calls(folder, stand_in("fail")) as calls:
        with pytest.raises(ToolError, match=r"could not be started: .*I cannot go on"):
            await calls.ask("hover", "a.txt", line=1, symbol="apple")
        with pytest.raises(ToolError, match=r"not available: .* It is tried again in \d+ s\."):
            await calls.ask("hover", "a.txt", line=1, symbol="apple")


@pytest.mark.parametrize("behaviour", ["forks", "stubborn"])
async def test_no_process_survives_shutdown(folder: Path, behaviour: str) -> None:
    async with code_calls(folder, stand_in(behaviour)) as calls:
        await calls.ask("hover", "a.txt", line=1, symbol="apple")
        assert processes_in(folder)
    await all_ended(folder)


@pytest.mark.parametrize("behaviour", ["mute", "slow=60"])
async def test_no_process_survives_a_failed_start(folder: Path, behaviour: str) -> None:
    async with code_calls(folder, stand_in(behaviour, timeout_s=0.5)) as calls:
        with pytest.raises(ToolError, match=r"did not answer hover within 0\.5 s"):
            await calls.ask("hover", "a.txt", line=1, symbol="apple")
        # On a busy machine, the process may need longer than the call waits.
        async with asyncio.timeout(20):
            while not processes_in(folder):
                await asyncio.sleep(0.05)
    await all_ended(folder)


async def test_killed_server_restarts_with_the_text_on_disk(folder: Path) -> None:
    async with code_calls(folder, stand_in()) as calls:
        await calls.ask("hover", "a.txt", line=1, symbol="apple")
        program = Path(sys.executable).name
        (server,) = (
            process for process in processes_in(folder) if Path(process.split()[1]).name == program
        )
        os.kill(int(server.split()[0]), signal.SIGKILL)
        (folder / "a.txt").write_text("def pear\n", encoding="utf-8")
        assert (await ask_until_answered(calls, "hover", symbol="pear")).for_model == "word pear"
        assert await calls.lines("document_symbols", "a.txt") == ["1 function pear"]


async def test_huge_hover_is_shortened_and_escaped(folder: Path) -> None:
    async with code_calls(folder, stand_in("huge=textDocument/hover")) as calls:
        result = await calls.ask("hover", "a.txt", line=1, symbol="apple")
        assert len(result.for_model) < 5_000
        assert "\u202e" not in result.for_model


async def test_places_without_valid_numbers_are_skipped(folder: Path) -> None:
    async with code_calls(folder, stand_in("infinity")) as calls:
        for operation in ("definition", "references"):
            lines = await calls.lines(operation, "a.txt", line=1, symbol="apple")
            assert lines[0] == "Nothing was found."
        with pytest.raises(ToolError, match="a malformed edit"):
            await calls.ask("rename", "a.txt", line=1, symbol="apple", new_name="x")


async def test_server_requests_are_answered_but_edits_rejected(folder: Path) -> None:
    async with code_calls(folder, stand_in("asks")) as calls:
        async with asyncio.timeout(10):
            replies: dict[str, Any] = {}
            while len(replies) < 9:
                hover = await calls.ask("hover", "a.txt", line=1, symbol="apple")
                replies = json.loads(hover.for_model)
    assert replies["ask workspace/configuration"] == [{}, {}, {}]
    assert replies["ask workspace/applyEdit"]["applied"] is False
    assert replies["ask window/showMessageRequest"] is None
    assert replies["ask client/registerCapability"] is None
    assert replies["ask workspace/unheard"]["code"] == -32601
    assert replies["ask window/showDocument"]["code"] == -32601
    assert replies["ask client/unregisterCapability"]["code"] == -32603


async def test_next_server_replaces_one_that_fails_to_start(folder: Path) -> None:
    settings = stand_in("fail")
    (broken,) = settings.servers
    (other,) = stand_in().servers
    servers = (broken, replace(other, name="other"))
    async with code_calls(folder, replace(settings, servers=servers)) as calls:
        with pytest.raises(ToolError, match="stand-in could not be started"):
            await calls.ask("hover", "a.txt", line=1, symbol="apple")
        result = await calls.ask("hover", "a.txt", line=1, symbol="apple")
        assert result.for_model == "word apple"


async def test_cancelled_and_concurrent_calls_leave_the_server_consistent(folder: Path) -> None:
    """A turn is cancelled in the middle of a check, while another conversation continues."""
    names = [f"{char}.txt" for char in "bcdef"]
    for name in names:
        (folder / name).write_text("def start\n", encoding="utf-8")
    async with code_calls(folder, stand_in("pull", "slow=0.02")) as calls:
        await calls.ask("hover", "a.txt", line=1, symbol="apple")

        async def work(name: str) -> list[str]:
            args = {"path": name, "old_string": "start", "new_string": f"ERROR {name}"}
            return errors_of(await calls.run("edit_file", **args))

        stopped = asyncio.create_task(work("b.txt"))
        others = [asyncio.create_task(work(name)) for name in names[1:]]
        # The check of the first draft has begun when its document is open.
        async with asyncio.timeout(10):
            while folder / "b.txt" not in calls.session.documents:
                await asyncio.sleep(0)
        stopped.cancel()
        for name, errors in zip(names[1:], await asyncio.gather(*others), strict=True):
            assert errors == [f"{name}:1:5 error: an error: def ERROR {name} (E1)"]
        assert (folder / "b.txt").read_text(encoding="utf-8") == "def start\n"
        for name in names:
            await calls.ask("document_symbols", name)
            text = await calls.session.peer.request("$/text", {"uri": uri_of(folder / name)}, 5)
            assert text == (folder / name).read_text(encoding="utf-8")


async def test_most_frequent_language_is_used_without_a_path(folder: Path) -> None:
    (folder / "read.me").write_text("no code")
    async with code_calls(folder, stand_in()) as calls:
        # The error shows that the server was started.
        with pytest.raises(ToolError, match="This language server has no workspace_symbols"):
            await calls.ask("workspace_symbols", query="apple")
        assert [server.status.name for server in calls.services.servers.running] == ["stand-in"]


async def test_project_without_code_asks_for_a_path(folder: Path) -> None:
    (folder / "a.txt").unlink()
    (folder / "read.me").write_text("no code")
    async with code_calls(folder, stand_in()) as calls:
        with pytest.raises(ToolError, match="give the path of a file, which says which language"):
            await calls.ask("workspace_symbols", query="apple")


@pytest.mark.parametrize("part", [{"severity": []}, {"severity": {}}, {"message": {"value": 5}}])
def test_malformed_diagnostics_are_ignored(part: dict[str, Any]) -> None:
    """Malformed diagnostics must not make an edit fail."""
    place = {"line": 0, "character": 0}
    item = {"range": {"start": place, "end": place}, "message": "words", **part}
    (diagnostic,) = read_diagnostics([item], "text", "utf-8")
    assert diagnostic.severity == "error"
    assert diagnostic.message in ("words", "5")
