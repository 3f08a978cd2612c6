"""Contract of `gateway.control.service.Service`, tested on every implementation.

`@covers` names the calls that a test makes; a call of the table without a test fails.
"""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from agent.errors import KoreError
from agent.events import ApprovalAnswered, ApprovalAsked, Done, TextDelta
from agent.security.taint.file_marks import is_marked
from agent.types import user
from gateway.app import open_app
from gateway.config import load_settings
from gateway.control.calls import call_names
from gateway.control.client import ControlClient
from gateway.control.server import ControlServer
from gateway.control.service import Service
from gateway.core.errors import HandedOver
from gateway.core.event_levels import level_of
from gateway.core.messages import InboundMessage, MessageOptions, Sender, route_of_session
from gateway.core.records import (
    ApiRequest,
    Delivered,
    MessageStored,
    ModelCall,
    NewJob,
    SessionChanged,
    SessionIdle,
    SessionNews,
    SessionServer,
    TurnStored,
    WatchEvent,
)
from gateway.core.session_folder import SessionFolder
from gateway.plugins.market import make_index
from gateway.runtime.paths import DataDir
from gateway.server.listener import ListenAddress, ServerOptions, serve
from gateway.server.remote_service import opened_service
from gateway.server.tokens import TokenFile
from tests.fakes.memory_service import MemoryService

DEADLINE_S = 10
_SET_UP_S = 60
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJg"
    "gg=="
)
T = TypeVar("T", bound=Callable[..., object])
COVERED: set[str] = set()


def covers(*calls: str) -> Callable[[T], T]:
    """Mark a test with the calls that it makes; the `service` fixture verifies them."""

    def mark(test: T) -> T:
        COVERED.update(calls)
        test.calls = calls  # type: ignore[attr-defined]
        return test

    return mark


class RecordingService:
    """Proxy that passes each call on to a service and records its name."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.calls: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.calls.add(name)
        return getattr(self.service, name)


def test_every_call_has_a_contract_test() -> None:
    assert set(call_names()) - COVERED == set()
    assert COVERED - set(call_names()) == set()


def message(chat_id: str, text: str) -> InboundMessage:
    sender = Sender("0", "ann")
    return InboundMessage("cli", "local", chat_id, sender, uuid.uuid4().hex, text, 1.5)


async def until_last(events: AsyncIterator[WatchEvent], event_id: str) -> list[WatchEvent]:
    seen: list[WatchEvent] = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in events:
            seen.append(event)
            if isinstance(event, Delivered) and event.last and event.event_id == event_id:
                return seen
    raise AssertionError("the stream of events ended before the answer")


_OVERRIDES = {"agent.model": "offline/echo", "server.terminal": "full"}


@asynccontextmanager
async def local_service(home: Path) -> AsyncIterator[Service]:
    """Yield the real service, with the offline model."""
    settings = load_settings(config=None, home=home, cwd=home, environ={}, overrides=_OVERRIDES)
    async with open_app(settings, DataDir(home), channels=False) as app:
        yield app.service


@asynccontextmanager
async def in_memory(_: Path) -> AsyncIterator[Service]:
    async with MemoryService() as service:
        yield service


WAYS = ("in-process", "over-socket", "over-tcp", "over-unix")
# Each transport serves both services with the same code, and the real service is slower to open.
# The WebSocket over a Unix socket differs from the one over TCP only in its address.
ROUTES = [
    *((in_memory, way) for way in WAYS),
    *((local_service, way) for way in ("in-process", "over-socket")),
]
REAL_ROUTES = [(local_service, way) for way in ("in-process", "over-socket", "over-tcp")]


@asynccontextmanager
async def reached(way: str, owner: Service, folder: Path) -> AsyncIterator[Service]:
    """Yield the owner's service as another process reaches it."""
    async with AsyncExitStack() as stack:
        service = owner
        if way == "over-socket":
            path = folder / "contract.sock"
            await stack.enter_async_context(ControlServer(owner, path))
            # Both ends are in one process, which may have to import modules first.
            client = await ControlClient.connect(path, timeout_s=_SET_UP_S)
            assert client is not None
            service = client
        elif way != "in-process":
            tokens = TokenFile(folder / "tokens.json")
            path = folder / "server.sock"
            address = ListenAddress(port=0, path=path if way == "over-unix" else None)
            options = ServerOptions(address)
            access = await stack.enter_async_context(serve(owner, tokens, options))
            token = tokens.add("contract", ("admin",))
            service = await stack.enter_async_context(opened_service(access.address, token))
        yield service


@asynccontextmanager
async def recorded(request: pytest.FixtureRequest, service: Service) -> AsyncIterator[Service]:
    """Yield a recording service; at the end, check that the test made the calls it declares."""
    recording = RecordingService(service)
    yield cast("Service", recording)
    promised = set(getattr(request.function, "calls", ()))
    assert promised - recording.calls == set(), "@covers names calls that were not made"


@asynccontextmanager
async def routed(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Service]:
    """Yield the service on the route of the fixture's parameter."""
    make, way = request.param
    async with (
        make(folder / "home") as owner,
        reached(way, owner, folder) as service,
        recorded(request, service) as recording,
    ):
        yield recording


