"""Search, forks, names, status and export of whole sessions."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from agent.errors import KoreError
from agent.events import SessionClosed
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.serialization import event_to_json
from gateway.core.messages import console_principal, route_of_session
from gateway.core.records import SearchHit, SessionInfo, SessionPreview
from gateway.presenter.text import home_relative
from gateway.sessions import lookup
from gateway.sessions.background_work import BackgroundWork
from gateway.store.errors import SearchRefused
from gateway.store.port import Store, Transaction
from gateway.store.repositories import goals, usage
from gateway.store.repositories.conversations import (
    choices,
    search,
    session_admin,
    session_folders,
    sessions,
)
from gateway.store.repositories.conversations.search import Scope
from gateway.store.repositories.conversations.session_admin import SessionOwner, Status
from gateway.store.repositories.delivery import inbox

if TYPE_CHECKING:
    from gateway.core.transcript import Transcript


P = ParamSpec("P")

T = TypeVar("T")

_MAX_FILE_BYTES = 100 * 1000**2

_DONE: dict[Status, str] = {
    "open": mark_for_translation("Session {id} resumed."),
    "paused": mark_for_translation("Session {id} paused: new messages are queued."),
    "closed": mark_for_translation("Session {id} closed: its chat starts a new one."),
}


@frozen
class SessionService:
    """Search, forks, names, status and export of sessions, for the machine's owner."""

    database: Store
    wake: Callable[[str], None]
    publish: Callable[[str, SessionClosed], None]
    background: BackgroundWork

    async def search(self, words: str, limit: int = 20) -> Sequence[SearchHit]:
        try:
            while not await self.database.transact(search.enter_older):
                pass
            return await self.database.transact(search.look_up, words, Scope(), max(limit, 0))
        except SearchRefused as refused:
            raise lookup.search_error(words, refused) from None

    async def preview(self, session: str, first: int, last: int) -> SessionPreview:
        return await self._with(session_admin.preview, session, first, last)

    async def fork(self, session: str, last: int | None = None) -> str:
        owner = SessionOwner(console_principal())
        return await self._with(_fork, session, owner, last, time.time())

    async def rename(self, session: str, name: str) -> str:
        stored_name = await self._with(lookup.rename, session, name)
        return (
            t('Renamed to "{kept}".', kept=stored_name)
            if stored_name
            else t("Automatic name restored.")
        )

    async def export_lines(self, session: str) -> Sequence[str]:
        return await self._with(_lines, session)

    async def import_session(self, file: Path) -> str:
        from gateway.core.transcript import read

        text = await asyncio.to_thread(_text, file)
        try:
            transcript = await asyncio.to_thread(read, text)
        except KoreError as exc:
            raise KoreError(f"{file}: {exc}", hint=exc.hint) from exc
        owner = SessionOwner(console_principal())
        return await self.database.transact(_put, transcript, owner, time.time())

    async def set_status(self, session: str, status: Status) -> str:
        info, lanes = await self.database.transact(_set_status, session, status)
        for lane in lanes:
            self.wake(lane)
            if status == "closed":
                self.publish(lane, SessionClosed(info.id, info.name))
        ended = await self.background.end(info.id) if status == "closed" else ""
        return f"{t(_DONE[status], id=info.id)} {ended}".rstrip()

    async def _with(
        self,
        act: Callable[Concatenate[Transaction, str, P], T],
        session: str,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run the action for the session whose id is or starts with `session`."""

        def run(tx: Transaction) -> T:
            return act(tx, lookup.find(tx, session), *args, **kwargs)

        return await self.database.transact(run)


def _fork(tx: Transaction, session: str, owner: SessionOwner, last: int | None, now: float) -> str:
    if last is not None and not _can_end_at(tx, session, last):
        raise KoreError(
            t("session {session} cannot be cut behind message {last}", session=session, last=last),
            hint=t("Cut it behind an answer, or before one of your messages."),
        )
    return session_admin.fork(tx, session, owner, now, last=last)


def _can_end_at(tx: Transaction, session: str, last: int) -> bool:
    """Return whether a cut separates no call from its result and spares the running turn."""
    if not 0 <= last <= session_admin.count_settled(tx, session):
        return False
    around = {n: message for n, _, message in sessions.load_after(tx, session, last - 1, 2)}
    follower, message = around.get(last + 1), around.get(last)
    is_before_a_person = follower is None or follower.role == "user"
    is_answer = message is not None and message.role == "assistant" and not message.tool_calls
    return is_before_a_person or is_answer


def _lines(tx: Transaction, session: str) -> list[str]:
    from gateway.store.repositories.conversations import transcripts

    return transcripts.lines(tx, session)


def _put(tx: Transaction, transcript: "Transcript", owner: SessionOwner, now: float) -> str:
    from gateway.store.repositories.conversations import transcripts

    return transcripts.put(tx, transcript, owner, now)


def _text(file: Path) -> str:
    """Return the text of a file.

    Raises `KoreError` for an unreadable file, or one that is too large.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise KoreError(f"{file}: {exc.strerror}") from exc
    if len(content) > _MAX_FILE_BYTES:
        raise KoreError(
            t(
                "{file}: larger than the limit of {FILE_BYTES:,} bytes",
                file=file,
                FILE_BYTES=_MAX_FILE_BYTES,
            )
        )
    return content.decode("utf-8-sig", errors="replace")


def _set_status(tx: Transaction, session: str, status: Status) -> tuple[SessionInfo, Sequence[str]]:
    session_id = lookup.find(tx, session)
    if status == "closed" and session_admin.is_at_work(tx, session_id):
        raise KoreError(
            t("session {found} is busy", found=session_id),
            hint=t("Stop it first or wait for its answer."),
        )
    lanes = session_admin.set_status(tx, session_id, status)
    return sessions.recent(tx, 1, session=session_id)[0], lanes


def _named_session(tx: Transaction, lane: str) -> str | None:
    """Return the session that a lane is named after; it may have no messages yet."""
    stem = route_of_session("").lane
    session = lane.removeprefix(stem)
    is_named = lane.startswith(stem) and sessions.exists(tx, session)
    return session if is_named else None


def conversation_status(tx: Transaction, lane: str) -> dict[str, Any]:
    """Return the status of a lane's conversation as JSON.

    It includes the chosen model and mode (None: as in the settings), the number of waiting
    messages, the known cost, the folder, with `~` for the home folder, and the goal that is not
    met.
    """
    session = sessions.bound_session(tx, lane) or _named_session(tx, lane)
    folder = session_folders.of_session(tx, session) if session else None
    totals = usage.of_session(tx, session) if session else None
    goal = goals.of_lane(tx, lane)
    return {
        "session": session,
        "model": choices.load(tx, session).get(choices.MODEL) if session else None,
        "mode": sessions.chosen_mode(tx, session) if session else None,
        "waiting": sum(not m.is_for_goal for m in inbox.waiting_messages(tx, lane)),
        "folder": home_relative(folder.path) if folder else None,
        "cost_usd": totals.known_usd if totals is not None and totals.calls else None,
        "goal": event_to_json(goal.event) if goal and goal.state != "met" else None,
    }
