"""The echo channel with a fake server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kore_channel_echo import SPEC, EchoChannel, EchoSection, identify
from pydantic import SecretStr

from agent.errors import KoreError
from gateway.channels.base import NotSent
from gateway.core.channel_events import Batch
from gateway.core.messages import OutboundMessage, OutboundPart, Route

TOKEN = "right"  # noqa: S105 - of a stand-in
UPDATE = {"id": 1, "chat": "c1", "person": "7", "name": "Ann", "text": "Hello"}


class EchoServer:
    """A chat server that repeats its updates to each client until a client confirms them."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        self.confirmed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if json.loads(await reader.readline())["token"] == TOKEN:
            self._write(writer, account="kore")
            for update in self.updates:
                self._write(writer, **update)
            while line := await reader.readline():
                self._take(json.loads(line), writer)
        else:
            self._write(writer, error="unknown token")
        writer.close()

    def _take(self, fields: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if "seen" in fields:
            self.updates = [update for update in self.updates if update["id"] != fields["seen"]]
            self.confirmed.set()
        else:
            self.received.append(fields)
            self._write(writer, sent=len(self.received))

    def _write(self, writer: asyncio.StreamWriter, **fields: Any) -> None:
        writer.write(json.dumps(fields).encode() + b"\n")


@asynccontextmanager
async def server() -> AsyncIterator[tuple[EchoServer, EchoSection]]:
    stand_in = EchoServer()
    listening = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield stand_in, EchoSection(address=f"127.0.0.1:{port}", token=SecretStr(TOKEN))
    finally:
        listening.close()


def outgoing(text: str) -> OutboundMessage:
    return OutboundMessage("d1", 0, Route(SPEC.name, "main", "c1"), OutboundPart(text))


def test_message_is_confirmed_once_it_is_stored() -> None:
    async def receive() -> None:
        async with server() as (stand_in, section):
            stand_in.updates.append(UPDATE)
            stored: list[Batch] = []

            async def accept(channel: str, account: str, batch: Batch) -> None:
                assert not stand_in.confirmed.is_set()
                stored.append(batch)

            running = asyncio.create_task(EchoChannel(section).run(accept))
            await asyncio.wait_for(stand_in.confirmed.wait(), 10)
            running.cancel()
            await asyncio.wait({running})
            assert [message.content for message in stored[0].messages] == ["Hello"]

    asyncio.run(receive())


def test_answer_reaches_the_server() -> None:
    async def answer() -> None:
        async with server() as (stand_in, section):
            assert await EchoChannel(section).send(outgoing("Hi")) == "1"
            assert stand_in.received == [{"chat": "c1", "text": "Hi"}]

    asyncio.run(answer())


def test_answer_without_a_server_was_certainly_not_sent() -> None:
    with pytest.raises(NotSent):
        asyncio.run(EchoChannel(EchoSection(address="127.0.0.1:9")).send(outgoing("Hi")))


def test_wrong_token_is_refused() -> None:
    async def ask() -> None:
        async with server() as (_, section):
            await identify(section.model_copy(update={"token": SecretStr("wrong")}))

    with pytest.raises(KoreError, match="refused this token"):
        asyncio.run(ask())