@pytest.fixture(params=ROUTES, ids=lambda route: f"{route[0].__name__}-{route[1]}")
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    async with routed(request, tmp_path) as service:
        yield service


@pytest.fixture(params=REAL_ROUTES, ids=lambda route: route[1])
async def real_service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    """Yield the service for calls that no screen of the terminal makes."""
    async with routed(request, tmp_path) as service:
        yield service


async def place(service: Service) -> tuple[str, str]:
    """Return a new console's chat id and a new session bound to it."""
    opened = await service.open_console(None, True)
    return opened.chat_id, await service.bind_session(f"cli:local:{opened.chat_id}", None)


@covers("submit", "watch", "open_console", "bind_session")
async def test_message_is_answered_on_its_lane(service: Service) -> None:
    chat_id, session = await place(service)
    sent = message(chat_id, "hello \u5b57 \U0001f600")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        seen = await until_last(events, sent.event_id)
    done = [event for event in seen if isinstance(event, Done)]
    final = "".join(event.text for event in seen if isinstance(event, Delivered))
    assert done[0].result.session_id == session
    assert final == done[0].result.text
    assert "\U0001f600" in final


@covers("conversation_status")
async def test_conversation_status_works_before_and_after_the_first_message(
    service: Service,
) -> None:
    nowhere = await service.conversation_status("cli:local:nobody")
    assert (nowhere["session"], nowhere["waiting"], nowhere["cost_usd"]) == (None, 0, None)
    chat_id, session = await place(service)
    result = await service.conversation_status(f"cli:local:{chat_id}")
    assert (result["session"], result["model"], result["mode"]) == (session, None, None)


async def test_deltas_add_up_to_the_answer(service: Service) -> None:
    chat_id, _ = await place(service)
    sent = message(chat_id, "one two three")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        seen = await until_last(events, sent.event_id)
    streamed = "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert streamed == next(event.text for event in seen if isinstance(event, Delivered))


async def test_status_of_a_session_is_read_before_anybody_writes_there(
    real_service: Service,
) -> None:
    session = await real_service.create_session()
    await real_service.choose_mode(session, "plan")
    status = await real_service.conversation_status(route_of_session(session).lane)
    assert status["mode"] == "plan"
    unknown = await real_service.conversation_status(route_of_session("2099").lane)
    assert unknown["session"] is None


@covers("turn_choices")
async def test_session_without_a_plan_offers_no_choices(service: Service) -> None:
    _, session = await place(service)
    assert list(await service.turn_choices(session)) == []


@covers("load_messages")
async def test_turn_is_stored_when_the_answer_is_delivered(service: Service) -> None:
    chat_id, session = await place(service)
    sent = message(chat_id, "remember this")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    stored = await service.load_messages(session)
    assert [m.role for m in stored] == ["user", "assistant"]
    assert stored[0].text == "remember this"


async def test_unwatched_answer_is_delivered_to_the_next_watcher(service: Service) -> None:
    chat_id, session = await place(service)
    first, second = message(chat_id, "first"), message(chat_id, "second")
    await service.submit(first)
    async with asyncio.timeout(DEADLINE_S):
        while len(await service.load_messages(session)) < 2:
            await asyncio.sleep(0.005)
    async with service.watch(first.session_key) as events:
        await service.submit(second)
        seen = await until_last(events, second.event_id)
    ids = [event.event_id for event in seen if isinstance(event, Delivered)]
    assert ids == [first.event_id, second.event_id]


async def test_deliveries_after_the_last_seen_one_are_replayed(
    service: Service,
) -> None:
    opened = await service.open_console(None, True)
    first, second = message(opened.chat_id, "first"), message(opened.chat_id, "second")
    lane = first.session_key
    async with service.watch(lane, None, opened.delivered) as events:
        await service.submit(first)
        seen = await until_last(events, first.event_id)
        await service.submit(second)
        seen += await until_last(events, second.event_id)
    delivered = [event for event in seen if isinstance(event, Delivered)]
    assert opened.delivered < delivered[0].seq < delivered[1].seq
    async with service.watch(lane, None, delivered[0].seq) as events:
        assert await until_last(events, second.event_id) == delivered[1:]
    async with service.watch(lane, None, opened.delivered) as events:
        assert await until_last(events, second.event_id) == delivered
    third = message(opened.chat_id, "third")
    async with service.watch(lane) as events:
        await service.submit(third)
        seen = await until_last(events, third.event_id)
    assert [e.event_id for e in seen if isinstance(e, Delivered)] == [third.event_id]


async def test_bound_lane_uses_its_session(service: Service) -> None:
    (_, first), (chat_id, second) = await place(service), await place(service)
    sent = message(chat_id, "over here")
    assert await service.bind_session(sent.session_key, first) == first
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    assert len(await service.load_messages(first)) == 2
    assert not await service.load_messages(second)


