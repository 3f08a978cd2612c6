"""Commands that choose a conversation: sessions, resume, new, fork, rename."""

import time
from collections.abc import Sequence

from agent.errors import KoreError
from agent.i18n import mark_for_translation, plural, t
from agent.tools.base import ToolEnvironment
from agent.turn.hook_chain import report_outside_turn
from gateway.commands.declaration import CONVERSATION, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.keyboard import KeyboardChoice
from gateway.core.markdown import code, escape_markdown
from gateway.core.messages import CONSOLE, Route
from gateway.core.records import SessionInfo, SessionState
from gateway.sessions import lookup
from gateway.sessions.background_work import stopped_tasks_text
from gateway.store.errors import SearchRefused
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import choices, search, session_admin, sessions
from gateway.store.repositories.conversations.search import Scope
from gateway.store.repositories.conversations.session_admin import SessionOwner

MAX_SESSIONS = 10
_MAX_HITS = 5
# Limit of older chunks that one command adds to the index, because everyone has to wait for it.
_MAX_INDEX_CHUNKS = 10


def session_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    """Return the numbers of the list, each bound to its conversation.

    Titles are not written into buttons, which are not encrypted.
    """
    infos = sessions.recent(tx, MAX_SESSIONS, scope_of(call))
    return [KeyboardChoice(str(n), "resume", info.id) for n, info in enumerate(infos, 1)]


@chat_command(
    "sessions",
    "list or search your conversations here",
    group=CONVERSATION,
    position=20,
    choices=session_choices,
    at_once=True,
    audience="private",
)
def answer_sessions(call: CommandCall, tx: Transaction) -> str:
    if call.argument:
        return _search(call, tx)
    infos = sessions.recent(tx, MAX_SESSIONS, scope_of(call))
    if not infos:
        return t("You have no conversations here yet.")
    return "\n".join(
        [t("Your conversations here:"), *session_lines(call, infos), "", t(_RESUME_HINT)]
    )


_RESUME_HINT = mark_for_translation("`/resume N` continues one, `/sessions WORDS` searches them.")


def scope_of(call: CommandCall) -> Scope:
    """Return the person's conversations in this chat.

    In private, the owner also gets the terminal's conversations; the terminal gets all
    conversations.
    """
    message = call.message
    if message.channel == CONSOLE:
        return Scope()
    alone = call.services.access.is_private_owner(message)
    chat = Route(message.channel, message.account, message.chat_id).lane
    return Scope(message.principal, chat, console=alone)


_STATES: dict[SessionState, str] = {
    "idle": "",
    "running": mark_for_translation("running"),
    "paused": mark_for_translation("paused"),
    "closed": mark_for_translation("closed"),
}


def session_lines(call: CommandCall, infos: Sequence[SessionInfo]) -> list[str]:
    return [
        f"{n}. `{info.id}` {escape_markdown(info.name) or t('(empty)')}"
        + f", {_date_text(info.last_active_at)}"
        + _state_text(info, is_current=info.id == call.session)
        for n, info in enumerate(infos, 1)
    ]


def _search(call: CommandCall, tx: Transaction) -> str:
    try:
        whole = any(search.enter_older(tx) for _ in range(_MAX_INDEX_CHUNKS))
        hits = search.look_up(tx, call.argument, scope_of(call), _MAX_HITS)
    except SearchRefused as refused:
        error = str(lookup.search_error(call.argument, refused))
        return escape_markdown(f"{error[0].upper()}{error[1:]}.")
    lines = [
        f"- `{hit.session}` {_date_text(hit.at)}: {escape_markdown(hit.snippet)}" for hit in hits
    ]
    if not whole:
        lines.append(t("Older messages are still being indexed; try again later to search them."))
    return "\n".join(lines) or t("Nothing found in your conversations here.")


def _state_text(info: SessionInfo, *, is_current: bool) -> str:
    states = [t("this one")] if is_current else []
    states += [t(_STATES[info.status])] if info.status != "idle" else []
    return f" ({', '.join(states)})" if states else ""


def _date_text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


@chat_command(
    "fork",
    "continue in a copy of this conversation",
    group=CONVERSATION,
    position=40,
    audience="private",
    replaces_window=True,
)
def answer_fork(call: CommandCall, tx: Transaction) -> str:
    if call.session is None:
        raise CommandRefused(t("Nothing to fork: this conversation is empty."))
    lane = call.message.session_key
    owner = SessionOwner(call.message.principal, lane)
    fork = session_admin.fork(tx, call.session, owner, call.now)
    sessions.bind(tx, lane, fork)
    return t(
        "This is now conversation `{fork}`, a copy. `/resume {session}` goes back.",
        fork=fork,
        session=call.session,
    )


