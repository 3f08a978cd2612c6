"""An in-memory `Service` that stores messages, echoes them through events, and asks questions.

It follows the contract of `gateway.control.service`; the real service is
`gateway.calls.local_service`. The text of a message determines its turn, so that a test can trigger
every event that a screen must show.
"""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.approvals import Answer, ApprovalRequest, Scope
from agent.errors import KoreError
from agent.events import (
    ApprovalAnswered,
    Done,
    Error,
    FromAgent,
    IterationStart,
    Notice,
    SessionStart,
    Signalled,
    TextDelta,
    ToolResulted,
    UsageReport,
)
from agent.security.policy.base import PermissionMode
from agent.serialization import dumps, event_to_json, message_from_json, message_to_json
from agent.turn.tool_catalog import started_event
from agent.types import Message, Result, Signal, ToolCall, Usage, assistant, user
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import InboundMessage, QueueMode
from gateway.core.question_view import approval_event
from gateway.core.records import (
    ConsoleLease,
    Delivered,
    Excerpt,
    JobChange,
    NewJob,
    SearchHit,
    SessionInfo,
    SessionPreview,
    SessionState,
    WatchEvent,
)
from gateway.core.session_folder import SessionFolder
from gateway.core.turn_choice import TurnChoice


@dataclass
class StoredSession:
    info: SessionInfo
    messages: list[Message] = field(default_factory=list)