async def test_last_session_of_a_folder_is_found_behind_newer_ones(
    service: Service, tmp_path: Path
) -> None:
    folder = str(tmp_path.resolve())
    chat_id, session = await place(service)
    sent = replace(message(chat_id, "here"), options=MessageOptions(cwd=folder))
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    other_chat, other = await place(service)
    later = message(other_chat, "elsewhere")
    async with service.watch(later.session_key) as events:
        await service.submit(later)
        await until_last(events, later.event_id)
    assert await service.last_session(sent.principal) == other
    assert await service.last_session(sent.principal, folder) == session
    assert await service.last_session(sent.principal, f"{folder}/gone") is None


@covers("last_session", "bound_session", "preview_session")
async def test_last_session_reports_its_first_and_last_message(service: Service) -> None:
    chat_id, session = await place(service)
    sent = message(chat_id, "東京 first")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    assert await service.last_session(sent.principal) == session
    assert await service.last_session("cli:nobody") is None
    assert await service.bound_session(sent.session_key) == session
    assert await service.bound_session("cli:local:nowhere") is None
    preview = await service.preview_session(session[:-1], 1, 5)
    assert (preview.info.id, preview.info.messages) == (session, 2)
    assert [(said.role, said.text) for said in preview.beginning] == [("user", "東京 first")]
    assert [said.role for said in preview.end] == ["assistant"]
    with pytest.raises(KoreError, match="19990101_000000"):
        await service.preview_session("19990101_000000", 1, 1)


@covers("list_sessions")
async def test_sessions_are_listed_and_limited(service: Service) -> None:
    made = {(await place(service))[1] for _ in range(3)}
    listed = await service.list_sessions()
    assert {info.id for info in listed} == made
    assert len(await service.list_sessions(limit=2)) == 2
    assert {info.folder for info in listed} == {None}


async def test_sessions_of_a_folder_are_listed(service: Service) -> None:
    await place(service)
    chat_id, session = await place(service)
    sent = message(chat_id, "here")
    folder = SessionFolder("/a/folder", "/a/folder/part")
    sent = replace(sent, options=sent.options.in_folder(folder))
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    (info,) = await service.list_sessions(folder="/a/folder")
    assert (info.id, info.folder) == (session, folder)
    assert await service.list_sessions(folder="/another") == []


@covers("list_session_folders", "create_session")
async def test_session_is_created_in_a_known_folder(real_service: Service, tmp_path: Path) -> None:
    used = tmp_path.resolve() / "used"
    used.mkdir()
    folder = SessionFolder(str(used))
    chat_id, _ = await place(real_service)
    sent = replace(message(chat_id, "here"), options=MessageOptions().in_folder(folder))
    async with real_service.watch(sent.session_key) as events:
        await real_service.submit(sent)
        await until_last(events, sent.event_id)
    assert await real_service.list_session_folders() == [folder]
    session = await real_service.create_session(folder)
    assert (await real_service.preview_session(session, 0, 0)).info.folder == folder
    with pytest.raises(KoreError, match="is not a folder for sessions"):
        await real_service.create_session(SessionFolder("/etc"))
    used.rmdir()
    assert await real_service.list_session_folders() == []


@covers("search_messages", "fork_session", "rename_session", "set_session_status")
async def test_conversation_is_searched_forked_named_and_closed(service: Service) -> None:
    chat_id, session = await place(service)
    sent = message(chat_id, "a canary flew by")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    (hit, *_) = await service.search_messages("canary")
    assert hit.session == session
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["canary"]
    fork = await service.fork_session(session)
    assert await service.load_messages(fork) == await service.load_messages(session)
    begun = await service.fork_session(session, 0)
    assert await service.load_messages(begun) == []
    for last in (-1, 3):
        with pytest.raises(KoreError, match="cannot be cut"):
            await service.fork_session(session, last)
    assert "plan" in await service.rename_session(fork, "plan")
    assert await service.set_session_status(session, "closed")
    listed = {info.id: info for info in await service.list_sessions()}
    assert (listed[fork].name, listed[session].status) == ("plan", "closed")
    for act in (
        service.fork_session("nope"),
        service.rename_session("nope", "x"),
        service.set_session_status("n", "open"),
    ):
        with pytest.raises(KoreError, match="no session"):
            await act


@covers("export_session", "import_session")
async def test_session_is_exported_as_lines_and_imported(service: Service, tmp_path: Path) -> None:
    chat_id, session = await place(service)
    sent = message(chat_id, "a canary \u5b57")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(await service.export_session(session)) + "\n")
    copy = await service.import_session(file)
    results = [(m.role, m.text) for m in await service.load_messages(copy)]
    assert results == [(m.role, m.text) for m in await service.load_messages(session)]
    assert len(results) == 2
    with pytest.raises(KoreError, match="absent"):
        await service.import_session(tmp_path / "absent.jsonl")


async def test_unknown_session_is_an_error_with_a_message(service: Service) -> None:
    with pytest.raises(KoreError, match="19990101_000000"):
        await service.load_messages("19990101_000000")
    with pytest.raises(KoreError, match="19990101_000000"):
        await service.open_console("19990101_000000", False)


async def test_stop_reports_a_running_turn(service: Service) -> None:
    chat_id, _ = await place(service)
    assert not await service.stop_turn(f"cli:local:{chat_id}")