@chat_command(
    "new",
    "start a new conversation",
    group=CONVERSATION,
    position=10,
    aliases=("clear", "reset"),
    replaces_window=True,
)
async def answer_new(call: CommandCall) -> str:
    session, is_left = await call.services.database.transact(_begin_session, call)
    text = t("New conversation `{id}`. The previous one is saved.", id=session)
    if call.session is None or not is_left:
        return text
    toolbox = call.services.agent.toolbox
    stop_notice = stopped_tasks_text(toolbox.tasks(call.session), code)
    await toolbox.end(call.session)
    await _report_end(call, call.session, "clear")
    return f"{text} {stop_notice}".rstrip()


def _begin_session(tx: Transaction, call: CommandCall) -> tuple[str, bool]:
    """Create a conversation; return it, and whether no chat uses the old one any more."""
    message, old = call.message, call.session
    if old is not None and sessions.is_begun_by(tx, old, call.claim.seq):
        return old, False  # a repetition after a crash, before the answer was stored
    session = sessions.create_session(tx, message.principal, call.now, lane=message.session_key)
    sessions.note_begun_by(tx, session, call.claim.seq)
    if old is not None:
        choices.carry_over(tx, old, session)
    return session, old is not None and not sessions.is_in_use(tx, old)


_AUTOMATIC_NAME = "auto"


@chat_command(
    "rename", "rename this conversation", group=CONVERSATION, position=50, audience="private"
)
def answer_rename(call: CommandCall, tx: Transaction) -> str:
    if not call.argument:
        name = session_admin.name_of(tx, call.session) if call.session else ""
        if not name:
            return t("What should this conversation be called? Send `/rename NAME`.")
        return t(
            "This conversation is called “{name}”. `/rename NAME` changes it; `/rename "
            "auto` restores the automatic name.",
            name=escape_markdown(name),
        )
    name = "" if call.argument == _AUTOMATIC_NAME else call.argument
    try:
        new_name = lookup.rename(tx, call.begun_session(tx), name)
    except KoreError as exc:
        raise CommandRefused(t("Not renamed: {exc}.", exc=escape_markdown(str(exc)))) from exc
    if new_name:
        return t("This conversation is now called “{name}”.", name=escape_markdown(new_name))
    return t("Automatic name restored for this conversation.")


@chat_command(
    "resume",
    "resume an earlier conversation",
    group=CONVERSATION,
    position=30,
    choices=session_choices,
    audience="private",
    replaces_window=True,
)
async def answer_resume(call: CommandCall) -> str:
    text, is_left = await call.services.database.transact(_resume_session, call)
    if call.session is not None and is_left:
        await _report_end(call, call.session, "resume")
    return text


async def _report_end(call: CommandCall, session: str, reason: str) -> None:
    """Report to hooks that the chat has left a conversation which no other chat uses."""
    agent = call.services.agent
    environment = ToolEnvironment(
        session=session,
        workspace=call.folder,
        memory=agent.workspace.owner_memory,
        places=agent.workspace.origin,
    )
    await report_outside_turn(agent, "SessionEnd", environment, {"reason": reason})


def _resume_session(tx: Transaction, call: CommandCall) -> tuple[str, bool]:
    """Return the answer, and whether no chat uses the earlier conversation any more."""
    argument, session = call.argument, call.session
    if not argument and session and session_admin.status_of(tx, session) == "paused":
        session_admin.set_status(tx, session, "open")
        return t("Continuing conversation `{here}`.", here=session), False
    infos = sessions.recent(tx, MAX_SESSIONS, scope_of(call))
    if not argument:
        lines = session_lines(call, infos) or [t("There are none yet.")]
        return "\n".join([t("`/resume N` continues one of these:"), *lines]), False
    if argument.isdecimal() and len(argument) <= len(str(MAX_SESSIONS)):
        if not 1 <= int(argument) <= len(infos):
            raise CommandRefused(
                t(
                    "There is no conversation number {wanted}; `/sessions` lists them.",
                    wanted=argument,
                )
            )
        session = infos[int(argument) - 1].id
    else:
        names = sessions.ids_with_prefix(tx, argument, scope_of(call))
        if len(names) != 1:
            raise CommandRefused(
                t(
                    "Several conversations match; `/sessions` lists them."
                    if names
                    else "None of your conversations match; `/sessions` lists them."
                )
            )
        (session,) = names
    session_admin.set_status(tx, session, "open")
    sessions.bind(tx, call.message.session_key, session)
    (info,) = sessions.recent(tx, 1, session=session)
    text = plural(
        info.messages,
        "Back in conversation `{id}` ({n} message).",
        "Back in conversation `{id}` ({n} messages).",
        id=session,
    )
    left = call.session
    return text, left not in (None, session) and not sessions.is_in_use(tx, left)
