"""`/context` and `/compact`: usage of the context window, and compaction."""

from dataclasses import replace

from agent.context.focused_files import FileFocus
from agent.context.token_budget import counted_as
from agent.context.usage_chart import files_table, parts, usage_chart
from agent.errors import KoreError
from agent.i18n import t
from agent.turn.context_usage import measure_context
from gateway.commands.declaration import CONVERSATION, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.markdown import escape_markdown
from gateway.store.repositories.conversations import choices
from gateway.store.repositories.execution import windows
from gateway.store.repositories.execution.windows import SessionWindow
from gateway.turns.agents.profiles import with_model


@chat_command("context", "show what uses the context window", group=CONVERSATION, position=80)
async def answer_context(call: CommandCall) -> str:
    services, session = call.services, call.session
    window, session_model = SessionWindow([], trimmed=False), None
    if session is not None:
        window = await services.database.transact(windows.load, session)
        session_choices = await services.database.transact(choices.load, session)
        session_model = session_choices.get(choices.MODEL)
    audience = services.permissions.audience(call.message)
    audience = with_model(audience, call.message, session_model, services.agent.models)
    usage = measure_context(services.agent, audience)
    memory = services.agent.workspace.text_of(audience.memory)
    focus = FileFocus(services.agent.toolbox, audience.base)
    focused = focus.replay(window.messages, usage.focus_tokens)
    conversation = replace(window.conversation, messages=list(focused.messages))
    segments = parts(usage, conversation, memory)
    files = files_table(focused.files, audience.root, len(window.messages))
    table = usage_chart(usage, segments) + (f"\n\n{files}" if files else "")
    model = counted_as(services.agent.models.open(audience.model))
    if usage.factor != 1:
        head = t(
            "Context window of {model} (estimate, scaled by {factor:.2f} to match the "
            "model's count):",
            model=escape_markdown(model),
            factor=usage.factor,
        )
    else:
        head = t("Context window of {model} (estimated):", model=escape_markdown(model))
    return f"{head}\n```\n{table}\n```"


@chat_command(
    "compact",
    "summarize older messages to free context",
    group=CONVERSATION,
    position=70,
    replaces_window=True,
)
async def answer_compact(call: CommandCall) -> str:
    """Compact the conversation; a repetition after a crash does nothing."""
    try:
        return await call.services.compact(call.claim, call.argument)
    except KoreError as exc:
        # The result is stored in one transaction, so any failure leaves the old state.
        raise CommandRefused(t("⚠️ Nothing was changed: {exc}", exc=call.reason(exc))) from exc
