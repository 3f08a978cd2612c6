"""Echo channel for Kore: a chat server with JSON messages, one object per line."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar

from pydantic import SecretStr

from agent.errors import KoreError
from agent.records import frozen
from gateway.channels.base import Accept, Ambiguous, ChannelStatus, NotSent
from gateway.channels.spec import ChannelContext, ChannelIdentity, ChannelSpec, Finding, SetupStep
from gateway.config.channel_section import ChannelSection
from gateway.config.setting import Setting
from gateway.core.channel_events import Batch
from gateway.core.errors import ServiceUnreachable
from gateway.core.messages import InboundMessage, OutboundMessage, OutboundPart, Sender
from gateway.store.errors import StoreError

MAX_CHARS, TIMEOUT_S = 4000, 15.0


class EchoSection(ChannelSection):
    """Settings of the channel, in addition to the common ones such as `chats`."""

    credentials: ClassVar[tuple[str, ...]] = ("token",)
    address: Annotated[str, Setting("`HOST:PORT` of the server")] = "127.0.0.1:7007"
    token: Annotated[SecretStr, Setting("token of the account")] = SecretStr("")


@frozen
class Connection:
    """An open connection that the server has accepted as `account`."""

    account: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write(self, **fields: Any) -> None:
        self.writer.write(json.dumps(fields).encode() + b"\n")
        await self.writer.drain()

    async def read(self) -> Any:
        """Return the next object. Raise `EOFError` when the server has closed the connection."""
        if not (line := await self.reader.readline()):
            raise EOFError
        return json.loads(line)


@asynccontextmanager
async def connect(section: EchoSection) -> AsyncIterator[Connection]:
    """Log in. Raise `ServiceUnreachable` without a server, `KoreError` for a refused token."""
    host, _, port = section.address.rpartition(":")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, int(port))
            connection = Connection("", reader, writer)
            await connection.write(token=section.token.get_secret_value())
            login = await connection.read()
    except (OSError, EOFError, ValueError) as exc:
        raise ServiceUnreachable(f"{section.address}: {exc or 'no answer'}") from exc
    try:
        if "account" not in login:
            raise KoreError("Echo refused this token", hint="set it again: kore channel add echo")
        yield Connection(login["account"], reader, writer)
    finally:
        writer.close()


class EchoChannel:
    """A `gateway.channels.base.Channel`; other abilities are optional protocols of that module."""

    name, account = "echo", "main"

    def __init__(self, section: EchoSection, retry_s: float = 5.0) -> None:
        self._section, self._retry_s, self.status = section, retry_s, ChannelStatus("starting")

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled. Raise `KoreError` when the server refuses the token."""
        while True:
            try:
                async with connect(self._section) as connection:
                    self.status = ChannelStatus("polling", last_poll_at=time.time())
                    await self._receive(connection, accept)
            except (ServiceUnreachable, StoreError, OSError, EOFError) as exc:
                self.status = ChannelStatus("retrying", last_error=str(exc) or "connection lost")
            await asyncio.sleep(self._retry_s)

    async def _receive(self, connection: Connection, accept: Accept) -> None:
        while True:
            update = await connection.read()
            await accept(self.name, self.account, Batch([self._decode(update)]))
            # Only a stored update is confirmed; the server repeats all others.
            await connection.write(seen=update["id"])

    def _decode(self, update: dict[str, Any]) -> InboundMessage:
        return InboundMessage(
            channel=self.name,
            account=self.account,
            chat_id=update["chat"],
            sender=Sender(update["person"], update.get("name", "")),
            event_id=str(update["id"]),
            content=update["text"],
            received_at=time.time(),
            private=update.get("private", True),
        )

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        starts = range(0, len(markdown), MAX_CHARS)
        return [OutboundPart(markdown[start : start + MAX_CHARS]) for start in starts]

    async def send(self, message: OutboundMessage) -> str:
        """Return the server's id of the message. Raise `SendError`."""
        try:
            async with connect(self._section) as connection:
                await connection.write(chat=message.route.chat_id, text=message.content.text)
                return str((await connection.read())["sent"])
        except KoreError as exc:
            raise NotSent(str(exc)) from exc
        except (OSError, EOFError) as exc:
            raise Ambiguous(str(exc)) from exc


async def open_channel(context: ChannelContext[EchoSection]) -> Sequence[EchoChannel]:
    return [EchoChannel(context.section)]


async def identify(section: EchoSection) -> ChannelIdentity:
    """Return the account that the token belongs to. Raise `KoreError`."""
    async with connect(section) as connection:
        return ChannelIdentity("main", connection.account)


def doctor(section: EchoSection) -> Sequence[Finding]:
    is_local = section.address.startswith(("127.", "localhost:"))
    return [Finding("ok" if is_local else "warn", f"plain text to {section.address}")]


SPEC = ChannelSpec(
    name="echo",
    title="Echo",
    section=EchoSection,
    open=open_channel,
    identify=identify,
    steps=(SetupStep("address", lambda: "HOST:PORT"), SetupStep("token", lambda: "Token")),
    doctor=doctor,
)
