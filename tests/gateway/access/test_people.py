"""People who may write and their languages, in the process that receives messages and in others."""

import asyncio
import json
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from agent.i18n import current_locale
from gateway.core.channel_events import Batch
from gateway.core.messages import InboundMessage, Sender
from gateway.store.port import Transaction
from gateway.store.repositories.access import members
from gateway.store.repositories.access.members import Person
from tests import fork_server, postgres_server
from tests.gateway.access.other_process import OtherProcess
from tests.gateway.connection_store import ConnectionStore
from tests.gateway.databases import open_database
from tests.gateway.ops.audit.pairing import code_for
from tests.gateway.parts import Parts, accept_messages, chat_message, opened, running

BOB = Sender("8", "Bob")


def on_postgres(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Return the address of the database that the tests' owner opens in this folder."""
    monkeypatch.setenv("KORE_TEST_STORE", "postgres")
    return postgres_server.database_of(folder / "kore.db")


async def test_changes_by_another_process_take_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = on_postgres(monkeypatch, tmp_path)
    process = await fork_server.start_talking(
        ["python", "-m", "tests.gateway.access.other_process", address],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        stderr=2,
        limit=2**16,
    )

    async def facts() -> Any:
        process.stdin.write(b"refresh\n")
        return json.loads(await process.stdout.readline())

    async with running(tmp_path, ["Hello."] * 9, allow=()) as parts:
        nobody = {"owner": None, "people": [], "language": current_locale(), "names": ["-1"]}
        assert await facts() == nobody
        await parts.service.approve_pairing(await code_for(parts, "7"))
        await parts.service.approve_pairing(await code_for(parts, "8"))
        assert await facts() == {**nobody, "owner": "chat:7", "people": ["7", "8"]}
        await say(parts, chat_message("/language zh-Hans", "8", sender=BOB), "简体中文")
        assert (await facts())["language"] == "zh-Hans"
        await say(parts, chat_message("/language auto", "8", sender=BOB), "English")
        assert (await facts())["language"] == current_locale()
        await parts.service.revoke_pairing("chat:8")
        assert (await facts())["people"] == ["7"]
        await parts.service.revoke_pairing("chat:7")
        await parts.bus.accept("chat", "bot", Batch((), moves=(("-1", "-1001"),)))
        assert await facts() == {**nobody, "names": ["-1001", "-1"]}
    process.stdin.close()
    assert await process.wait() == 0


async def say(parts: Parts, message: InboundMessage, answer: str) -> None:
    """Send the message and wait until a new text in its chat contains the answer."""

    def count() -> int:
        return sum(answer in text for text in parts.platform.texts(message.chat_id))

    before = count()
    await accept_messages(parts, message)
    await parts.platform.until(lambda: count() > before)


class HoldingStore(ConnectionStore):
    """Store that withholds the result of its first transaction until released."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.has_read, self.may_go_on = threading.Event(), threading.Event()

    def _run(self, work: Any) -> Any:
        process = super()._run(work)
        if not self.has_read.is_set():
            self.has_read.set()
            assert self.may_go_on.wait(30)
        return process


async def test_outdated_refresh_does_not_restore_a_revoked_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = on_postgres(monkeypatch, tmp_path)
    database, theirs = open_database(tmp_path / "kore.db"), HoldingStore(address)

    def let_in(tx: Transaction) -> None:
        members.add_member(
            tx, Person("chat", "bot", "8", "Bob"), owner=False, approved_by="cli:0", now=1
        )

    await database.transact(let_in)
    other = OtherProcess(theirs)
    first = asyncio.ensure_future(other.people.refresh())
    await asyncio.to_thread(theirs.has_read.wait)
    await database.transact(members.remove_member, "chat", "8", 9)
    second = asyncio.ensure_future(other.people.refresh())
    # The second refresh gets as far as it can while the first is blocked.
    await database.transact(members.members)
    theirs.may_go_on.set()
    await asyncio.gather(first, second)
    assert other.facts()["people"] == []
    theirs.close()
    await database.close()


class Hook:
    """Callback that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1

    async def calls_of(self, work: Coroutine[Any, Any, object]) -> int:
        before = self.calls
        await work
        return self.calls - before


async def test_hook_runs_once_for_each_change_of_people(tmp_path: Path) -> None:
    hook = Hook()
    more: dict[str, Any] = {"owner": "chat:7", "allow": (), "on_people_changed": hook}
    async with running(tmp_path, ["Hello."] * 9, **more) as parts:
        code, other = [await code_for(parts, person) for person in ("8", "9")]
        assert hook.calls == 0
        assert await hook.calls_of(parts.service.approve_pairing(code)) == 1
        assert (
            await hook.calls_of(say(parts, chat_message(f"/pair {other}", "7"), " is approved."))
            == 1
        )
        assert (
            await hook.calls_of(say(parts, chat_message("/pair ABCD-EFGH", "7"), "code is wrong"))
            == 0
        )
        words = chat_message("/language zh-Hans", "8", sender=BOB)
        assert await hook.calls_of(say(parts, words, "简体中文")) == 1
        words = chat_message("/language", "8", sender=BOB)
        assert await hook.calls_of(say(parts, words, "简体中文")) == 0
        assert await hook.calls_of(parts.service.revoke_pairing("chat:8")) == 1
        move = Batch((), moves=(("-1", "-1001"),))
        assert await hook.calls_of(parts.bus.accept("chat", "bot", move)) == 1
        assert await hook.calls_of(parts.app.user_data().delete("chat:9", copies=False)) == 1


async def test_hook_runs_for_an_invitation_and_a_new_language(tmp_path: Path) -> None:
    hook = Hook()
    async with opened(tmp_path, ["Hello."], allow=(), on_people_changed=hook) as parts:
        code = await parts.service.invite_owner("chat", "bot")
        start = chat_message(f"/start {code}", "8", sender=BOB)
        assert await hook.calls_of(accept_messages(parts, start)) == 1
        assert parts.app.access.owner_id == "chat:8"
        words, more = [chat_message("hi", "8", sender=BOB, language="zh-Hans") for _ in range(2)]
        assert await hook.calls_of(accept_messages(parts, words)) == 1
        assert await hook.calls_of(accept_messages(parts, more)) == 0


async def test_language_of_a_deleted_person_is_removed(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."]) as parts:
        await say(parts, chat_message("/language zh-Hans", "8", sender=BOB), "简体中文")
        assert parts.app.languages.of_person("chat:8") == "zh-Hans"
        await parts.app.user_data().delete("chat:8", copies=False)
        assert parts.app.languages.of_person("chat:8") == current_locale()
