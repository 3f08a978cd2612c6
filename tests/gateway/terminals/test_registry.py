"""Terminals with real shells, without a sandbox and in bubblewrap."""

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.errors import KoreError
from agent.security.sandbox.bubblewrap import FEATURES, Bubblewrap
from agent.settings import ToolSettings
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.trail import entries
from gateway.server.remote_service import opened_service
from gateway.terminals.registry import TerminalLimits, TerminalMode, TerminalRegistry
from gateway.terminals.terminal import MAX_BUFFER_CHARS, Terminal, TerminalSize
from tests.fakes.model import ModelServer
from tests.gateway.server.processes import KEY, Machine, free_port

BWRAP = shutil.which("bwrap")
needs_bwrap = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
BOTH = [pytest.param("sandbox", marks=needs_bwrap), "full"]


@pytest.fixture(autouse=True)
def _no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the shell profile of this machine."""
    monkeypatch.setenv("HOME", str(tmp_path))


@asynccontextmanager
async def open_registry(
    folder: Path, mode: TerminalMode, limits: TerminalLimits | None = None
) -> AsyncIterator[TerminalRegistry]:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    sandbox = Bubblewrap(BWRAP, frozenset(FEATURES)) if BWRAP else None
    tools = ToolSettings(sandbox=sandbox)
    audit = AuditLog(folder / "audit")
    registry = TerminalRegistry(
        mode, lambda: tools, lambda _: workspace, workspace / "MEMORY.md", audit, limits
    )
    running = asyncio.create_task(registry.run())
    # Terminals can be opened after the first step of `run`.
    await asyncio.sleep(0)
    try:
        yield registry
    finally:
        running.cancel()
        await asyncio.wait({running})
        await audit.close()


async def read_until(items: AsyncIterator[Any], words: str) -> str:
    """Return all output up to and including `words`."""
    text = ""
    async with asyncio.timeout(30):
        while words not in text:
            item = await anext(items)
            text += item.get("screen", "") + item.get("output", "")
            assert "exit_code" not in item, text
    return text


@pytest.mark.parametrize("mode", BOTH)
async def test_shell_has_a_terminal_of_its_size(tmp_path: Path, mode: TerminalMode) -> None:
    async with open_registry(tmp_path, mode) as terminals:
        id = await terminals.open(None, TerminalSize(100, 30))
        async with terminals.follow(id) as items:
            terminals.write(id, "stty size; tty -s && echo is-a-tty; echo $TERM | tr a-z A-Z\n")
            text = await read_until(items, "XTERM-256COLOR")
            assert "30 100" in text
            assert "\r\nis-a-tty" in text
            terminals.resize(id, TerminalSize(60, 20))
            terminals.write(id, "stty size; pwd\n")
            text = await read_until(items, f"\r\n{tmp_path / 'workspace'}\r\n")
            assert "20 60" in text
            # Job control works: a key interrupts the program, but not the shell.
            terminals.write(id, "PS1='pro''mpt> '; echo ready$((1 + 1)); cat\n")
            await read_until(items, "ready2")
            # Once as the terminal's echo and once from the program, which reads by then.
            terminals.write(id, "ping\n")
            await read_until(items, "ping\r\nping\r\n")
            terminals.write(id, "\x03")
            # The shell drops input typed before its next prompt.
            await read_until(items, "prompt> ")
            terminals.write(id, "echo on$((1 + 1))\n")
            await read_until(items, "on2")
            terminals.write(id, "exit 7\n")
            async with asyncio.timeout(30):
                last = [item async for item in items][-1]
            assert last == {"exit_code": 7}
        with pytest.raises(KoreError, match="has ended"):
            terminals.write(id, "x")


@needs_bwrap
async def test_sandbox_hides_files_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary-7")
    async with open_registry(tmp_path, "sandbox") as terminals:
        id = await terminals.open(None, TerminalSize())
        async with terminals.follow(id) as items:
            terminals.write(id, f"cat {tmp_path}/secret; echo done$((1 + 1))\n")
            assert "canary-7" not in await read_until(items, "done2")


async def test_secrets_of_the_environment_do_not_reach_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-8")
    monkeypatch.setenv("KORE_TOKEN", "canary-9")
    async with open_registry(tmp_path, "full") as terminals:
        id = await terminals.open(None, TerminalSize())
        async with terminals.follow(id) as items:
            terminals.write(id, "env; echo done$((1 + 1))\n")
            assert "canary" not in await read_until(items, "done2")


async def test_mode_off_opens_no_terminal(tmp_path: Path) -> None:
    async with open_registry(tmp_path, "off") as terminals:
        with pytest.raises(KoreError, match="switched off"):
            await terminals.open(None, TerminalSize())
        assert terminals.status()["terminals"] == []
    (entry,) = entries(tmp_path / "audit")
    assert (entry["tool"], entry["allowed"]) == ("terminal", False)


@pytest.mark.parametrize("mode", BOTH)
async def test_closing_kills_detached_processes(tmp_path: Path, mode: TerminalMode) -> None:
    """Includes processes in another session that ignore the terminal's hangup."""
    marker = f"{os.getpid()}.125"
    async with open_registry(tmp_path, mode) as terminals:
        id = await terminals.open(None, TerminalSize())
        async with terminals.follow(id) as items:
            terminals.write(
                id, f"(setsid nohup sleep {marker} &) ; sleep {marker} & echo on$((1 + 1))\n"
            )
            await read_until(items, "on2")
            async with asyncio.timeout(30):
                while len(find_processes(marker)) < 2:
                    await asyncio.sleep(0.02)
            await terminals.close(id)
        # The kernel ends a namespace a moment after its first process.
        async with asyncio.timeout(30):
            while find_processes(marker):
                await asyncio.sleep(0.02)
        assert terminals.status()["terminals"] == []
    opened, ended = entries(tmp_path / "audit")
    assert opened["reason"].startswith("opened by the owner")
    assert ended["reason"].startswith("ended")


