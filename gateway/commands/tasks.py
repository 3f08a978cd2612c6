"""`/tasks`: what goes on in the background of a conversation, and how to end it."""

from collections.abc import Iterator, Sequence
from sqlite3 import Connection

from gateway.commands.call import CommandCall
from gateway.store import tasks as store
from gateway.store.tasks import Errand

_ERRANDS = 10


def answer(call: CommandCall, connection: Connection) -> str:
    toolbox, session = call.office.agent.toolbox, call.session
    action, _, name = call.argument.partition(" ")
    if action and (action.casefold() != "kill" or not name.strip()):
        return "`/tasks` lists what runs in the background, `/tasks kill ID` ends one of it."
    tasks = toolbox.tasks(session) if session else []
    if action:
        return _kill(call, session or "", name.strip())
    found = store.latest(connection, call.message.session_key, _ERRANDS)
    errands = list(_errands(call, found))
    if any(one.state == "running" for one in found):
        errands.append("`/stop NUMBER` ends a sub-agent, `/stop` all that goes on.")
    if not tasks:
        nothing = "Nothing runs in the background of this conversation."
        return "\n".join(errands) or nothing
    lines = [*errands, *(f"- `{task.id}` {_plain(task.title)}: {task.state}" for task in tasks)]
    return "\n".join([*lines, "`/tasks kill ID` ends one (the owner only)."])


def _errands(call: CommandCall, found: Sequence[Errand]) -> Iterator[str]:
    """The sub-agents of this chat: those that work, and the latest that have ended."""
    for one in found:
        took = (one.ended_at or call.now) - one.asked_at
        state = "works" if one.state == "running" else one.state
        where = " in the background" if one.background else ""
        yield f"- {one.agent} ({one.id}) {_plain(one.title)}: {state}{where}, {took:.0f} s"


def _kill(call: CommandCall, session: str, name: str) -> str:
    if not call.is_owner:
        return "Only the owner may end what runs here."
    if not call.office.agent.toolbox.kill(session, name):
        other = " `/stop NUMBER` ends a sub-agent." if name.isdecimal() else ""
        return f"Nothing that runs here is called `{_plain(name)}`; `/tasks` lists it.{other}"
    return f"`{_plain(name)}` is being ended, with all that it started."


def _plain(text: str) -> str:
    """On one line, without marks of its own."""
    return "".join("'" if char == "`" else char for char in " ".join(text.split()))
