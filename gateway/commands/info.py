"""Informational commands: help, status, cost, agents, tools, skills, jobs, and access."""

import asyncio
from collections.abc import Iterator
from itertools import groupby

from agent.i18n import mark_for_translation, plural, t
from agent.version import VERSION
from gateway.commands import suggest
from gateway.commands.declaration import (
    CONVERSATION,
    MODEL,
    PERMISSIONS,
    THIS_CHAT,
    WORK,
    chat_command,
)
from gateway.commands.dispatcher import CommandCall
from gateway.commands.settings import model_of_call
from gateway.commands.table import COMMANDS
from gateway.core.errors import CommandRefused
from gateway.core.keyboard import KeyboardChoice
from gateway.core.markdown import code, escape_markdown
from gateway.store.port import Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.access import approvals
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import chats, undecoded_updates
from gateway.turns.agents.profiles import origin, profile_for, summary_of
from gateway.turns.tool_listing import beginning
from gateway.turns.usage.limits import BillingDay, usage_text

_MAX_UNREACHABLE = 5
_SKILL_CHARS = 150


@chat_command(
    "status", "show model, conversation and connection", group=THIS_CHAT, position=10, at_once=True
)
def answer_status(call: CommandCall, tx: Transaction) -> str:
    lines = [f"Kore {VERSION}", _model_line(call, model_of_call(call, tx))]
    if call.session:
        count = sessions.count_messages(tx, call.session)
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
            n=question.number,
            title=escape_markdown(question.title),
        )
        for question in approvals.open_questions(tx, call.message.session_key)
    ]
    if call.is_owner:
        lines += [
            f"{t(name)}: {escape_markdown(str(value))}"
            for name, value in call.services.status().items()
        ]
        if lost := undecoded_updates.count(tx):
            text = plural(
                lost,
                "{n} update could not be decoded; see the log for its number for `kore replay`",
                "{n} updates could not be decoded; see the log for their numbers for `kore replay`",
            )
            lines.append(f"⚠️ {text}")
        out = chats.unreachable_chats(tx)
        if out:
            unreachable = ", ".join(
                f"{mapping['chat']} ({mapping['reason']})" for mapping in out[:_MAX_UNREACHABLE]
            )
            more = " …" if len(out) > _MAX_UNREACHABLE else ""
            lines.append(
                t("Chats I cannot write to: {chats}", chats=escape_markdown(unreachable + more))
            )
    return "\n".join(lines)


def _model_line(call: CommandCall, name: str) -> str:
    """Return the line about the model, including the model that a configured name such as "default"
    refers to.
    """
    models = call.services.agent.models.known
    entry = next((model.model for model in models if model.name == name != model.model), None)
    return t("Model: {model}", model=code(name)) + (f" ({escape_markdown(entry)})" if entry else "")


_MAX_AGENTS = 40


@chat_command("agents", "list the sub-agents", group=WORK, position=50)
async def answer_agents(call: CommandCall) -> str:
    """List the names and summaries of agents, with their origin for the owner only."""
    services = call.services
    agents = await asyncio.to_thread(services.agent.subagents.load, call.folder)
    lines = []
    for agent in list(agents.values())[:_MAX_AGENTS]:
        summary = escape_markdown(summary_of(agent)[:120])
        where = f" ({escape_markdown(origin(agent))})" if call.is_owner else ""
        lines.append(f"- {code(agent.name)}{where}: {summary}")
    if len(agents) > _MAX_AGENTS:
        lines.append(t("… and {found} more: `kore agents list`", found=len(agents) - _MAX_AGENTS))
    return "\n".join([*lines, "", t("Ask me to give one of them a task.")])


@chat_command(
    "cost", "cost of this conversation and this chat today", group=MODEL, position=50, at_once=True
)
def answer_cost(call: CommandCall, tx: Transaction) -> str:
    return "\n".join(_cost_lines(call, tx))


def _cost_lines(call: CommandCall, tx: Transaction) -> Iterator[str]:
    started_at = BillingDay.of(call.now).began_at
    if call.session is not None:
        last = usage.of_last_turn(tx, call.session)
        yield t("Last answer: {spent}", spent=usage_text(last))
        session = usage.of_session(tx, call.session)
        yield t("This conversation: {spent}", spent=usage_text(session))
    chat = usage.of_chat(tx, usage.chat_of(call.message), started_at)
    yield t("This chat today: {spent}", spent=usage_text(chat))
    if call.services.access.is_private_owner(call.message):
        yield t("All chats today: {spent}", spent=usage_text(usage.of_all(tx, started_at)))


