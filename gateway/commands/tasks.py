"""`/tasks`: list and end the background work of a conversation."""

from collections.abc import Iterator, Sequence

from agent.i18n import mark_for_translation, t
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.markdown import code, escape_markdown
from gateway.store.port import Transaction
from gateway.store.repositories.execution import subagent_tasks as store
from gateway.store.repositories.execution.subagent_tasks import SubagentTask

_MAX_SUBAGENTS = 10
_STATES = {
    "running": mark_for_translation("running"),
    "done": mark_for_translation("done"),
    "failed": mark_for_translation("failed"),
    "stopped": mark_for_translation("stopped"),
}


@chat_command("tasks", "list background tasks", group=WORK, position=40, at_once=True)
def answer_tasks(call: CommandCall, tx: Transaction) -> str:
    toolbox, session = call.services.agent.toolbox, call.session
    action, _, name = call.argument.partition(" ")
    if action and (action.casefold() != "kill" or not name.strip()):
        raise CommandRefused(t("`/tasks` lists background tasks; `/tasks kill ID` stops one."))
    tasks = toolbox.tasks(session) if session else []
    if action:
        return _kill(call, session or "", name.strip())
    subagents = store.latest(tx, call.message.session_key, _MAX_SUBAGENTS)
    subagent_lines = list(_subagent_lines(call, subagents))
    if any(subagent.state == "running" for subagent in subagents):
        subagent_lines.append(t("`/stop NUMBER` stops a sub-agent; `/stop` stops everything."))
    if not tasks:
        nothing = t("No background tasks in this conversation.")
        return "\n".join(subagent_lines) or nothing
    lines = [
        *subagent_lines,
        *(f"- `{task.id}` {_title(task.title)}: {task.state}" for task in tasks),
    ]
    return "\n".join([*lines, t("`/tasks kill ID` stops one (owner only).")])


def _subagent_lines(call: CommandCall, subagents: Sequence[SubagentTask]) -> Iterator[str]:
    """Yield lines about this chat's sub-agents: all running ones and the latest ended ones."""
    for subagent in subagents:
        elapsed_s = (subagent.ended_at or call.now) - subagent.asked_at
        state = t(_STATES.get(subagent.state, subagent.state))
        if subagent.is_background:
            state = t("{state} in the background", state=state)
        name = f"{escape_markdown(subagent.agent)} ({subagent.id})"
        yield f"- {name} {_title(subagent.title)}: {state}, {elapsed_s:.0f} s"


def _kill(call: CommandCall, session: str, name: str) -> str:
    if not call.is_owner:
        raise CommandRefused(t("Only the owner can stop background tasks here."))
    if not call.services.agent.toolbox.kill(session, name):
        sentence = t("No background task is called {name}; see `/tasks`.", name=code(name))
        other = t("`/stop NUMBER` stops a sub-agent.") if name.isdecimal() else ""
        raise CommandRefused(f"{sentence} {other}".rstrip())
    return t("Stopping {name} and everything it started.", name=code(name))


def _title(text: str) -> str:
    return escape_markdown(" ".join(text.split()))
