"""Verbs that query the process that owns the data, run as programs next to a listening owner."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.types import assistant, user
from gateway.control.server import ControlServer
from tests.fakes.memory_service import MemoryService
from tests.gateway.cli.kore import kore


class Place:
    """Home with a single session and a listening owner."""

    def __init__(self, home: Path, service: MemoryService, session: str) -> None:
        self.home, self.service, self.session = home, service, session

    async def kore(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(kore, *words, home=self.home)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    async with MemoryService() as service, ControlServer(service, home / "kore.sock"):
        session = await service.bind_session("cli:local:主", None)
        service.sessions_by_id[session].messages += [user("你好\x1b[2J"), assistant("hello")]
        yield Place(home, service, session)


async def test_sessions_are_listed_in_columns(place: Place) -> None:
    other = await place.service.bind_session("telegram:main:5", None)
    head, *rows = (await place.kore("sessions", "list")).stdout.splitlines()
    assert head.split() == ["id", "status", "messages", "last", "active", "where", "folder", "name"]
    assert {row.split()[0] for row in rows} == {place.session, other}
    assert {"telegram:main:5", "cli:local:主"} <= {row.split()[5] for row in rows}
    # A one-shot run never returns to its lane, so the lane is not listed.
    await place.service.bind_session("cli:local:once-12345678", place.session)
    assert "once-" not in (await place.kore("sessions", "list")).stdout
    listed = json.loads((await place.kore("sessions", "list", "--json")).stdout)
    assert {info["id"]: info["messages"] for info in listed} == {place.session: 2, other: 0}


async def test_session_is_shown_without_control_characters(place: Place) -> None:
    output = (await place.kore("sessions", "show", place.session)).stdout
    assert "你好\\u{1b}[2J" in output
    assert "hello" in output
    assert "\x1b" not in output


async def test_export_starts_with_session_metadata(place: Place) -> None:
    lines = (await place.kore("sessions", "export", place.session)).stdout.splitlines()
    meta, *messages = [json.loads(line) for line in lines]
    assert (meta["_type"], meta["id"]) == ("meta", place.session)
    assert [message["role"] for message in messages] == ["user", "assistant"]


async def test_unknown_session_is_reported_in_one_sentence(place: Place) -> None:
    result = await place.kore("sessions", "show", "19990101")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("kore: ")
    assert "Traceback" not in result.stderr


async def test_status_describes_the_running_process(place: Place) -> None:
    facts = json.loads((await place.kore("status", "--json")).stdout)
    assert (facts["running"], facts["model"]) == (True, "offline/echo")
    output = (await place.kore("status")).stdout
    assert "offline/echo" in output
    assert "1:02:03" in output
    assert " 19" in next(line for line in output.splitlines() if "last poll" in line)
    assert "None" not in output
    assert "_" not in "".join(line.split("  ")[0] for line in output.splitlines())


async def test_status_without_an_owner_is_reported(tmp_path: Path) -> None:
    result = await asyncio.to_thread(kore, "status", "--json", home=tmp_path / "h")
    assert (result.returncode, json.loads(result.stdout)["running"]) == (0, False)
    result = await asyncio.to_thread(kore, "status", home=tmp_path / "h")
    assert result.stdout.splitlines()[1].split() == ["running", "no"]
    assert "start it with `kore gateway`" in result.stderr


def test_missing_sessions_are_reported(tmp_path: Path) -> None:
    result = kore("sessions", "list", home=tmp_path / "h")
    assert (result.returncode, result.stdout) == (0, "")
    assert "no sessions yet" in result.stderr


async def test_replay_prints_the_answer_of_the_owner(place: Place) -> None:
    result = await place.kore("replay", "9")
    assert result.returncode == 1
    assert result.stderr == "kore: no message 9\n      kore status lists them\n"


async def test_backup_never_overwrites(place: Place, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    result = await place.kore("backup", target)
    assert result.returncode == 1
    assert "exists already" in result.stderr
    assert target.read_text() == "precious"