def find_processes(marker: str) -> list[int]:
    """Return the processes that sleep for the marker's duration."""
    process_ids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", marker.encode()]:
            process_ids.append(int(name))
    return process_ids


async def test_terminal_without_a_follower_is_closed(tmp_path: Path) -> None:
    limits = TerminalLimits(running=2, unfollowed_s=0.3, look_s=0.05)
    async with open_registry(tmp_path, "full", limits) as terminals:
        followed = await terminals.open(None, TerminalSize())
        async with terminals.follow(followed) as items:
            assert "screen" in await anext(items)
            other = await terminals.open(None, TerminalSize())
            with pytest.raises(KoreError, match="2 terminals are open"):
                await terminals.open(None, TerminalSize())
            async with asyncio.timeout(30):
                while len(terminals.status()["terminals"]) == 2:
                    await asyncio.sleep(0.02)
            (left,) = terminals.status()["terminals"]
            assert (left["id"], left["exit_code"]) == (followed, None)
            with pytest.raises(KoreError, match="has ended"):
                terminals.write(other, "x")


async def test_idle_terminal_is_closed(tmp_path: Path) -> None:
    limits = TerminalLimits(idle_s=0.2, look_s=0.05)
    async with open_registry(tmp_path, "full", limits) as terminals:
        id = await terminals.open(None, TerminalSize())
        async with terminals.follow(id) as items, asyncio.timeout(30):
            assert [item async for item in items][-1]["exit_code"] != 0


async def test_returning_follower_gets_the_screen(tmp_path: Path) -> None:
    async with open_registry(tmp_path, "full") as terminals:
        id = await terminals.open(None, TerminalSize(90, 25))
        async with terminals.follow(id) as items:
            terminals.write(id, "echo on$((1 + 1))\n")
            await read_until(items, "on2")
        async with terminals.follow(id) as items:
            screen = await anext(items)
            assert "on2" in screen["screen"]
            assert (screen["columns"], screen["rows"]) == (90, 25)


async def test_output_buffer_is_bounded_and_a_slow_follower_catches_up(tmp_path: Path) -> None:
    async with open_registry(tmp_path, "full") as terminals:
        id = await terminals.open(None, TerminalSize())
        async with terminals.follow(id) as slow, terminals.follow(id) as quick:
            assert "screen" in await anext(slow)
            terminals.write(id, "seq 200000; echo done$((1 + 1))\n")
            await read_until(quick, "done2")
            again = await anext(slow)
            assert "199999" in again["screen"]
            assert len(again["screen"]) < MAX_BUFFER_CHARS + 20_000


async def test_program_waits_for_its_only_follower(tmp_path: Path) -> None:
    """Every character reaches the follower in order."""
    async with open_registry(tmp_path, "full") as terminals:
        id = await terminals.open(None, TerminalSize())
        async with terminals.follow(id) as items:
            terminals.write(id, "seq 100000 300000; echo done$((1 + 1))\n")
            text = await read_until(items, "done2")
            numbers = re.findall(r"(\d{6})\r\n", text)
            assert numbers == [str(n) for n in range(100_000, 300_001)]


async def test_input_is_limited_if_the_program_does_not_read(tmp_path: Path) -> None:
    async with open_registry(tmp_path, "full") as terminals:
        id = await terminals.open(None, TerminalSize())
        terminals.write(id, "x" * 700_000)
        with pytest.raises(KoreError, match="does not read"):
            terminals.write(id, "x" * 700_000)


async def test_no_shell_survives_a_killed_kore(tmp_path: Path) -> None:
    """Includes processes in another session, after kill -9."""
    marker = f"{os.getpid()}.25"
    async with ModelServer(api_key=KEY) as model:
        machine = Machine(tmp_path, model)
        file = machine.home / "config.json"
        config = {**json.loads(file.read_text()), "server": {"terminal": "full"}}
        file.write_text(json.dumps(config))
        async with machine.serving("--listen-addr", f"127.0.0.1:{free_port()}") as process:
            access = json.loads((machine.home / "server.json").read_text())
            async with opened_service(access["address"], "") as service:
                id = await service.open_terminal()
                line = f"(setsid nohup sleep {marker} &); sleep {marker}\n"
                await service.write_terminal(id, line)
                async with asyncio.timeout(30):
                    while len(find_processes(marker)) < 2:
                        await asyncio.sleep(0.02)
                process.send_signal(signal.SIGKILL)
                await process.wait()
        async with asyncio.timeout(30):
            while find_processes(marker):
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("size", [(0, 24), (80, 0), (-1, 5), (100_000, 24)])
def test_invalid_size_is_rejected(size: tuple[int, int]) -> None:
    with pytest.raises(KoreError, match="expected"):
        TerminalSize(*size)


async def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    terminal = Terminal("a", tmp_path, TerminalSize())
    os.write(terminal.tty, b"\xff\xe4\xb8")
    os.write(terminal.tty, b"\xad")
    terminal.close(0)
    items = [item async for item in terminal.follow()]
    assert items[0]["screen"] == "\ufffd中"
    assert items[1:] == [{"exit_code": 0}]