class MemoryService:
    """In-memory service: `async with MemoryService() as service`; turns run in its task group.

    Messages: `slow` works until stopped, `ask` and `!tool` request an approval, `tool` runs a tool,
    `denied` has two calls denied, `fail` ends in an error, `signal BLOCKED why` reports, `limit`
    reaches a limit, `/x` is a command; all others are echoed, or answered by the next of `replies`.
    """

    def __init__(self) -> None:
        self.mode: QueueMode | None = None
        self.modes: dict[str, PermissionMode] = {}
        self.running: list[str] = []
        self.replies: list[str] = []
        self.turn_offer: Sequence[TurnChoice] = ()
        self.submitted: list[InboundMessage] = []
        self.answers: list[tuple[str, Answer, str, str]] = []
        self.sessions_by_id: dict[str, StoredSession] = {}
        self.lanes: dict[str, str] = {}
        self.grants: dict[int, dict[str, Any]] = {}
        self.jobs: dict[int, NewJob] = {}
        # Approval request to use instead of the text of the message.
        self.approval_request: ApprovalRequest | None = None
        self._watchers: dict[str, list[asyncio.Queue[WatchEvent]]] = {}
        self._undelivered: dict[str, list[Delivered]] = {}
        self._delivered: dict[str, list[Delivered]] = {}
        self._running: dict[str, asyncio.Event] = {}
        self._queues: dict[str, asyncio.Queue[InboundMessage]] = {}
        self._pending_answers: dict[str, asyncio.Future[Answer]] = {}
        self._open: dict[str, ApprovalPrompt] = {}
        self._numbers = itertools.count(1)
        self._deliveries = itertools.count(1)

    async def __aenter__(self) -> "MemoryService":
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._workers: list[asyncio.Task[None]] = []
        return self

    async def __aexit__(self, *exc: Any) -> None:
        for worker in self._workers:
            worker.cancel()
        await self._group.__aexit__(None, None, None)

    async def submit(self, message: InboundMessage) -> None:
        self.submitted.append(message)
        lane = message.session_key
        if lane not in self._queues:
            self._queues[lane] = asyncio.Queue(maxsize=50)
            self._workers.append(self._group.create_task(self._work(lane)))
        await self._queues[lane].put(message)

    @asynccontextmanager
    async def watch(
        self, lane: str, folder: str | None = None, after: int | None = None
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue(maxsize=1000)
        delivered = self._delivered.setdefault(lane, [])
        for event in delivered if after is not None else ():
            if event.seq > (after or 0):
                queue.put_nowait(event)
        for event in self._undelivered.pop(lane, []):
            queue.put_nowait(event)
            delivered.append(event)
        self._watchers.setdefault(lane, []).append(queue)
        try:
            yield self._drain(queue)
        finally:
            self._watchers[lane].remove(queue)

    def watchers(self, lane: str) -> int:
        return len(self._watchers.get(lane, []))

    async def answer_approval(
        self, nonce: str, answer: Answer, by: str, words: str = "", scope: Scope = "call"
    ) -> bool:
        future = self._pending_answers.pop(nonce, None)
        question = self._open.pop(nonce, None)
        if future is None or question is None:
            return False
        if answer in ("session", "always"):
            number = next(self._numbers)
            self.grants[number] = {
                "id": number,
                "principal": question.principal,
                "session": question.session if answer == "session" else "",
                "title": question.title,
                "folder": str(question.request.folder or question.root),
                "granted_by": by,
                "granted_at": time.time(),
            }
        self.answers.append((nonce, answer, by, words))
        future.set_result(answer)
        return True

    async def list_approvals(self) -> Sequence[ApprovalPrompt]:
        return list(self._open.values())

    async def stop_turn(self, lane: str) -> bool:
        if lane not in self._running:
            return False
        self._running[lane].set()
        return True

    async def open_console(
        self, session: str | None, fresh: bool, folder: str | None = None
    ) -> ConsoleLease:
        chat = f"console-{next(self._numbers)}"
        lane = f"cli:local:{chat}"
        if session is None and not fresh and self.lanes:
            session = list(self.lanes.values())[-1]
        bound = await self.bind_session(lane, session) if session is not None else None
        last = max((event.seq for event in self._delivered.get(lane, ())), default=0)
        return ConsoleLease(chat, bound, bool(self._undelivered.get(lane)), delivered=last)

    async def list_sessions(
        self, limit: int = 50, folder: str | None = None
    ) -> Sequence[SessionInfo]:
        stored = sorted(self.sessions_by_id.values(), key=lambda s: -s.info.last_active_at)
        infos = [
            replace(s.info, messages=len(s.messages), folder=self._folder_of(s.info.id))
            for s in stored
        ]
        if folder is not None:
            infos = [info for info in infos if info.folder and info.folder.workspace == folder]
        return infos[:limit]

    def _folder_of(self, session: str) -> SessionFolder | None:
        folders = (
            message.options.folder
            for message in reversed(self.submitted)
            if self.lanes.get(message.session_key) == session and message.options.folder
        )
        return next(folders, None)

    async def bound_session(self, lane: str) -> str | None:
        return self.lanes.get(lane)

    async def last_session(self, principal: str, folder: str | None = None) -> str | None:
        listed = await self.list_sessions(1000, folder)
        open_ = (s for s in listed if s.principal == principal and s.status != "closed")
        return next((info.id for info in open_), None)

    async def preview_session(self, session: str, first: int, last: int) -> SessionPreview:
        result = self._find(session)
        excerpts = [
            Excerpt(m.role, m.text) for m in result.messages if m.role in ("user", "assistant")
        ]
        end = excerpts[first:][-last:] if last else []
        folder = self._folder_of(result.info.id)
        info = replace(result.info, messages=len(result.messages), folder=folder)
        return SessionPreview(info, tuple(excerpts[:first]), tuple(end))

    async def load_messages(self, session: str) -> Sequence[Message]:
        return list(self._find(session).messages)

    async def queue_mode(self, lane: str) -> QueueMode | None:
        return self.mode

    async def conversation_status(self, lane: str) -> Mapping[str, Any]:
        session = self.lanes.get(lane)
        waiting = self._queues[lane].qsize() if lane in self._queues else 0
        chosen = {"model": None, "mode": None, "cost_usd": 0.25 if session else None}
        return {"session": session, "waiting": waiting, **chosen}

    async def session_mode(self, session: str | None) -> PermissionMode:
        return self.modes.get(session or "", "ask")

    async def choose_mode(self, session: str, mode: PermissionMode) -> None:
        self.modes[session] = mode

    async def turn_choices(self, session: str) -> Sequence[TurnChoice]:
        return self.turn_offer

    async def background_tasks(self, session: str) -> Sequence[str]:
        return self.running

    async def bind_session(self, lane: str, session: str | None) -> str:
        if session is None:
            session = f"20260101_{next(self._numbers):06}"
            now = time.time()
            info = SessionInfo(session, "", "idle", lane, "cli:0", 0, now, now)
            self.sessions_by_id[session] = StoredSession(info)
        self.lanes[lane] = self._find(session).info.id
        return self.lanes[lane]

    async def search_messages(self, words: str, limit: int = 20) -> Sequence[SearchHit]:
        return [
            SearchHit(
                key, "", "cli:0", n, message.role, 0.0, message.text, ((at, at + len(words)),)
            )
            for key, stored in self.sessions_by_id.items()
            for n, message in enumerate(stored.messages, 1)
            if (at := message.text.find(words)) >= 0
        ][:limit]

    async def fork_session(self, session: str, last: int | None = None) -> str:
        result = self._find(session)
        if last is not None and not 0 <= last <= len(result.messages):
            raise KoreError(f"session {session} cannot be cut behind message {last}")
        fork = await self.bind_session("", None)
        self.sessions_by_id[fork].messages += result.messages[:last]
        return fork

    async def rename_session(self, session: str, name: str) -> str:
        result = self._find(session)
        result.info = replace(result.info, name=name)
        return f"It is called {name} now."

    async def export_session(self, session: str) -> Sequence[str]:
        result = self._find(session)
        meta = {"_type": "meta", "id": result.info.id, "title": result.info.name}
        return [dumps(line) for line in (meta, *map(message_to_json, result.messages))]

    async def import_session(self, file: Path) -> str:
        session_id = await self.bind_session("", None)
        try:
            rows = file.read_text().splitlines()
        except OSError as exc:
            raise KoreError(f"{file}: {exc.strerror}") from exc
        records = [json.loads(row) for row in rows]
        messages = [message_from_json(record) for record in records if "role" in record]
        self.sessions_by_id[session_id].messages += messages
        return session_id

    async def set_session_status(self, session: str, status: str) -> str:
        result = self._find(session)
        states: dict[str, SessionState] = {"open": "idle", "paused": "paused", "closed": "closed"}
        result.info = replace(result.info, status=states[status])
        return f"Session {result.info.id} is {status}."

    async def status(self) -> Mapping[str, Any]:
        return {
            "model": "offline/echo",
            "model_hint": "Set a key.",
            "workspace": "/w",
            "uptime_s": 3723,
            "channels": {
                "telegram:1": {"state": "polling", "last_poll_at": 0.5, "last_error": None}
            },
            "pid": 1,
        }

    async def reload(self) -> Mapping[str, Any]:
        return {"changed": [], "waiting": []}

    async def summarize_person(self, principal: str) -> Mapping[str, Any]:
        if ":" not in principal:
            raise KoreError(f"{principal!r} is nobody's id")
        theirs = [s for s in self.sessions_by_id.values() if s.info.principal == principal]
        return {"sessions": len(theirs), "found": bool(theirs)}

    async def export_person(self, principal: str, target: Path) -> Mapping[str, Any]:
        await self.summarize_person(principal)
        return {"file": str(target), "size_bytes": target.write_bytes(b"export")}

    async def delete_person(self, principal: str, copies: bool) -> Mapping[str, Any]:
        before = await self.summarize_person(principal)
        result = {k: s for k, s in self.sessions_by_id.items() if s.info.principal != principal}
        self.sessions_by_id = result
        return before

    async def hand_over(self, successor: str) -> Sequence[str] | None:
        return None

    async def replay(self, seq: int) -> str:
        if seq > len(self.submitted):
            raise KoreError(f"no message {seq}", hint="kore status lists them")
        return f"message {seq} is queued again"

    async def list_people(self) -> Mapping[str, Any]:
        return {"owner": None, "asking": [], "paired": []}

    async def approve_pairing(self, code: str) -> str:
        raise KoreError("No open request has this code.")

    async def invite_owner(self, channel: str, account: str) -> str:
        return f"{channel}-{account}-code"

    async def revoke_pairing(self, who: str) -> str:
        raise KoreError("Nobody has this id.")

    async def list_grants(self) -> Sequence[Mapping[str, Any]]:
        return list(self.grants.values())

    async def revoke_grants(self, grant: int | None) -> str:
        if grant is not None and grant not in self.grants:
            raise KoreError(f"no grant {grant}")
        gone = [number for number in self.grants if grant in (None, number)]
        for number in gone:
            del self.grants[number]
        return f"{len(gone)} revoked."

    async def list_jobs(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"id": number, "text": job.text, "kind": "prompt" if job.is_task else "reminder"}
            for number, job in self.jobs.items()
        ]

    async def add_job(self, job: NewJob) -> str:
        number = next(self._numbers)
        self.jobs[number] = job
        return f"Job {number} is set."

    async def change_job(self, number: int, change: JobChange) -> str:
        if number not in self.jobs:
            raise KoreError(f"there is no job {number} here")
        if change == "remove":
            del self.jobs[number]
        return f"Job {number}: {change}."

    async def backup(self, target: Path) -> int:
        return target.write_bytes(b"backup")

    async def _drain(self, queue: asyncio.Queue[WatchEvent]) -> AsyncIterator[WatchEvent]:
        while True:
            yield await queue.get()

    def _find(self, session: str) -> StoredSession:
        sessions = [s for key, s in self.sessions_by_id.items() if key.startswith(session)]
        if len(sessions) != 1:
            raise KoreError(f"no session {session!r}", hint="kore sessions list")
        return sessions[0]

    def _publish_event(self, lane: str, event: WatchEvent) -> None:
        watchers = self._watchers.get(lane)
        if isinstance(event, Delivered):
            event = replace(event, seq=next(self._deliveries))
            place = self._delivered if watchers else self._undelivered
            place.setdefault(lane, []).append(event)
        for queue in watchers or ():
            queue.put_nowait(event)

    async def _work(self, lane: str) -> None:
        while True:
            message = await self._queues[lane].get()
            if message.content.startswith("/"):
                text = f"command {message.content}"
                self._publish_event(lane, Delivered(text, "notice", message.event_id, True))
                continue
            self._running[lane] = asyncio.Event()
            try:
                await self._turn(lane, message)
            finally:
                del self._running[lane]

    async def _turn(self, lane: str, message: InboundMessage) -> None:
        if lane not in self.lanes:
            await self.bind_session(lane, None)
        stored = self._find(self.lanes[lane])
        session = stored.info.id
        self._publish_event(lane, SessionStart(session, "offline", "echo"))
        self._publish_event(lane, IterationStart(1, 50))
        result = await self._act(lane, message, Result(True, "", session, (), Usage(7, 3, 0)))
        stored.messages += [user(message.content), assistant(result.text)]
        self._publish_event(lane, UsageReport(result.usage))
        self._publish_event(lane, Done(result))
        self._publish_event(lane, Delivered(result.text, "final", message.event_id, True))

    async def _act(self, lane: str, message: InboundMessage, result: Result) -> Result:
        verb, _, rest = message.content.partition(" ")
        if verb == "slow":
            self._publish_event(lane, TextDelta("working"))
            await self._running[lane].wait()
            return replace(result, success=False, text="Stopped.", stopped="cancelled")
        if verb in ("ask", "!tool"):
            answer = await self._ask(lane, message)
            if answer is None:
                return replace(result, success=False, text="Stopped.", stopped="cancelled")
            return replace(result, text=f"answer: {answer}")
        if verb == "tool":
            self._publish_event(
                lane, started_event(ToolCall("1", "read_file", {"path": "notes.md"}, ""))
            )
            self._publish_event(
                lane, ToolResulted("1", "read_file", "a\nb\nc\nd", False, 0.1, kind="read")
            )
        if verb == "denied":
            call = ToolCall("1", "exec", {"command": rest}, "")
            self._publish_event(lane, started_event(call))
            denied = ToolResulted("1", "exec", "Not allowed.", True, 0.1, is_denied=True)
            self._publish_event(lane, denied)
            for step in (started_event(call), denied):
                self._publish_event(lane, FromAgent("explore", "7", "look", event_to_json(step)))
        if verb == "fail":
            self._publish_event(lane, Error("unavailable", "the model is away", "try later"))
            return replace(result, success=False, text="It failed.", stopped="error")
        if verb == "limit":
            return replace(result, success=False, text="Enough.", stopped="max_iterations")
        if verb == "signal":
            signal, _, reason = rest.partition(" ")
            known: Signal = "DECIDE" if signal == "DECIDE" else "BLOCKED"
            self._publish_event(lane, Signalled(known, reason))
            return replace(result, text=reason, signal=known, signal_reason=reason)
        if verb == "notice":
            self._publish_event(lane, Notice("info", rest))
        text = self.replies.pop(0) if self.replies else f"echo: {message.content}"
        self._publish_event(lane, TextDelta(text))
        return replace(result, text=text, messages=(assistant(text),))

    async def _ask(self, lane: str, message: InboundMessage) -> Answer | None:
        if message.options.auto:
            return "once"
        nonce = f"nonce-{next(self._numbers)}"
        future = self._pending_answers[nonce] = asyncio.get_running_loop().create_future()
        arguments = {"command": message.content}
        now = time.time()
        request = ApprovalRequest("exec", arguments, "exec asks", command=message.content)
        prompt = self._open[nonce] = ApprovalPrompt(
            nonce=nonce,
            number=1,
            title=f"exec {message.content}",
            request=request if self.approval_request is None else self.approval_request,
            lane=lane,
            session=self.lanes[lane],
            asker=message.principal,
            principal=message.principal,
            route=message.route,
            asked_at=now,
            expires_at=now + 60,
        )
        self._publish_event(lane, approval_event(prompt, 60.0))
        stopped = self._group.create_task(self._running[lane].wait())
        try:
            await asyncio.wait((future, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if not future.done():
            del self._pending_answers[nonce], self._open[nonce]
            self._publish_event(lane, ApprovalAnswered(nonce, "withdrawn", "deny"))
            return None
        answer = future.result()
        self._publish_event(lane, ApprovalAnswered(nonce, "cli:0", answer))
        return answer