async def test_unknown_approval_is_rejected(service: Service) -> None:
    assert not await service.answer_approval("no-such-nonce", "once", "cli:0")


@covers("status")
async def test_status_describes_the_process(service: Service) -> None:
    status = await service.status()
    assert isinstance(status["pid"], int)
    assert {"model", "model_hint", "workspace"} <= set(status)


@covers("backup")
async def test_backup_reports_the_size_of_its_file(service: Service, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    assert await service.backup(target) == target.stat().st_size


@covers("replay")
async def test_replay_of_an_unknown_row_is_an_error(service: Service) -> None:
    with pytest.raises(KoreError):
        await service.replay(999_999)


ASKS = '!tool exec {"command": "make one"}'


async def asked_on(events: AsyncIterator[WatchEvent]) -> ApprovalAsked:
    async with asyncio.timeout(DEADLINE_S):
        async for event in events:
            if isinstance(event, ApprovalAsked):
                return event
    raise AssertionError("the stream of events ended before a question")


@covers("stop_turn")
async def test_stopped_turn_ends_as_cancelled(service: Service) -> None:
    chat_id, _ = await place(service)
    sent = message(chat_id, ASKS)
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await asked_on(events)
        assert await service.stop_turn(sent.session_key)
        seen = await until_last(events, sent.event_id)
    assert [e.result.stopped for e in seen if isinstance(e, Done)] == ["cancelled"]


@covers("list_approvals", "answer_approval")
async def test_approval_is_answered_once(service: Service) -> None:
    chat_id, _ = await place(service)
    sent = message(chat_id, ASKS)
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        approval = await asked_on(events)
        assert approval.request.tool == "exec"
        (question,) = await service.list_approvals()
        assert (question.nonce, question.lane) == (approval.nonce, sent.session_key)
        assert question.route == sent.route
        assert await service.answer_approval(approval.nonce, "deny", "cli:0")
        assert not await service.answer_approval(approval.nonce, "once", "cli:0")
        seen = await until_last(events, sent.event_id)
    assert [e.answer for e in seen if isinstance(e, ApprovalAnswered)] == ["deny"]
    assert not await service.list_approvals()


@covers("hand_over")
async def test_handover_succeeds_or_explains_its_rejection(service: Service) -> None:
    lanes = await service.hand_over("kore gateway")
    if lanes is None:
        return  # the gateway keeps the data
    assert list(lanes) == []
    with pytest.raises(HandedOver, match="kore gateway"):
        async with service.watch("cli:local:main") as events:
            await until_last(events, "none")


@covers("queue_mode", "background_tasks")
async def test_new_conversation_has_neither_a_queue_nor_background_work(
    service: Service,
) -> None:
    chat_id, session = await place(service)
    assert await service.queue_mode(f"cli:local:{chat_id}") is None
    assert list(await service.background_tasks(session)) == []


@covers("reload")
async def test_reload_reports_changes_or_the_reason_for_none(service: Service) -> None:
    try:
        report = await service.reload()
    except KoreError as exc:
        report = {"error": str(exc)}
    assert {"changed", "waiting"} <= set(report) or "terminal" in report["error"]


@covers("summarize_person", "export_person", "delete_person")
async def test_data_of_a_person_is_counted_exported_and_deleted(
    service: Service, tmp_path: Path
) -> None:
    chat_id, _ = await place(service)
    sent = message(chat_id, "mine")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    assert (await service.summarize_person(sent.principal))["sessions"] == 1
    target = tmp_path / "mine.zip"
    export = await service.export_person(sent.principal, target)
    assert Path(export["file"]) == target
    assert export["size_bytes"] == target.stat().st_size
    assert (await service.delete_person(sent.principal, copies=False))["sessions"] == 1
    assert (await service.summarize_person(sent.principal))["sessions"] == 0
    with pytest.raises(KoreError):
        await service.summarize_person("nobody")


@covers("list_people", "approve_pairing", "invite_owner", "revoke_pairing")
async def test_pairing_list_starts_empty_and_unknown_codes_are_rejected(service: Service) -> None:
    people = await service.list_people()
    assert (people["owner"], people["asking"], people["paired"]) == (None, [], [])
    assert await service.invite_owner("telegram", "main")
    for act in (service.approve_pairing("ABCD-EFGH"), service.revoke_pairing("telegram:1")):
        with pytest.raises(KoreError):
            await act


@covers("list_grants", "revoke_grants")
async def test_grant_is_listed_and_revoked(service: Service) -> None:
    chat_id, session = await place(service)
    sent = message(chat_id, ASKS)
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        approval = await asked_on(events)
        assert await service.answer_approval(approval.nonce, "session", "cli:0")
        await until_last(events, sent.event_id)
    (grant,) = await service.list_grants()
    assert (grant["session"], grant["principal"]) == (session, sent.principal)
    with pytest.raises(KoreError, match="no grant"):
        await service.revoke_grants(grant["id"] + 1)
    assert await service.revoke_grants(grant["id"])
    assert list(await service.list_grants()) == []
    assert "0" in await service.revoke_grants(None)


@covers("add_job", "list_jobs", "change_job")
async def test_job_is_added_listed_and_removed(service: Service) -> None:
    assert await service.add_job(NewJob("k1", "2100-01-01 09:00", "stand up \u5b57"))
    (job,) = await service.list_jobs()
    assert (job["text"], job["kind"]) == ("stand up \u5b57", "reminder")
    assert await service.change_job(job["id"], "pause")
    assert await service.change_job(job["id"], "remove")
    with pytest.raises(KoreError, match="no job"):
        await service.change_job(job["id"], "run")


@covers("create_session", "send_message", "follow_session", "stop_session", "message_outcome")
async def test_session_receives_messages_and_is_followed(real_service: Service) -> None:
    session = await real_service.create_session()
    for _ in range(2):
        assert await real_service.send_message(session, "hello \u5b57", "e1") == session
    results = []
    async with asyncio.timeout(DEADLINE_S), real_service.follow_session(session) as events:
        async for event in events:
            results.append(event)
            if isinstance(event, TurnStored | SessionIdle):
                break
    stored = [event for event in results if isinstance(event, MessageStored)]
    assert [event.seq for event in stored] == [1, 2]
    assert "hello \u5b57" in stored[1].message.text
    assert not await real_service.stop_session(session)
    assert (await real_service.message_outcome("e1")).session == session


@covers("follow_sessions", "rename_session")
async def test_several_sessions_are_followed_over_one_stream(real_service: Service) -> None:
    first, second = await real_service.create_session(), await real_service.create_session()
    ended: list[str] = []
    levels = set()
    async with asyncio.timeout(DEADLINE_S), real_service.follow_sessions() as events:
        await real_service.send_message(first, "one", "s1")
        await real_service.send_message(second, "two", "s2")
        async for news in events:
            levels.add(level_of(news.event))
            if isinstance(news.event, TurnStored):
                ended.append(news.session)
            if len(ended) == 2:
                break
    assert sorted(ended) == sorted([first, second])
    assert "debug" not in levels
    async with asyncio.timeout(DEADLINE_S), real_service.follow_sessions((second,)) as events:
        await real_service.rename_session(first, "not followed")
        await real_service.rename_session(second, "followed")
        news = await anext(events)
    assert news == SessionNews(second, SessionChanged())


async def test_level_filters_events(real_service: Service) -> None:
    session = await real_service.create_session()
    results = []
    follow = real_service.follow_session(session, 0, (), "info")
    async with asyncio.timeout(DEADLINE_S), follow as events:
        await real_service.send_message(session, "hello", "l1")
        async for event in events:
            results.append(event)
            if isinstance(event, TurnStored):
                break
    kinds = {event.type for event in results}
    assert {"message", "done", "turn_end"} <= kinds
    assert not kinds & {"text_delta", "iteration_start", "usage", "state"}


@covers("store_picture")
async def test_picture_is_stored_and_other_data_rejected(real_service: Service) -> None:
    media = await real_service.store_picture(PNG)
    assert media.media_type == "image/png"
    assert media.digest is not None
    assert media.path is not None
    assert is_marked(Path(media.path))
    for data in ("", "not base64", "AAAA"):
        with pytest.raises(KoreError):
            await real_service.store_picture(data)


@covers("begin_upload", "continue_upload")
async def test_file_is_uploaded_in_parts_and_attached(real_service: Service) -> None:
    upload = await real_service.begin_upload("../\u202e notes.txt", 5)
    assert await real_service.continue_upload(upload, 0, "aGVs") is None
    # A client that does not know whether a part arrived sends it again.
    for _ in range(2):
        media = await real_service.continue_upload(upload, 3, "bG8=")
    assert media is not None
    assert media.name == "\\u{202e} notes.txt"
    assert media.path is not None
    assert media.path.startswith("inbox/")
    session = await real_service.send_message(None, "read this", media=(media,))
    async with asyncio.timeout(DEADLINE_S), real_service.follow_session(session) as events:
        result = (await anext(aiter(events))).message  # type: ignore[union-attr]
    assert f"in {media.path} (5 bytes)" in str(result.content)
    gone = replace(media, path="inbox/gone-0123456789abcdef.txt")
    with pytest.raises(KoreError, match="no longer exists"):
        await real_service.send_message(session, "and this", media=(gone,))
    with pytest.raises(KoreError, match="never started"):
        await real_service.continue_upload("none", 0, "aGVs")
    with pytest.raises(KoreError, match="files may have"):
        await real_service.begin_upload("large", 10**12)


@covers("read_sent_file")
async def test_unsent_file_cannot_be_read(real_service: Service) -> None:
    session = await real_service.create_session()
    with pytest.raises(KoreError, match="no such file"):
        await real_service.read_sent_file(session, 1, "call", 0)


@covers("list_tasks", "read_task", "stop_task")
async def test_new_conversation_has_no_tasks(real_service: Service) -> None:
    session = await real_service.create_session()
    assert list(await real_service.list_tasks(session)) == []
    for act in (real_service.read_task, real_service.stop_task):
        for name in ("1", "agent-1", "agent-", ""):
            with pytest.raises(KoreError, match="no background task"):
                await act(session, name)


@covers("list_agents", "list_models", "list_commands", "call_model")
async def test_commands_and_models_are_listed_and_callable(real_service: Service) -> None:
    commands = {
        command["name"]: command["summary"] for command in await real_service.list_commands()
    }
    assert commands["compact"]
    assert "explore" in {agent["name"] for agent in await real_service.list_agents()}
    assert await real_service.list_models()
    call = ModelCall("default", "be brief", (user("hi"),))
    async with asyncio.timeout(DEADLINE_S), real_service.call_model(call) as events:
        async for event in events:
            if event["type"] == "reply":
                break
    assert "hi" in json.dumps(event)


@covers("begin_api_answer", "keep_api_answer", "find_api_answer")
async def test_api_answer_belongs_to_its_key_and_token(real_service: Service) -> None:
    request = ApiRequest("one@1", "key", "digest", "resp_1")
    begun = await real_service.begin_api_answer(request)
    assert begun is not None
    assert not begun.is_complete
    answer = replace(begun, answer={"text": "x"}, conversation=(user("hi"),))
    assert await real_service.keep_api_answer(answer)
    assert not await real_service.keep_api_answer(answer)
    api_answer = await real_service.begin_api_answer(request)
    assert api_answer is not None
    assert api_answer.answer == {"text": "x"}
    assert await real_service.begin_api_answer(replace(request, digest="other")) is None
    result = await real_service.find_api_answer("one@1", "resp_1")
    assert result is not None
    assert result.conversation == (user("hi"),)
    assert await real_service.find_api_answer("two@1", "resp_1") is None


@covers("choose_model", "choose_mode", "session_mode")
async def test_model_and_mode_are_set_for_a_session(real_service: Service) -> None:
    chat_id, session = await place(real_service)
    await real_service.choose_model(session, "quick")
    await real_service.choose_mode(session, "auto")
    status = await real_service.conversation_status(f"cli:local:{chat_id}")
    assert (status["model"], status["mode"]) == ("quick", "auto")
    assert await real_service.session_mode(session) == "auto"
    assert await real_service.session_mode(None) == "ask"
    with pytest.raises(KoreError, match="nothing-like-it"):
        await real_service.choose_model(session, "nothing-like-it")
    with pytest.raises(KoreError):
        await real_service.choose_mode("20990101_000000", "plan")
    assert len([model for model in await real_service.list_models() if model["default"]]) == 1


@covers("serve_editor", "answer_editor")
async def test_editor_is_asked_for_the_text_of_a_file(real_service: Service) -> None:
    assert not await real_service.answer_editor("nobody waits", "text")
    async with real_service.serve_editor("cli:local:editor", "/", True, True) as requests:
        waiting = asyncio.ensure_future(anext(requests))
        assert not await real_service.answer_editor("nobody waits", None)
        waiting.cancel()
        await asyncio.wait([waiting])


@covers("attach_servers")
async def test_failing_editor_servers_are_reported(real_service: Service) -> None:
    wrong = SessionServer("wrong", "/nowhere/server")
    sentences: Sequence[str] = ()
    async with asyncio.timeout(_SET_UP_S):
        # On a busy machine the first attempt may exceed the wait for it.
        while not sentences:
            async with real_service.attach_servers("cli:local:editor", (wrong,)) as failures:
                sentences = await anext(failures)
    (sentence,) = sentences
    assert "wrong" in sentence
    with pytest.raises(KoreError, match="neither a command nor an address"):
        async with real_service.attach_servers("cli:local:editor", (SessionServer("empty"),)):
            pass


@covers("list_costs", "describe_config", "read_log", "list_audit")
async def test_costs_configuration_and_audit_are_readable(real_service: Service) -> None:
    assert [cost["calls"] for cost in await real_service.list_costs(2)] == [0, 0]
    assert (await real_service.describe_config())["agent"]["model"] == "offline/echo"
    assert await real_service.read_log(5) == []
    assert await real_service.list_audit(5) == []
    with pytest.raises(KoreError, match="level"):
        await real_service.read_log(5, "loud")


@covers("read_note", "write_note")
async def test_note_is_read_and_changed(real_service: Service) -> None:
    note = await real_service.read_note("USER.md")
    await real_service.write_note("USER.md", "tea", note["digest"])
    assert (await real_service.read_note("USER.md"))["text"] == "tea"
    with pytest.raises(KoreError):
        await real_service.write_note("USER.md", "coffee", note["digest"])
    with pytest.raises(KoreError):
        await real_service.read_note("../config.json")


@covers("list_places", "list_folder", "read_file", "read_picture", "write_file", "compare_file")
async def test_files_of_the_workspace_are_read_and_changed(real_service: Service) -> None:
    (place,) = await real_service.list_places()
    made = await real_service.write_file(place, "notes/a.txt", "one\n")
    assert (made["text"], made["size"]) == ("one\n", 4)
    (entry,) = await real_service.list_folder(place, "notes")
    assert (entry["name"], entry["is_folder"], entry["size"]) == ("a.txt", False, 4)
    assert entry["changed_at"] > 0
    folders = [item["name"] for item in await real_service.list_folder(place) if item["is_folder"]]
    assert "notes" in folders
    changed = await real_service.write_file(place, "notes/a.txt", "two\n", made["digest"])
    assert await real_service.read_file(place, "notes/a.txt") == changed
    for digest in ("", made["digest"]):
        with pytest.raises(KoreError, match="changed meanwhile") as caught:
            await real_service.write_file(place, "notes/a.txt", "three", digest)
        assert caught.value.code == "file-changed"
    compared = await real_service.compare_file(place, "notes/a.txt", "three\n")
    assert compared["digest"] == changed["digest"]
    assert "-two\n+three" in compared["diff"]
    with pytest.raises(KoreError, match="expected one of"):
        await real_service.list_folder("/etc")
    (Path(place) / "a.gif").write_bytes(b"GIF89a....")
    picture = await real_service.read_picture(place, "a.gif")
    assert picture == {"media_type": "image/gif", "data": base64.b64encode(b"GIF89a....").decode()}
    with pytest.raises(KoreError, match="not a picture"):
        await real_service.read_picture(place, "notes/a.txt")


@covers("make_folder", "move_path", "delete_path", "undo_change", "list_audit")
async def test_files_are_moved_deleted_and_restored(real_service: Service) -> None:
    (place,) = await real_service.list_places()
    root = Path(place)
    assert await real_service.make_folder(place, "one/two") == "Created one/two."
    await real_service.write_file(place, "one/two/a.txt", "words\n")
    moved = await real_service.move_path(place, "one/two/a.txt", "one/b.txt")
    assert moved == "Moved one/two/a.txt to one/b.txt."
    assert await real_service.delete_path(place, "one") == "Deleted one."
    assert not (root / "one").exists()
    undone = await real_service.undo_change(place)
    assert (undone["text"], "one/b.txt" in undone["paths"]) == ("Restored one/b.txt.", True)
    await real_service.undo_change(place)
    assert (root / "one" / "two" / "a.txt").read_text() == "words\n"
    await real_service.undo_change(place, redo=True)
    assert (root / "one" / "b.txt").exists()
    for path in ("../x", "", "one/gone"):
        with pytest.raises(KoreError):
            await real_service.delete_path(place, path)
    entries = await real_service.list_audit(50)
    own = [entry for entry in entries if entry["tool"] == "kore:file"]
    operations = [item["params"]["operation"] for item in own if item["allowed"]]
    assert operations[-4:] == ["delete", "move", "write", "make folder"]
    callers = {"local user", "token contract", "token local"}
    assert {item["params"]["who"] for item in own} <= callers


@covers(
    *("terminal_status", "open_terminal", "follow_terminal", "write_terminal"),
    *("resize_terminal", "close_terminal"),
)
async def test_terminal_is_opened_followed_and_closed(
    real_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Isolate the test from this machine's shell profile.
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (await real_service.terminal_status())["mode"] == "full"
    terminal = await real_service.open_terminal(None, 90, 20)
    await real_service.resize_terminal(terminal, 70, 18)
    async with real_service.follow_terminal(terminal) as items, asyncio.timeout(60):
        await real_service.write_terminal(terminal, "stty size\n")
        text = ""
        async for item in items:
            text += item.get("screen", "") + item.get("output", "")
            if "18 70" in text:
                break
    await real_service.close_terminal(terminal)
    assert (await real_service.terminal_status())["terminals"] == []
    for place, columns in (("/etc", 80), (None, 0)):
        with pytest.raises(KoreError, match="expected"):
            await real_service.open_terminal(place, columns)
    with pytest.raises(KoreError, match="has ended"):
        await real_service.write_terminal(terminal, "x")


def a_market(folder: Path) -> Path:
    """Return a folder with two plugins: `greeter` asks for a key, and `band` needs `greeter`."""
    skill = "---\nname: hi\ndescription: Says hi.\n---\nSay hi.\n"
    manifests: dict[str, dict[str, Any]] = {
        "greeter": {
            "userConfig": {"KEY": {"title": "Key", "sensitive": True, "required": True}},
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo bye"}]}]},
        },
        "band": {"dependencies": ["greeter"]},
    }
    for name, more in manifests.items():
        (folder / name / "skills" / "hi").mkdir(parents=True)
        (folder / name / "skills" / "hi" / "SKILL.md").write_text(skill)
        (folder / name / ".claude-plugin").mkdir()
        manifest = {"name": name, "version": "1.0", "description": f"The {name}.", **more}
        (folder / name / ".claude-plugin" / "plugin.json").write_text(json.dumps(manifest))
    make_index(folder, "fair")
    return folder


@covers("list_markets", "add_market", "update_market", "remove_market", "search_plugins")
async def test_markets_are_added_searched_and_removed(
    real_service: Service, tmp_path: Path
) -> None:
    assert await real_service.list_markets() == []
    folder = a_market(tmp_path / "fair")
    assert await real_service.add_market(str(folder)) == "fair: 2 plugins"
    assert await real_service.update_market("fair") == "fair: 2 plugins"
    (market,) = await real_service.list_markets()
    assert (market["name"], market["plugins"]) == ("fair", 2)
    (entry,) = await real_service.search_plugins("greeter")
    assert (entry["name"], entry["market"], entry["installed"]) == ("greeter", "fair", False)
    assert len(await real_service.search_plugins()) == 2
    assert await real_service.remove_market("fair") == "removed: fair"
    with pytest.raises(KoreError, match="no market"):
        await real_service.update_market("fair")
    with pytest.raises(KoreError, match="no folder"):
        await real_service.add_market("no-such-place")


@covers("list_plugins", "look_at_plugin", "install_plugin", "change_plugin")
async def test_plugin_is_inspected_installed_and_removed(
    real_service: Service, tmp_path: Path
) -> None:
    place = a_market(tmp_path / "fair") / "greeter"
    shown = await real_service.look_at_plugin(str(place))
    assert ["skills", "hi"] in shown["rows"]
    assert ["hooks", "Stop (command): echo bye"] in shown["rows"]
    (option,) = shown["options"]
    assert (option["key"], option["is_secret"], option["is_known"]) == ("KEY", True, False)
    assert await real_service.list_plugins() == []
    with pytest.raises(KoreError, match="needs a value for KEY"):
        await real_service.install_plugin(str(place), shown["review"], {})
    answer = {"KEY": "sesame-open"}
    # Content that was not shown is not installed.
    (place / "skills" / "hi" / "SKILL.md").write_text("other")
    with pytest.raises(KoreError, match="changed since it was shown"):
        await real_service.install_plugin(str(place), shown["review"], answer)
    shown = await real_service.look_at_plugin(str(place))
    text = await real_service.install_plugin(str(place), shown["review"], answer)
    assert text.startswith("installed greeter 1.0")
    (plugin,) = await real_service.list_plugins()
    assert (plugin["name"], plugin["digest"], plugin["enabled"]) == (
        *("greeter", shown["digest"]),
        True,
    )
    assert "sesame" not in json.dumps(plugin)
    assert (await real_service.look_at_plugin("greeter", update=True))["is_current"]
    assert "disabled" in await real_service.change_plugin("greeter", "disable")
    assert "stays" in await real_service.change_plugin("greeter", "pin")
    assert "removed" in await real_service.change_plugin("greeter", "remove")
    with pytest.raises(KoreError, match="no plugin"):
        await real_service.change_plugin("greeter", "enable")


@covers("check_policy", "list_roles")
async def test_policy_judges_calls(real_service: Service) -> None:
    command = {"command": "sudo rm x; ls"}
    verdict = await real_service.check_policy("exec", command, mode="auto", channel="telegram")
    assert verdict["decision"] == "deny"
    assert {"all", "ls", "sudo rm x"} == {item["part"] for item in verdict["verdicts"]}
    new = {"path": "notes.txt", "content": "x"}
    assert (await real_service.check_policy("write_file", new))["decision"] == "allow"
    planned = await real_service.check_policy("write_file", new, mode="plan")
    assert (planned["decision"], planned["rule"]) == ("deny", "plan-change")
    assert (await real_service.check_policy("bash", {"command": "ls"}, "guest"))["rule"] == (
        "role-tool"
    )
    outside = await real_service.check_policy("write_file", {"path": "../../x", "content": ""})
    assert (outside["decision"], outside["rule"]) == ("ask", "ask-folder")
    for tool, arguments, role in [
        ("exec", {}, "build"),
        ("exec", {"command": " "}, "build"),
        ("no_such_tool", {}, "build"),
        ("write_file", {"path": 1}, "build"),
        ("lsp", {}, "build"),
        ("exec", {"command": "ls"}, "nobody"),
    ]:
        with pytest.raises(KoreError):
            await real_service.check_policy(tool, arguments, role)
    facts = await real_service.list_roles()
    roles = {role["name"]: role for role in facts["roles"]}
    assert roles["guest"]["tools"]["web_fetch"] == {"allow": True, "ask": True}
    assert facts["assigned"] == {}


@covers("list_settings", "check_setting", "change_setting")
async def test_setting_is_checked_and_changed(real_service: Service) -> None:
    checked = await real_service.check_setting("agent.max_iterations", "7")
    assert (checked["old"], checked["new"], checked["widens"]) == (200, 7, False)
    with pytest.raises(KoreError, match="changed meanwhile"):
        await real_service.change_setting("agent.max_iterations", "8", checked["proposal"])
    changed = await real_service.change_setting("agent.max_iterations", "7", checked["proposal"])
    assert changed["effect"] == "restart"
    facts = await real_service.list_settings()
    (row,) = (setting for setting in facts["settings"] if setting["key"] == "agent.max_iterations")
    assert (row["value"], row["own"], row["from"]) == (7, 7, facts["file"])
    with pytest.raises(KoreError, match=r"agent\.max_iterations"):
        await real_service.check_setting("agent.max_iterations", "many")
    proposal = (await real_service.check_setting("security.sandbox", "none"))["proposal"]
    with pytest.raises(KoreError, match="confirm"):
        await real_service.change_setting("security.sandbox", "none", proposal)