@chat_command("help", "list the commands", group=THIS_CHAT, position=50, at_once=True)
@chat_command("stop", "stop the current answer", group=CONVERSATION, position=90)
@chat_command("deny", "deny what I ask, and say why", group=PERMISSIONS, position=40, at_once=True)
def answer_help(call: CommandCall, tx: Transaction) -> str:
    return "\n\n".join(
        "\n".join(
            [
                f"**{t(group)}**",
                *(f"/{command.name} - {t(command.summary)}" for command in commands),
            ]
        )
        for group, commands in groupby(COMMANDS.values(), lambda command: command.group)
        if group is not None
    )


@chat_command("start", "say hello", audience="private", at_once=True)
def answer_start(call: CommandCall, tx: Transaction) -> str:
    return t("Hello, I'm Kore. Just write to me; /help lists what I can do.")


@chat_command("tools", "list the tools available here", group=WORK, position=60)
def answer_tools(call: CommandCall, tx: Transaction) -> str:
    """List the tools of the agent that answers this message."""
    speaks, tools = profile_for(call.message), call.services.agent.toolbox.specs()
    lines = [
        f"- {code(tool.name)}: {escape_markdown(beginning(tool.description))}"
        for tool in tools
        if speaks is None or speaks.chooses(tool.name)
    ]
    return "\n".join([*lines, "", t("`/mode` sets what runs without asking.")])


@chat_command("skills", "list the skills", group=WORK, position=70)
async def answer_skills(call: CommandCall) -> str:
    """List the skills of this chat's folder."""
    catalog = call.services.agent.skills
    skills = await asyncio.to_thread(catalog.load, call.folder) if catalog is not None else {}
    if not skills:
        return t("There are no skills here. `kore skills new NAME` makes one on Kore's machine.")
    return "\n".join(
        f"- {code(skill.name)}: {escape_markdown(skill.description[:_SKILL_CHARS])}"
        for skill in skills.values()
    )


_NO_EXIT_NEEDED = mark_for_translation(
    "There is nothing to exit in a chat. /new starts a new conversation."
)
_TERMINAL_ONLY = {
    "exit": _NO_EXIT_NEEDED,
    "quit": _NO_EXIT_NEEDED,
    "doctor": mark_for_translation(
        "Run `kore doctor` on the machine where Kore runs. /status shows the status here."
    ),
}


@chat_command("exit", "say where to find it", audience="nobody", at_once=True)
@chat_command("quit", "say where to find it", audience="nobody", at_once=True)
@chat_command("doctor", "say where to find it", audience="nobody", at_once=True)
def answer_elsewhere(call: CommandCall, tx: Transaction) -> str:
    raise CommandRefused(t(_TERMINAL_ONLY[call.name]))


def cron_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    choices = call.services.jobs.choices(tx, call.message)
    return [KeyboardChoice(label, "cron", argument) for label, argument in choices]


@chat_command(
    "cron",
    "reminders and scheduled tasks",
    group=WORK,
    position=100,
    choices=cron_choices,
    at_once=True,
)
def answer_cron(call: CommandCall, tx: Transaction) -> str:
    return call.services.jobs.handle_chat(tx, call.message, call.argument, call.session)


@chat_command(
    "pair", "manage access (owner only)", group=PERMISSIONS, position=50, audience="owner"
)
def answer_pair(call: CommandCall, tx: Transaction) -> str:
    return call.services.pairing.command(tx, call.message, call.argument, call.now)


@chat_command("", "say what was meant", audience="nobody", at_once=True)
def answer_mistyped(call: CommandCall, tx: Transaction) -> str:
    word = call.message.content.strip()
    catalog = call.services.agent.skills
    if catalog is not None and (names := catalog.commands(call.folder).equal_names(word)):
        listed = ", ".join(f"`/{name}`" for name in names)
        raise CommandRefused(t("`{word}` is in several plugins: {names}", word=word, names=listed))
    if name := suggest(word):
        raise CommandRefused(
            t("Unknown command `{word}`; did you mean `/{meant}`?", word=word, meant=name)
        )
    raise CommandRefused(t("Unknown command `{word}`. /help lists the commands.", word=word))
