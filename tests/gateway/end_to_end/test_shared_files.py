"""Two machines in succession, with a shared database and a shared `store.files`."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import postgres_server
from tests.fakes.bot_api import BotApi
from tests.fakes.faults import hang
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.fakes.s3 import SECRET_KEY, S3Server, s3_server
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess
from tests.gateway.end_to_end.received_files import inbox, last_user_message, png
from tests.gateway.end_to_end.sent_files import files, put, sends


@dataclass
class SharedPlace:
    """Value of `store.files`, and the environment that a process needs to access it."""

    address: str
    server: S3Server | None = None
    environ: dict[str, str] = field(default_factory=dict)

    def take_away(self) -> None:
        if self.server is not None:
            self.server.stop()
        else:
            Path(self.address).rename(f"{self.address}-gone")

    def bring_back(self) -> None:
        if self.server is not None:
            self.server.start()
        else:
            Path(f"{self.address}-gone").rename(self.address)

    def objects(self, area: str) -> list[str]:
        if self.server is not None:
            return [key for key in self.server.objects if f"/{area}/" in key]
        return [str(path) for path in Path(self.address, area).rglob("*") if path.is_file()]


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SharedPlace]:
    if request.param == "folder":
        (tmp_path / "shared").mkdir()
        yield SharedPlace(str(tmp_path / "shared"))
        return
    pytest.importorskip("obstore", reason="obstore is not installed")
    with s3_server() as server:
        yield SharedPlace(server.address, server, server.environ)


@dataclass
class Machines:
    first: GatewayProcess
    second: GatewayProcess


@pytest.fixture
async def machines(tmp_path: Path, place: SharedPlace) -> AsyncIterator[Machines]:
    """Yield two machines, each with its own home and workspace."""
    store = {"url": postgres_server.create_database(), "files": place.address}
    async with BotApi() as api, ModelServer(api_key=KEY) as model:
        machines_made = []
        for name in ("first", "second"):
            machine = tmp_path / name
            machine.mkdir()
            sections = {"store": store}
            machines_made.append(
                GatewayProcess(machine, api, model, sections, environ=place.environ)
            )
        yield Machines(*machines_made)
        for item in machines_made:
            if item.runs:
                await item.kill()
            item.check_clean()
            assert SECRET_KEY not in item.log_text()


def share_workspace(machines: Machines, folder: Path) -> Path:
    """Share a workspace between the machines, because undo needs the files themselves."""
    workspace = folder / "workspace"
    workspace.mkdir()
    for item in (machines.first, machines.second):
        item.workspace = workspace
        store = {"store": _section(item, "store"), "agent": {"workspace": str(workspace)}}
        item.configure(store)
    return workspace


def _section(gateway: GatewayProcess, name: str) -> dict[str, object]:
    section: dict[str, object] = json.loads(gateway.config.read_text())[name]
    return section


async def append(gateway: GatewayProcess, text: str) -> None:
    call = Call("append_file", {"path": "a.txt", "content": text})
    gateway.model.script(ReplyScript(tool_calls=(call,)), "Done.")
    assert (await gateway.answers_to(OWNER, "append"))[-1] == "Done."


async def test_other_machine_undoes_and_redoes(
    machines: Machines, place: SharedPlace, tmp_path: Path
) -> None:
    file = share_workspace(machines, tmp_path) / "a.txt"
    first, second = machines.first, machines.second
    await first.start()
    await append(first, "one\n")
    await append(first, "two\n")
    await first.kill()
    assert len(place.objects("undo")) == 1
    await second.start()
    assert "+two" in (await second.answers_to(OWNER, "/diff last"))[-1]
    assert (await second.answers_to(OWNER, "/undo"))[-1] == "Restored a.txt."
    assert file.read_text() == "one\n"
    await second.stop()
    await first.start()
    assert (await first.answers_to(OWNER, "/redo"))[-1] == "Restored a.txt."
    assert file.read_text() == "one\ntwo\n"


async def test_damaged_content_is_reported_and_the_file_unchanged(
    machines: Machines, place: SharedPlace, tmp_path: Path
) -> None:
    file = share_workspace(machines, tmp_path) / "a.txt"
    await machines.first.start()
    await append(machines.first, "one\n")
    await append(machines.first, "two\n")
    await machines.first.stop()
    (name,) = place.objects("undo")
    if place.server is not None:
        place.server.objects[name] = b"other", place.server.objects[name][1]
    else:
        Path(name).write_bytes(b"other")
    second = machines.second
    await second.start()
    answer = (await second.answers_to(OWNER, "/undo"))[-1]
    assert answer.startswith("Skipped a.txt")
    assert file.read_text() == "one\ntwo\n"
    assert "is damaged, so it is not used" in second.log_text()


async def test_unavailable_store_is_reported(
    machines: Machines, place: SharedPlace, tmp_path: Path
) -> None:
    file = share_workspace(machines, tmp_path) / "a.txt"
    first, second = machines.first, machines.second
    await first.start()
    await append(first, "one\n")
    await append(first, "two\n")
    await first.stop()
    await second.start()
    place.take_away()
    answer = (await second.answers_to(OWNER, "/undo"))[-1]
    assert "cannot be stored in or read from" in answer
    second.model.script(sends("a.txt"), "It did not work.")
    assert (await second.answers_to(OWNER, "send it"))[-1] == "It did not work."
    assert "The file cannot be sent now" in last_user_message(second)
    await append(second, "three\n")
    assert file.read_text() == "one\ntwo\nthree\n"
    place.bring_back()
    assert (await second.answers_to(OWNER, "/undo 2"))[-1] == "Restored a.txt."
    assert file.read_text() == "one\n"


async def test_other_machine_sends_committed_messages(
    machines: Machines, place: SharedPlace
) -> None:
    first, second = machines.first, machines.second
    await first.start()
    data = bytes(range(256)) * 5000
    name = put(first, "a.bin", data)
    first.api.fail("sendDocument", hang)
    first.model.script(sends(name), "Sent.")
    await first.api.user_says(7, "send it")
    await first.until(lambda: "sendDocument" in first.api.calls)
    await first.kill()
    assert len(place.objects("outgoing")) == 1
    await second.start()
    await second.idle()
    (sent,) = files(second, 7)
    assert [(file.name, file.data) for file in sent.files] == [(name, data)]
    assert place.objects("outgoing") == []
    assert list((second.home / "outgoing").iterdir()) == []


async def test_missing_file_is_reported_and_later_messages_are_sent(
    machines: Machines, place: SharedPlace
) -> None:
    first, second = machines.first, machines.second
    await first.start()
    first.api.fail("sendDocument", hang)
    first.model.script(sends(put(first, "a.bin", b"content")), "Sent.")
    await first.api.user_says(7, "send it")
    await first.until(lambda: "sendDocument" in first.api.calls)
    await first.kill()
    (name,) = place.objects("outgoing")
    if place.server is not None:
        del place.server.objects[name]
    else:
        Path(name).unlink()
    await second.start()
    await second.idle()
    assert files(second, 7) == []
    assert any("Could not be sent: a.bin" in answer for answer in second.api.answers(7))
    assert "a file is not in" in second.log_text()


async def test_other_machine_reads_received_files(machines: Machines, place: SharedPlace) -> None:
    first, second = machines.first, machines.second
    await first.start()
    first.model.latency_s = 60.0
    await first.api.user_sends(OWNER, "photo", png(3), caption="what is this?")
    await first.until(lambda: first.model.requests)
    await first.kill()
    (received,) = (first.workspace / "inbox").glob("photo*")
    assert len(place.objects("inbox")) == 1
    first.model.latency_s = 0.0
    await second.start()
    await second.until(lambda: second.api.answers(OWNER))
    copy = second.workspace / "inbox" / received.name
    assert copy.read_bytes() == png(3)
    assert copy.stat().st_mode & 0o077 == 0
    assert "data:image/png;base64," in last_user_message(second)
    copy.unlink()
    await second.answers_to(OWNER, "and now?")
    assert copy.read_bytes() == png(3)


async def test_deleting_a_person_deletes_their_files(
    machines: Machines, place: SharedPlace
) -> None:
    first = machines.first
    await first.start()
    await first.api.user_sends(8, "document", b"theirs", name="theirs.txt", caption="read")
    await first.api.user_sends(9, "document", b"another's", name="a.txt", caption="read")
    await first.idle()
    assert len(inbox(first, 8)) == 1
    assert len(place.objects("inbox")) == 2
    ran = await first.kore("user", "delete", "telegram:8", "--yes")
    assert ran.code == 0, ran.err
    assert len(place.objects("inbox")) == 1
    assert inbox(first, 8) == []
    assert len(inbox(first, 9)) == 1


async def test_key_rotation_leaves_no_object_of_the_old_key(
    machines: Machines, place: SharedPlace, tmp_path: Path
) -> None:
    keys = {f"KORE_TEST_KEY_{n}": str(n) * 64 for n in (1, 2)}
    place.environ.update(keys)
    file = share_workspace(machines, tmp_path) / "a.txt"
    for item in (machines.first, machines.second):
        store = {**_section(item, "store"), "encryption_key_env": "KORE_TEST_KEY_1"}
        item.configure({"store": store, "agent": _section(item, "agent")})
    first, second = machines.first, machines.second
    await first.start()
    await append(first, "one\n")
    await append(first, "two\n")
    first.api.fail("sendDocument", hang)
    first.model.script(sends("a.txt"), "Sent.")
    await first.api.user_says(OWNER, "send it")
    await first.until(lambda: "sendDocument" in first.api.calls)
    await first.kill()
    refused = await first.kore("store", "rekey", "--to", "KORE_TEST_KEY_2")
    assert refused.code == 1
    assert "wait to be sent" in refused.err
    await second.start()
    await second.idle()
    (sent,) = files(second, OWNER)
    assert sent.files[0].data == b"one\ntwo\n"
    assert (await second.answers_to(OWNER, "/undo"))[-1] == "Restored a.txt."
    assert file.read_text() == "one\n"
    await second.stop()
    assert place.objects("undo")
    ran = await second.kore("store", "rekey", "--to", "KORE_TEST_KEY_2")
    assert ran.code == 0, ran.err
    assert place.objects("undo") == []


async def test_doctor_checks_the_shared_store(machines: Machines, place: SharedPlace) -> None:
    first = machines.first
    ran = await first.kore("doctor")
    (line,) = [item for item in ran.out.splitlines() if "shared files" in item]
    assert line.startswith("ok")
    assert "written and read" in line
    assert place.objects("check") == []
    place.take_away()
    ran = await first.kore("doctor")
    assert ran.code == 1
    lines = ran.out.splitlines()
    (at,) = [n for n, result in enumerate(lines) if "shared files" in result]
    assert lines[at].startswith("FAIL")
    assert "store.files" in lines[at + 1]
