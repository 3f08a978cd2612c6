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
    assert head.split() == ["id", "status", "messages", "last", "active", "where", "name"]
    assert {row.split()[0] for row in rows} == {place.session, other}
    assert {"telegram:main:5", "cli:local:主"} <= {row.split()[5] for row in rows}
    # A one-shot run never returns to its lane, so the lane is not listed.
    await place.service.bind_session("cli:local:once-12345678", place.session)
    assert "once-" not in (await place.kore("sessions", "list")).stdout
    listed = json.loads((await place.kore("sessions", "list", "--json")).stdout)
    assert {info["id"]: info["messages"] for info in listed} == {place.session: 2, other: 0}


async def test_a_session_is_shown_without_what_would_steer_the_terminal(place: Place) -> None:
    shown = (await place.kore("sessions", "show", place.session)).stdout
    assert "你好\\u{1b}[2J" in shown
    assert "hello" in shown
    assert "\x1b" not in shown


async def test_an_export_starts_with_the_sessions_facts(place: Place) -> None:
    lines = (await place.kore("sessions", "export", place.session)).stdout.splitlines()
    meta, *messages = [json.loads(line) for line in lines]
    assert (meta["_type"], meta["id"]) == ("meta", place.session)
    assert [message["role"] for message in messages] == ["user", "assistant"]


async def test_an_unknown_session_is_one_sentence(place: Place) -> None:
    done = await place.kore("sessions", "show", "19990101")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kore: ")
    assert "Traceback" not in done.stderr


async def test_status_tells_what_runs(place: Place) -> None:
    facts = json.loads((await place.kore("status", "--json")).stdout)
    assert (facts["running"], facts["model"]) == (True, "offline/echo")
    shown = (await place.kore("status")).stdout
    assert "offline/echo" in shown
    assert "1:02:03" in shown
    assert " 19" in next(line for line in shown.splitlines() if "last poll" in line)
    assert "None" not in shown
    assert "_" not in "".join(line.split("  ")[0] for line in shown.splitlines())


async def test_status_without_an_owner_says_so(tmp_path: Path) -> None:
    done = await asyncio.to_thread(kore, "status", "--json", home=tmp_path / "h")
    assert (done.returncode, json.loads(done.stdout)["running"]) == (0, False)
    done = await asyncio.to_thread(kore, "status", home=tmp_path / "h")
    assert done.stdout.splitlines()[1].split() == ["running", "no"]
    assert "start it with `kore gateway`" in done.stderr


def test_no_sessions_are_a_sentence_and_an_empty_answer(tmp_path: Path) -> None:
    done = kore("sessions", "list", home=tmp_path / "h")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no sessions yet" in done.stderr


async def test_replay_passes_on_what_the_owner_says(place: Place) -> None:
    done = await place.kore("replay", "9")
    assert done.returncode == 1
    assert done.stderr == "kore: no message 9\n      kore status lists them\n"


async def test_a_backup_never_overwrites(place: Place, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    done = await place.kore("backup", target)
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert target.read_text() == "precious"
