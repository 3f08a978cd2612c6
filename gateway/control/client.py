"""The other end of the control socket: a `Service` that lives in the owner's process.

It speaks HTTP/1.0 by hand, one connection a call, because the message that waits for this
process to start should not wait for an HTTP library. The dialect is described in `control.py`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

from agent.errors import KoreError
from agent.i18n import current_locale, t
from agent.security.policy.base import Answer
from agent.serialization import message_from_json
from agent.types import Message
from gateway.control.protocol import (
    LINE_LIMIT_BYTES,
    PROTOCOL,
    REQUEST_LIMIT_BYTES,
    decode_object,
    encode_line,
    error_from_json,
    found_from_json,
    glimpse_from_json,
    inbound_to_json,
    is_own_user,
    opened_from_json,
    question_from_json,
    session_from_json,
    watch_event_from_json,
)
from gateway.core.approval import ApprovalPrompt
from gateway.core.errors import ConnectionLost
from gateway.core.messages import InboundMessage
from gateway.core.records import (
    ConsoleLease,
    QueueMode,
    SearchHit,
    SessionInfo,
    SessionPreview,
    WatchEvent,
)
from gateway.runtime.paths import socket_address

_CONNECT_S = 5.0


class ControlClient:
    """`Service` over the socket at `path`. Every call may raise `ConnectionLost`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    async def connect(cls, path: Path, *, timeout_s: float = _CONNECT_S) -> Self | None:
        """A client, or None when nobody listens at `path`.

        Raises `KoreError` when the one who listens may not be trusted or is of another version,
        `ConnectionLost` when it does not answer: it is stopped, or on its way out.
        """
        client = cls(path)
        try:
            async with asyncio.timeout(timeout_s):
                hello = await client._call("hello")
        except TimeoutError as exc:
            raise ConnectionLost(
                t("the running Kore does not respond"),
                hint=t(
                    "It may be suspended (Ctrl-Z) or busy; `cat {path}` shows its process.",
                    path=path.with_name("kore.lock"),
                ),
            ) from exc
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except PermissionError as exc:
            raise KoreError(t("{path} belongs to another user", path=path)) from exc
        if hello.get("protocol") != PROTOCOL:
            raise KoreError(
                t("the running Kore is a different version"), hint=t("Restart the gateway.")
            )
        return client

    async def submit(self, message: InboundMessage) -> None:
        await self._call("submit", message=inbound_to_json(message))

    @asynccontextmanager
    async def watch(self, lane: str) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        async with self._open("watch", {"lane": lane}) as reader:
            await _line(reader)  # "watching": from here on nothing is missed
            yield self._events(reader)

    async def answer_approval(self, nonce: str, answer: Answer, by: str) -> bool:
        return bool(await self._call("answer", nonce=nonce, answer=answer, by=by))

    async def list_approvals(self) -> Sequence[ApprovalPrompt]:
        return [question_from_json(item) for item in await self._call("approvals")]

    async def stop_turn(self, lane: str) -> bool:
        return bool(await self._call("stop", lane=lane))

    async def open_console(self, session: str | None, fresh: bool) -> ConsoleLease:
        return opened_from_json(await self._call("open_console", session=session, fresh=fresh))

    async def list_sessions(self, limit: int = 50) -> Sequence[SessionInfo]:
        return [session_from_json(item) for item in await self._call("sessions", limit=limit)]

    async def bound_session(self, lane: str) -> str | None:
        found: str | None = await self._call("bound", lane=lane)
        return found

    async def last_session(self, principal: str) -> str | None:
        found: str | None = await self._call("last_session", principal=principal)
        return found

    async def preview_session(self, session: str, first: int, last: int) -> SessionPreview:
        found = await self._call("glimpse", session=session, first=first, last=last)
        return glimpse_from_json(found)

    async def load_messages(self, session: str) -> Sequence[Message]:
        found = []
        async with self._open("messages", {"session": session}) as reader:
            while (line := await _line(reader)).get("type") != "end":
                found.append(message_from_json(line))
        return found

    async def queue_mode(self, lane: str) -> QueueMode:
        mode: QueueMode = await self._call("queue_mode", lane=lane)
        return mode

    async def conversation_status(self, lane: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._call("standing", lane=lane)
        return found

    async def background_tasks(self, session: str) -> Sequence[str]:
        return [str(each) for each in await self._call("background", session=session)]

    async def bind_session(self, lane: str, session: str | None) -> str:
        return str(await self._call("bind", lane=lane, session=session))

    async def search_messages(self, words: str, limit: int = 20) -> Sequence[SearchHit]:
        found = await self._call("search", words=words, limit=limit)
        return [found_from_json(item) for item in found]

    async def fork_session(self, session: str) -> str:
        return str(await self._call("fork", session=session))

    async def rename_session(self, session: str, name: str) -> str:
        return str(await self._call("rename", session=session, title=name))

    async def export_session(self, session: str) -> Sequence[str]:
        found = []
        async with self._open("lines", {"session": session}) as reader:
            while (line := await _line(reader)).get("type") != "end":
                found.append(str(line["line"]))
        return found

    async def import_session(self, file: Path) -> str:
        return str(await self._call("take_in", file=os.path.join(os.getcwd(), file)))

    async def set_session_status(self, session: str, status: str) -> str:
        return str(await self._call("set_status", session=session, status=status))

    async def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = await self._call("status")
        return status

    async def hand_over(self, successor: str) -> Sequence[str] | None:
        lanes: Sequence[str] | None = await self._call("hand_over", successor=successor)
        return lanes

    async def replay(self, seq: int) -> str:
        return str(await self._call("replay", seq=seq))

    async def reload(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._call("reload")
        return found

    async def summarize_person(self, principal: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._call("person", principal=principal)
        return found

    async def export_person(self, principal: str, target: Path) -> Mapping[str, Any]:
        file = os.path.join(os.getcwd(), target)
        found: Mapping[str, Any] = await self._call(
            "export_person", principal=principal, target=file
        )
        return found

    async def delete_person(self, principal: str, copies: bool) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._call(
            "delete_person", principal=principal, copies=copies
        )
        return found

    async def backup(self, target: Path) -> int:
        return int(await self._call("backup", target=os.path.join(os.getcwd(), target)))

    async def list_people(self) -> Mapping[str, Any]:
        people: Mapping[str, Any] = await self._call("people")
        return people

    async def approve_pairing(self, code: str) -> str:
        return str(await self._call("approve", code=code))

    async def invite_owner(self, channel: str, account: str) -> str:
        return str(await self._call("invite", channel=channel, account=account))

    async def revoke_pairing(self, who: str) -> str:
        return str(await self._call("revoke", who=who))

    async def list_grants(self) -> Sequence[Mapping[str, Any]]:
        grants: Sequence[Mapping[str, Any]] = await self._call("grants")
        return grants

    async def revoke_grants(self, grant: int | None) -> str:
        return str(await self._call("take_back", grant=grant))

    async def list_jobs(self) -> Sequence[Mapping[str, Any]]:
        jobs: Sequence[Mapping[str, Any]] = await self._call("jobs")
        return jobs

    async def change_job(self, action: str, wanted: Mapping[str, Any]) -> str:
        return str(await self._call("schedule", action=action, wanted=dict(wanted)))

    async def _events(self, reader: asyncio.StreamReader) -> AsyncIterator[WatchEvent]:
        while True:
            line = await _line(reader)
            try:
                event = watch_event_from_json(line)
            except KoreError:
                continue  # an event that only a newer Kore knows
            yield event

    async def _call(self, name: str, **arguments: Any) -> Any:
        try:
            async with self._open(name, arguments) as reader:
                return (await _line(reader))["value"]
        except (FileNotFoundError, ConnectionRefusedError) as exc:
            if name == "hello":
                raise
            raise ConnectionLost(t("Kore is no longer running")) from exc

    @asynccontextmanager
    async def _open(
        self, name: str, arguments: Mapping[str, Any]
    ) -> AsyncIterator[asyncio.StreamReader]:
        """One request; the reader stands at the start of a good answer's body."""
        body = encode_line(arguments)
        if len(body) > REQUEST_LIMIT_BYTES:
            raise KoreError(
                t(
                    "a request to Kore is limited to {REQUEST_LIMIT_BYTES:,} bytes",
                    REQUEST_LIMIT_BYTES=REQUEST_LIMIT_BYTES,
                )
            )
        with socket_address(self._path) as address:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_unix_connection(address, limit=LINE_LIMIT_BYTES)
        try:
            if not is_own_user(writer.get_extra_info("socket")):
                raise KoreError(t("{path} belongs to another user's process", path=self._path))
            fields = f"Content-Length: {len(body)}\r\nAccept-Language: {current_locale()}"
            head = f"POST /{name} HTTP/1.0\r\n{fields}\r\n\r\n"
            with _as_lost():
                writer.write(head.encode() + body)
                await writer.drain()
                status = await _status(reader)
            if status != 200:
                raise await _refusal(reader, status)
            yield reader
        finally:
            writer.close()


async def _status(reader: asyncio.StreamReader) -> int:
    """The status code; the headers are read past."""
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(None, 2)[1])


async def _refusal(reader: asyncio.StreamReader, status: int) -> KoreError:
    body = await reader.read(LINE_LIMIT_BYTES)
    if status >= 500:
        return KoreError(
            t("the running Kore failed to handle this request"),
            hint=t("See its log for the reason."),
        )
    return error_from_json(decode_object(body).get("error", {}))


async def _line(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next JSON line. Raises `ConnectionLost` at the end, and what the other side reports."""
    with _as_lost():
        line = await reader.readuntil(b"\n")
    data = decode_object(line)
    if data.get("type") == "failed":
        raise error_from_json(data["error"])
    return data


@contextmanager
def _as_lost() -> Iterator[None]:
    try:
        yield
    except (asyncio.IncompleteReadError, ConnectionError) as exc:
        raise ConnectionLost(t("Kore stopped during the request")) from exc
    except asyncio.LimitOverrunError as exc:
        raise KoreError(
            t(
                "Kore sent a line longer than {LINE_LIMIT_BYTES:,} bytes",
                LINE_LIMIT_BYTES=LINE_LIMIT_BYTES,
            )
        ) from exc
