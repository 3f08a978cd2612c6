"""`/tasks`: what goes on in the background of a conversation, and how to end it."""

from sqlite3 import Connection

from gateway.commands.call import CommandCall


def answer(call: CommandCall, connection: Connection) -> str:
    toolbox, session = call.office.agent.toolbox, call.session
    action, _, name = call.argument.partition(" ")
    if action and (action.casefold() != "kill" or not name.strip()):
        return "`/tasks` lists what runs in the background, `/tasks kill ID` ends one of it."
    tasks = toolbox.tasks(session) if session else []
    if not tasks:
        return "Nothing runs in the background of this conversation."
    if action:
        return _kill(call, session or "", name.strip())
    lines = [f"- `{task.id}` {_plain(task.title)}: {task.state}" for task in tasks]
    return "\n".join([*lines, "`/tasks kill ID` ends one (the owner only)."])


def _kill(call: CommandCall, session: str, name: str) -> str:
    if not call.is_owner:
        return "Only the owner may end what runs here."
    if not call.office.agent.toolbox.kill(session, name):
        return f"Nothing that runs here is called `{_plain(name)}`; `/tasks` lists it."
    return f"`{_plain(name)}` is being ended, with all that it started."


def _plain(text: str) -> str:
    """On one line, without marks of its own."""
    return "".join("'" if char == "`" else char for char in " ".join(text.split()))
