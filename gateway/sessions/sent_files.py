"""Files of an answer for remote clients, with their current content on disk.

A file is identified by a stored, successful call of a tool that sends or creates files; clients
never send a path. The rules of the owner's tools apply again on reading.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agent.errors import KoreError, ToolError
from agent.i18n import t
from agent.security.files import file_io
from agent.text.visible import escape_line
from agent.turn.tool_catalog import tool_traits
from agent.types import Message
from gateway.sessions import lookup
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions

PART_BYTES = 2**20
# Limit of results that follow a reply.
_MAX_RESULTS = 256


class OwnersFiles(Protocol):
    """File lookup under the rules of the owner's tools."""

    def find_sent(self, path: str) -> Path: ...


class SentFiles:
    """Reader of sent files, in parts."""

    def __init__(self, database: Store, open_files: Callable[[], OwnersFiles]) -> None:
        self._database = database
        self._open_files = open_files

    async def read(
        self, session: str, seq: int, call: str, number: int, offset: int
    ) -> Mapping[str, Any]:
        """Read part of file `number` (from 0) of a call in message `seq`.

        Raises `KoreError`.
        """
        paths = await self._database.transact(_sent_paths, session, seq, call)
        if not 0 <= number < len(paths):
            raise KoreError(t("this message has sent no such file"))
        return await asyncio.to_thread(self._read, paths[number], offset)

    def _read(self, path: str, offset: int) -> Mapping[str, Any]:
        name = escape_line(Path(path).name)
        try:
            file = self._open_files().find_sent(path)
            part = file_io.read_part(file, max(offset, 0), PART_BYTES)
        except ToolError as exc:
            raise KoreError(t("{name} cannot be read: {reason}", name=name, reason=exc)) from exc
        return {
            "name": name,
            "size": part.size_bytes,
            "version": part.version,
            "data": base64.b64encode(part.data).decode(),
        }


def _sent_paths(tx: Transaction, session: str, seq: int, call: str) -> Sequence[str]:
    """Return the paths of a successful call; none for any other."""
    session = lookup.find(tx, session)
    rows = sessions.load_after(tx, session, seq - 1, _MAX_RESULTS)
    if not rows or rows[0][0] != seq:
        return ()
    reply, *others = (message for _, _, message in rows)
    tool_call = next((item for item in reply.tool_calls if item.id == call), None)
    result = _good_result(call, others)
    if tool_call is None or result is None:
        return ()
    return tool_traits(tool_call.name).delivered(tool_call.arguments or {}, result.text)


def _good_result(call: str, messages: Sequence[Message]) -> Message | None:
    """Return the call's result among the results after its reply, unless it is an error."""
    for message in messages:
        if message.role != "tool":
            return None
        if message.tool_call_id == call:
            return None if message.is_error else message
    return None
