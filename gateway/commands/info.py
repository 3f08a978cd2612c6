"""`/status`: model, conversation, and for the owner how the process is."""

from sqlite3 import Connection

from agent.i18n import plural, t
from agent.version import VERSION
from gateway.commands.dispatcher import CommandCall
from gateway.commands.model import model_of_call
from gateway.core.markdown import code, escape_markdown
from gateway.store.repositories import approvals, chats, sessions, undecoded_updates

_MAX_UNREACHABLE = 5


def answer_status(call: CommandCall, connection: Connection) -> str:
    lines = [f"Kore {VERSION}", _model_line(call, model_of_call(call, connection))]
    if call.session:
        count = sessions.count_messages(connection, call.session)
        lines.append(
            plural(
                count,
                "Conversation: `{id}`, {n} message",
                "Conversation: `{id}`, {n} messages",
                id=call.session,
            )
        )
    lines += [
        t(
            "Waiting for your answer to question {n}: {title}",
            n=one.number,
            title=escape_markdown(one.title),
        )
        for one in approvals.open_questions(connection, call.message.session_key)
    ]
    if call.is_owner:
        lines += [
            f"{t(name)}: {escape_markdown(str(value))}"
            for name, value in call.office.facts().items()
        ]
        if lost := undecoded_updates.count(connection):
            text = plural(
                lost,
                "{n} update could not be decoded; the log has its number for `kore replay`",
                "{n} updates could not be decoded; the log has their numbers for `kore replay`",
            )
            lines.append(f"⚠️ {text}")
        out = chats.unreachable_chats(connection)
        if out:
            listed = ", ".join(f"{one['chat']} ({one['reason']})" for one in out[:_MAX_UNREACHABLE])
            more = " …" if len(out) > _MAX_UNREACHABLE else ""
            lines.append(
                t("Chats I cannot write to: {chats}", chats=escape_markdown(listed + more))
            )
    return "\n".join(lines)


def _model_line(call: CommandCall, name: str) -> str:
    """With what a name of the configuration, such as "default", stands for."""
    known = call.office.agent.models.known
    entry = next((one.model for one in known if one.name == name != one.model), None)
    return t("Model: {model}", model=code(name)) + (f" ({escape_markdown(entry)})" if entry else "")
