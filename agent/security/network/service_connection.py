"""Connections of commands to local services."""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.security.local_services import LocalService

_CONNECT_TIMEOUT_S = 15.0
_CHUNK_BYTES = 65_536
# struct linger: with a time of 0 the kernel resets the connection.
_RESET = struct.pack("ii", 1, 0)

Streams = tuple[StreamReader, StreamWriter]


@asynccontextmanager
async def open_service(service: LocalService) -> AsyncIterator[Streams]:
    """Connect to a service. Raises `ConnectionError` if nothing answers there."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(service.host, service.port)
    except (OSError, TimeoutError) as exc:
        raise ConnectionError(f"nothing answers at {service}") from exc
    writer.transport.set_write_buffer_limits(0)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def relay(program: Streams, service: Streams) -> None:
    """Copy in both directions until both sides have ended.

    There is no timeout, because pools keep connections for hours; the relay ends with its command.
    """
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(program[0], service[1]))
            group.create_task(_copy(service[0], program[1]))
    except* OSError:
        pass  # one side is gone


def reset(writer: StreamWriter) -> None:
    """Close a connection so that its peer notices an error; the peer may have closed it before."""
    if not writer.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def reset_socket(connection: socket.socket) -> None:
    """Close a connection so that its peer notices an error."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.close()


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
