"""Contract of every channel, each tested with a fake of its platform."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.proxies.outbound import HttpSessions
from gateway.channels.base import (
    Ambiguous,
    Channel,
    NotSent,
    NoViewer,
    SendError,
    SupportsApprovals,
    SupportsMedia,
)
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.clients import ApiChannel, ConsoleChannel
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.spec import ChannelContext, ChannelSpec
from gateway.channels.state import InMemoryChannelState
from gateway.channels.telegram.channel import TelegramChannel
from gateway.channels.telegram.settings import TelegramSettings
from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.config.channel_section import ChannelSection
from gateway.core.channel_events import Batch
from gateway.core.event_hub import EventHub
from gateway.core.messages import (
    CONSOLE,
    Button,
    OutboundFile,
    OutboundMessage,
    OutboundPart,
    Route,
)
from gateway.core.records import Delivered
from gateway.core.token_routes import API
from gateway.store.errors import StoreBusy
from tests.fakes.bot_api import TOKEN, BotApi
from tests.house.tree import ROOT

CHAT = "7"
MARKDOWN = (
    "",
    "Hello",
    "**bold _and* broken `",
    "```python\nprint(1)\n```",
    "| a | b |\n| - | - |\n| 1 | 2 |",
    "\u202e\x00 odd \ud83d",
    "word " * 5000,
    "x" * 20_000,
)


@dataclass
class Stand:
    """A channel with its platform.

    `deliver` lets a person write, `received` returns the platform's messages; a channel without a
    platform delivers nothing. `unreachable` is the channel without a server. `spec` defines the
    channel, and `section` has the settings that reach the platform.
    """

    channel: Channel
    received: Callable[[], Awaitable[list[str]]]
    deliver: Callable[[str], Awaitable[Any]] | None = None
    unreachable: Channel | None = None
    spec: ChannelSpec[Any] | None = None
    section: ChannelSection = field(default_factory=ChannelSection)


@contextmanager
def watching(events: EventHub, route: Route) -> Iterator[Callable[[], Awaitable[list[str]]]]:
    """Watch a lane; yield a function that stops and returns the delivered texts."""
    with events.watch(route.lane) as watcher:

        async def received() -> list[str]:
            watcher.close()
            return [event.text async for event in watcher if isinstance(event, Delivered)]

        yield received


def route_of(channel: Channel) -> Route:
    return Route(channel.name, channel.account, CHAT)


def message(channel: Channel, part: OutboundPart, number: int = 0) -> OutboundMessage:
    return OutboundMessage("t1", number, route_of(channel), part)


@asynccontextmanager
async def console() -> AsyncIterator[Stand]:
    events = EventHub()
    channel = ConsoleChannel(events)
    with watching(events, route_of(channel)) as received:
        yield Stand(channel, received, unreachable=ConsoleChannel(EventHub()))


@asynccontextmanager
async def api() -> AsyncIterator[Stand]:
    events = EventHub()
    channel = ApiChannel(events)
    with watching(events, route_of(channel)) as received:
        yield Stand(channel, received)


@asynccontextmanager
async def telegram() -> AsyncIterator[Stand]:
    settings = TelegramSettings(
        TOKEN, poll_s=1, answer_s=1.0, connect_s=1.0, backoff_s=0.01, store_again_s=0.01
    )
    async with BotApi() as bot_api:
        channel = TelegramChannel(replace(settings, base_url=bot_api.url), gate=RateLimiter(None))
        nobody = replace(settings, base_url="http://127.0.0.1:9")
        unreachable = TelegramChannel(nobody, gate=RateLimiter(None))

        async def received() -> list[str]:
            return bot_api.answers(int(CHAT))

        try:
            yield Stand(
                channel,
                received,
                lambda text: bot_api.user_says(int(CHAT), text),
                unreachable,
                TELEGRAM,
                TELEGRAM.section(token=SecretStr(TOKEN), base_url=bot_api.url),
            )
        finally:
            await channel.aclose()
            await unreachable.aclose()


@asynccontextmanager
async def echo() -> AsyncIterator[Stand]:
    """Yield the example package, with the fake from its own test."""
    sys.path.insert(0, str(ROOT / "examples" / "echo_channel"))
    try:
        package = import_module("kore_channel_echo")
        stand_ins = import_module("test_kore_channel_echo")
    finally:
        del sys.path[0]
    async with stand_ins.server() as (server, section):

        async def deliver(text: str) -> None:
            server.updates.append({**stand_ins.UPDATE, "chat": CHAT, "text": text})

        async def received() -> list[str]:
            return [fields["text"] for fields in server.received]

        nobody = package.EchoSection(address="127.0.0.1:9", token=SecretStr("x"))
        yield Stand(
            package.EchoChannel(section, retry_s=0.01),
            received,
            deliver,
            package.EchoChannel(nobody),
            package.SPEC,
            section,
        )


STANDS = {CONSOLE: console, API: api, "telegram": telegram, "echo": echo}


@pytest.fixture(params=STANDS)
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    async with STANDS[request.param]() as stand:
        yield stand


@pytest.fixture(params=[name for name in STANDS if name not in (CONSOLE, API)])
async def packaged(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    """Yield a channel with a spec."""
    async with STANDS[request.param]() as stand:
        yield stand


@asynccontextmanager
async def running(channel: Channel, accept: Callable[..., Awaitable[None]]) -> AsyncIterator[None]:
    task = asyncio.create_task(channel.run(accept))
    try:
        yield
    finally:
        task.cancel()
        async with asyncio.timeout(10):
            await asyncio.wait({task})
    assert task.cancelled()


def with_platform(stand: Stand) -> Callable[[str], Awaitable[Any]]:
    if stand.deliver is None:
        pytest.skip("its messages come through the control socket or the server")
    return stand.deliver


@asynccontextmanager
async def opened(
    stand: Stand, folder: Path, cursors: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Channel, ChannelContext[Any]]]:
    """Open the channel as a gateway does, with the cursors of its last batch."""
    assert stand.spec is not None

    async def load_cursors(account: str, not_before: float = 0.0) -> Mapping[str, str]:
        return cursors or {}

    async with AsyncExitStack() as stack:
        http = HttpSessions({})
        stack.push_async_callback(http.aclose)
        context = ChannelContext(
            section=stand.section,
            state=InMemoryChannelState(),
            cursors=load_cursors,
            places=ChatSettingsIndex(),
            stack=stack,
            http=http,
            own_folder=folder / "channels" / stand.spec.name,
        )
        (channel,) = await stand.spec.open(context)
        yield channel, context


async def next_batch(channel: Channel) -> Batch:
    """Run the channel until a batch with messages is stored."""
    stored: asyncio.Queue[Batch] = asyncio.Queue()

    async def accept(name: str, account: str, batch: Batch) -> None:
        if batch.messages:
            stored.put_nowait(batch)

    async with running(channel, accept), asyncio.timeout(20):
        return await stored.get()


async def test_spec_opens_the_channel(packaged: Stand, tmp_path: Path) -> None:
    async with opened(packaged, tmp_path) as (channel, _):
        assert (channel.name, channel.account) == (packaged.channel.name, packaged.channel.account)


async def test_reopened_channel_continues_after_its_last_batch(
    packaged: Stand, tmp_path: Path
) -> None:
    deliver = with_platform(packaged)
    await deliver("One")
    async with opened(packaged, tmp_path) as (channel, _):
        first = await next_batch(channel)
    assert [message.content for message in first.messages] == ["One"]
    for name, value in first.cursors.items():
        assert isinstance(name, str)
        assert isinstance(value, str)
    await deliver("Two")
    async with opened(packaged, tmp_path, first.cursors) as (channel, _):
        contents = [message.content for message in (await next_batch(channel)).messages]
    # A platform without a confirmation of the first batch may repeat it.
    assert contents[-1] == "Two" or contents == ["One"]


async def test_files_of_a_channel_are_private(packaged: Stand, tmp_path: Path) -> None:
    async with opened(packaged, tmp_path) as (_, context):
        assert context.data_folder.is_relative_to(tmp_path)
        assert context.data_folder.stat().st_mode & 0o777 == 0o700


def test_file_limits_agree(stand: Stand) -> None:
    channel = with_files(stand)
    limits = channel.file_limits
    assert 0 < limits.photo_bytes <= limits.file_bytes
    assert limits.album_files > 1 if limits.album_kinds else limits.album_files == 1
    kinds = [kind for group in limits.album_kinds for kind in group]
    assert len(kinds) == len(set(kinds))


async def test_largest_album_with_the_longest_caption_is_accepted(stand: Stand) -> None:
    channel = with_files(stand)
    limits = channel.file_limits
    caption = "x" * limits.caption.size
    assert limits.caption.allows(caption)
    for number, kinds in enumerate(limits.album_kinds):
        files = tuple(
            OutboundFile(f"{n}.txt", text="x", kind=min(kinds), size_bytes=1)
            for n in range(limits.album_files)
        )
        part = OutboundPart(caption, files=files)
        assert await channel.send_files(message(stand.channel, part, number))


async def test_largest_button_is_accepted(stand: Stand) -> None:
    channel = stand.channel
    if not isinstance(channel, SupportsApprovals):
        pytest.skip("it has no buttons")
    button = Button("Yes", "x" * channel.button_limits.data_bytes)
    part = OutboundPart("Sure?", buttons=(button,) * channel.button_limits.count)
    assert await stand.channel.send(message(stand.channel, part))


def with_files(stand: Stand) -> SupportsMedia:
    if not isinstance(stand.channel, SupportsMedia):
        pytest.skip("it does not send files")
    return stand.channel


def test_name_and_account_are_identifiers(stand: Stand) -> None:
    for word in (stand.channel.name, stand.channel.account):
        assert word
        assert ":" not in word


@pytest.mark.parametrize("markdown", MARKDOWN)
def test_every_text_can_be_rendered(stand: Stand, markdown: str) -> None:
    parts = list(stand.channel.render(markdown))
    assert all(isinstance(part, OutboundPart) for part in parts)
    assert bool(parts) or not markdown.strip()


async def test_parts_reach_the_platform_in_order(stand: Stand) -> None:
    parts = [*stand.channel.render("One"), *stand.channel.render("Two")]
    ids = [
        await stand.channel.send(message(stand.channel, part, n)) for n, part in enumerate(parts)
    ]
    assert await stand.received() == ["One", "Two"]
    assert all(ids)
    assert len(set(ids)) == len(ids)


async def test_every_part_of_a_long_answer_is_accepted(stand: Stand) -> None:
    for number, part in enumerate(stand.channel.render("word " * 5000)):
        assert await stand.channel.send(message(stand.channel, part, number))


async def test_unreachable_platform_is_a_send_error(stand: Stand) -> None:
    if stand.unreachable is None:
        pytest.skip("an answer is stored until its reader asks for it")
    (part,) = stand.unreachable.render("Hi")
    with pytest.raises(SendError) as failed:
        await stand.unreachable.send(message(stand.unreachable, part))
    assert isinstance(failed.value, NotSent | NoViewer | Ambiguous)


async def test_message_has_content_event_id_and_sender(stand: Stand) -> None:
    deliver = with_platform(stand)
    batches: asyncio.Queue[tuple[str, str, Batch]] = asyncio.Queue()

    async def accept(channel: str, account: str, batch: Batch) -> None:
        batches.put_nowait((channel, account, batch))

    await deliver("Hello")
    async with running(stand.channel, accept), asyncio.timeout(20):
        while True:
            channel, account, batch = await batches.get()
            if batch.messages:
                break
    (received,) = batch.messages
    assert (channel, account) == (stand.channel.name, stand.channel.account)
    assert (received.channel, received.account) == (channel, account)
    assert received.chat_id == CHAT
    assert received.content == "Hello"
    assert received.event_id
    assert received.sender.id


async def test_unstored_message_is_delivered_again(stand: Stand) -> None:
    deliver = with_platform(stand)
    event_ids: list[str] = []
    arrived = asyncio.Event()

    async def accept(channel: str, account: str, batch: Batch) -> None:
        if not batch.messages:
            return
        event_ids.append(batch.messages[0].event_id)
        if len(event_ids) == 1:
            raise StoreBusy("the disk is full")
        arrived.set()

    await deliver("Hello")
    async with running(stand.channel, accept), asyncio.timeout(20):
        await arrived.wait()
    assert event_ids[0] == event_ids[1]


async def test_run_ends_when_it_is_cancelled(stand: Stand) -> None:
    async def accept(channel: str, account: str, batch: Batch) -> None:
        raise AssertionError("nobody wrote")

    async with running(stand.channel, accept):
        pass
