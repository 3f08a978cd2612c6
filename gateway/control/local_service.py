"""The `Service` of the process that owns the data."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from agent.agent import Agent
from agent.errors import KoreError
from agent.i18n import current_locale, t
from agent.security.policy.base import Answer, PermissionMode, Scope
from agent.serialization import safe_text
from agent.types import Message
from agent.version import VERSION
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.pairing_service import PairingService
from gateway.bus.bus import MessageBus
from gateway.bus.ingest import AuditNotes
from gateway.control.replay import replay_error
from gateway.control.runtime_status import resident_bytes
from gateway.control.services.api_answer_service import ApiAnswerService
from gateway.control.services.attachment_service import Attachments, AttachmentService
from gateway.control.services.choice_service import ChoiceService
from gateway.control.services.data_owner import ConfigReload, DataHandover, DataOwner, UserData
from gateway.control.services.editor_service import EditorService
from gateway.control.services.follow_service import FollowService
from gateway.control.services.model_service import ModelService
from gateway.control.services.screen_service import Screens, ScreenService
from gateway.control.services.task_service import TaskService
from gateway.control.services.terminal_service import TerminalService
from gateway.core.approval import ApprovalPrompt, ApprovalReply
from gateway.core.event_hub import EventHub
from gateway.core.messages import (
    CONSOLE,
    ONCE,
    InboundMessage,
    Media,
    MessageOptions,
    Route,
    Sender,
    console_principal,
)
from gateway.core.records import (
    ConsoleLease,
    JobChange,
    MessageOutcome,
    NewJob,
    QueueMode,
    SearchHit,
    SessionInfo,
    SessionPreview,
    WatchEvent,
)
from gateway.core.token_routes import API
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.scheduler.service import JobService
from gateway.sessions import console_binding, lookup
from gateway.sessions.background_work import BackgroundWork
from gateway.sessions.console_binding import LOCAL, MAIN
from gateway.sessions.editor_hub import EditorHub
from gateway.sessions.lane_feed import lane_events
from gateway.sessions.project_feed import ProjectFeed
from gateway.sessions.service import SessionService, conversation_status
from gateway.sessions.session_feed import route_of_session
from gateway.store.errors import ReplayRefused
from gateway.store.port import Store, Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.access import grants
from gateway.store.repositories.conversations import session_folders, sessions
from gateway.store.repositories.conversations.session_admin import Status
from gateway.store.repositories.delivery import chats, inbox, undecoded_updates
from gateway.store.repositories.execution import answers, turns
from gateway.terminals.registry import TerminalRegistry
from gateway.turns.usage.limits import BillingDay
from gateway.turns.usage.model_caller import ModelCaller
from gateway.turns.usage.turn_log import TurnLog, failure_facts

P = ParamSpec("P")

_RESERVED_S = 30.0


class LocalService(
    FollowService,
    EditorService,
    ModelService,
    ApiAnswerService,
    ChoiceService,
    ScreenService,
    AttachmentService,
    TaskService,
    TerminalService,
    DataOwner,
):
    """Implements `gateway.control.service.Service` on the parts of this process."""

    def __init__(  # noqa: PLR0913 - its collaborators, named once in the container
        self,
        *,
        agent: Agent[Any],
        model_calls: ModelCaller,
        default_mode: Callable[[str], PermissionMode],
        editors: EditorHub,
        database: Store,
        bus: MessageBus,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        languages: UserLanguages,
        events: EventHub,
        approvals: ApprovalCoordinator,
        pairing: PairingService,
        audit_relay: AuditNotes,
        background: BackgroundWork,
        sessions: SessionService,
        jobs: JobService,
        feed: ProjectFeed,
        status: Callable[[], dict[str, Any]],
        workers: Callable[[], Awaitable[Mapping[str, Any] | None]],
        turn_log: TurnLog,
        user_data: Callable[[], UserData],
        screens: Screens,
        attachments: Attachments,
        terminals: TerminalRegistry,
        handover: DataHandover | None,
        reloader: ConfigReload | None,
    ) -> None:
        FollowService.__init__(self, database, events, approvals, sender)
        EditorService.__init__(self, editors)
        ModelService.__init__(self, agent, model_calls)
        ApiAnswerService.__init__(self, database)
        ChoiceService.__init__(self, database, lambda: agent.models, default_mode)
        ScreenService.__init__(self, screens)
        AttachmentService.__init__(self, attachments)
        TaskService.__init__(self, database, background, bus)
        TerminalService.__init__(self, terminals)
        DataOwner.__init__(self, user_data=user_data, handover=handover, reloader=reloader)
        self._bus = bus
        self._renderer = renderer
        self._languages = languages
        self._pairing = pairing
        self._audit_relay = audit_relay
        self._jobs = jobs
        self._feed = feed
        self._status = status
        self._workers = workers
        self._turn_log = turn_log
        self._sessions = sessions
        self._reserved_until: dict[str, float] = {}

    async def submit(self, message: InboundMessage) -> None:
        await self._bus.submit(message)
        if message.session_key.startswith(ONCE):
            # A one-shot run says it again to a new owner, which may have given it up.
            reason = await self._database.transact(inbox.fate, message)
            if reason is not None:
                raise KoreError(
                    t("Kore was restarted and dropped this run"),
                    hint=t("its progress is saved in the session: `kore agent -c`"),
                )

    @asynccontextmanager
    async def watch(
        self, lane: str, folder: str | None = None, after: int | None = None
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        with self._events.watch(lane) as watcher:
            self._reserved_until.pop(lane, None)
            for question in await self._approvals.open_questions(lane):
                watcher.put(self._approvals.request_event(question))
            await self._sender.retry_now(lane)
            async with self._feed.follow(lane, folder):
                yield lane_events(self._database, lane, after, watcher)

    async def send_message(
        self,
        session: str | None,
        text: str,
        event_id: str = "",
        mode: PermissionMode | None = None,
        media: tuple[Media, ...] = (),
        agent: str | None = None,
    ) -> str:
        agent_option = await self._agent_option(agent)
        session = session or await self.create_session()
        session = await self._database.transact(lookup.find, session)
        route = route_of_session(session)
        await self.bind_session(route.lane, session)
        message = InboundMessage(
            channel=route.channel,
            account=route.account,
            chat_id=route.chat_id,
            sender=Sender(str(os.getuid())),
            event_id=event_id or os.urandom(16).hex(),
            content=safe_text(text),
            received_at=time.time(),
            options=MessageOptions(mode=mode, agent=agent_option),
            media=await self._seen_media(media),
            language=current_locale(),
        )
        await self.submit(message)
        return session

    async def message_outcome(self, event_id: str) -> MessageOutcome:
        for channel in (CONSOLE, API):
            outcome = await self._database.transact(answers.find_outcome, channel, LOCAL, event_id)
            if outcome.state != "unknown":
                break
        return outcome

    async def create_session(self) -> str:
        principal = console_principal()
        session = await self._database.transact(sessions.create_session, principal, time.time())
        self._announce(session)
        return session

    async def stop_session(self, session: str) -> bool:
        session = await self._database.transact(lookup.find, session)
        # A turn that waits for an answer runs nowhere, and ends with its lane's stop too.
        lanes = await self._database.transact(sessions.lanes_of, session)
        at_work = self._events.lanes_at_work(session)
        stopped = [await self._bus.stop(lane) for lane in dict.fromkeys([*at_work, *lanes])]
        return any(stopped)

    async def answer_approval(
        self, nonce: str, answer: Answer, by: str, words: str = "", scope: Scope = "call"
    ) -> bool:
        is_first = await self._approvals.answer(nonce, ApprovalReply(answer, words, scope), by)
        await self._audit_relay.flush()
        return is_first

    async def list_approvals(self) -> Sequence[ApprovalPrompt]:
        return await self._approvals.open_questions()

    async def stop_turn(self, lane: str) -> bool:
        return await self._bus.stop(lane)

    async def open_console(self, session: str | None, fresh: bool) -> ConsoleLease:
        self._jobs.start_firing()
        session_chats = (
            await self._database.transact(console_binding.consoles_of, session) if session else []
        )
        numbered = (f"{MAIN}-{number}" for number in count(2))
        for chat_id in chain(session_chats, [MAIN], numbered):
            lane = Route(CONSOLE, LOCAL, chat_id).lane
            reserved = self._reserved_until.get(lane, 0) > time.monotonic()
            if reserved or self._events.is_watched(lane):
                continue
            # Before anything is awaited: a terminal that opens meanwhile gets another place.
            self._reserved_until[lane] = time.monotonic() + _RESERVED_S
            opened: ConsoleLease | None = None
            try:
                opened = await self._open_console(chat_id, session, fresh)
            finally:
                if opened is None:
                    del self._reserved_until[lane]
            if opened is not None:
                return opened
        raise AssertionError("there is always a further number")

    async def _open_console(
        self, chat_id: str, session: str | None, fresh: bool
    ) -> ConsoleLease | None:
        opened = await self._database.transact(
            console_binding.open_console, chat_id, session, fresh
        )
        if opened is None:
            return None
        if opened.session is not None and not fresh:
            await self._sessions.set_status(opened.session, "open")
        language = self._languages.choice_of(console_principal())
        return replace(opened, language=language)

    async def list_sessions(
        self, limit: int = 50, folder: str | None = None
    ) -> Sequence[SessionInfo]:
        return await self._database.transact(session_folders.list_sessions, limit, folder)

    async def bound_session(self, lane: str) -> str | None:
        return await self._database.transact(sessions.bound_session, lane)

    async def last_session(self, principal: str) -> str | None:
        return await self._database.transact(sessions.last_of, principal)

    async def preview_session(self, session: str, first: int, last: int) -> SessionPreview:
        return await self._sessions.preview(session, first, last)

    async def load_messages(self, session: str) -> Sequence[Message]:
        return await self._database.transact(_messages_of, session)

    async def queue_mode(self, lane: str) -> QueueMode:
        return await self._database.transact(sessions.queue_mode_of_lane, lane)

    async def conversation_status(self, lane: str) -> Mapping[str, Any]:
        return await self._database.transact(conversation_status, lane)

    async def bind_session(self, lane: str, session: str | None) -> str:
        bound = await self._database.transact(console_binding.bind, lane, session)
        if session is not None:
            # Continuing a paused session resumes it, for every lane that waits in it.
            await self._sessions.set_status(bound, "open")
        return bound

    async def search_messages(self, words: str, limit: int = 20) -> Sequence[SearchHit]:
        return await self._sessions.search(words, limit)

    async def fork_session(self, session: str, last: int | None = None) -> str:
        fork = await self._sessions.fork(session, last)
        self._announce(fork)
        return fork

    async def rename_session(self, session: str, name: str) -> str:
        sentence = await self._sessions.rename(session, name)
        self._announce(await self._database.transact(lookup.find, session))
        return sentence

    async def export_session(self, session: str) -> Sequence[str]:
        return await self._sessions.export_lines(session)

    async def import_session(self, file: Path) -> str:
        session = await self._sessions.import_session(file)
        self._announce(session)
        return session

    async def set_session_status(self, session: str, status: Status) -> str:
        sentence = await self._sessions.set_status(session, status)
        self._announce(await self._database.transact(lookup.find, session))
        return sentence

    async def status(self) -> Mapping[str, Any]:
        waiting = await self._database.transact(inbox.waiting_count)
        spent = await self._database.transact(usage.of_all, BillingDay.of(time.time()).began_at)
        questions = await self._approvals.open_questions()
        workers = await self._workers()
        processes = (*workers["alive"], *workers["ended"]) if workers is not None else ()
        logs = [one["log"] for one in processes if one["log"] is not None]
        status = self._status()
        return {
            "version": VERSION,
            "pid": os.getpid(),
            **status,
            **failure_facts([self._turn_log.facts(), *logs], status["model"]),
            "lanes_busy": self._bus.lanes,
            "messages_waiting": waiting,
            "config": self._reloader.facts() if self._reloader else None,
            "updates_undecoded": await self._database.transact(undecoded_updates.count) or None,
            "questions_open": len(questions),
            "obstacle": self._bus.obstacle,
            "routes_with_mail": self._sender.routes,
            "unreachable": await self._database.transact(chats.unreachable_chats),
            "parts_given_up": self._sender.given_up_count,
            "workers": workers,
            "memory_mb": resident_bytes() // 2**20,
            "spent_today": {
                "cost_usd": spent.known_usd,
                "input_tokens": spent.usage.input,
                "output_tokens": spent.usage.output,
                "calls": spent.calls,
                "calls_of_unknown_price": spent.unpriced,
            },
        }

    async def replay(self, seq: int) -> str:
        update = await self._database.transact(undecoded_updates.at, seq)
        if update is not None:
            return await self._decode_again(update)
        try:
            lane = await self._database.transact(turns.replay, seq)
        except ReplayRefused as refused:
            raise replay_error(seq, refused) from None
        self._bus.wake(lane)
        return t("Message {seq} is queued again on {lane}.", seq=seq, lane=lane)

    async def _decode_again(self, update: undecoded_updates.UndecodedUpdate) -> str:
        """Stored like any other batch, and once: its messages keep the platform's own ids."""
        channel = self._renderer.decoder(update.channel, update.account)
        if channel is None:
            raise KoreError(
                t(
                    "update {seq} is from {channel}, which is not running here",
                    seq=update.seq,
                    channel=f"{update.channel}:{update.account}",
                ),
                hint=t("Start `kore gateway` first."),
            )
        batch = replace(channel.decode_again(update.raw), can_wait=False)
        if batch.undecoded:
            raise KoreError(
                t(
                    "update {seq} still cannot be decoded: {reason}",
                    seq=update.seq,
                    reason=batch.undecoded[0].reason,
                )
            )
        await self._bus.accept(update.channel, update.account, batch)
        await self._database.transact(undecoded_updates.mark_decoded, update.seq)
        if not batch.messages:
            return t("Update {seq} is decoded; it contains no message for Kore.", seq=update.seq)
        return t(
            "Update {seq} is decoded; its message is queued on {lane}.",
            seq=update.seq,
            lane=batch.messages[0].session_key,
        )

    async def backup(self, target: Path) -> int:
        return await self._database.backup(target)

    async def list_people(self) -> Mapping[str, Any]:
        return await self._database.transact(self._pairing.people, time.time())

    async def approve_pairing(self, code: str) -> str:
        by = console_principal()
        return await self._run_pairing(self._pairing.approve, code, by, time.time())

    async def invite_owner(self, channel: str, account: str) -> str:
        return await self._run_pairing(self._pairing.invite, channel, account, time.time())

    async def revoke_pairing(self, who: str) -> str:
        by = console_principal()
        return await self._run_pairing(self._pairing.revoke, who, by, time.time())

    async def list_grants(self) -> Sequence[Mapping[str, Any]]:
        return [asdict(grant) for grant in await self._database.transact(grants.list_grants)]

    async def revoke_grants(self, grant: int | None) -> str:
        by = console_principal()
        revoked = await self._database.transact(grants.revoke_grant, grant, by, time.time())
        await self._audit_relay.flush()
        if grant is None:
            return t("{gone} revoked; you will be asked again.", gone=len(revoked))
        if not revoked:
            raise KoreError(
                t("no grant {grant}", grant=grant), hint=t("`kore policy grants` lists them")
            )
        return t("Revoked: {title}; you will be asked again.", title=revoked[0].title)

    async def list_audit(self, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        await self._audit_relay.flush()
        return await super().list_audit(limit)

    async def list_jobs(self) -> Sequence[Mapping[str, Any]]:
        return await self._jobs.jobs()

    async def add_job(self, job: NewJob) -> str:
        return await self._jobs.add_from_cli(job)

    async def change_job(self, number: int, change: JobChange) -> str:
        return await self._jobs.change_from_cli(number, change)

    async def _run_pairing(
        self,
        act: Callable[Concatenate[Transaction, P], tuple[bool, str]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> str:
        """The sentence. Raises `KoreError` with it when nothing was done."""
        done, sentence = await self._database.transact(act, *args, **kwargs)
        await self._audit_relay.flush()
        for lane in self._pairing.mention_lanes():
            self._sender.wake(lane)
        if not done:
            raise KoreError(sentence)
        return sentence


def _messages_of(tx: Transaction, session: str) -> list[Message]:
    return sessions.load_all(tx, lookup.find(tx, session))
