"""`/context` and `/compact`: what fills the model's window, and how to make room in it."""

from agent.errors import KoreError
from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import escape_markdown


async def answer_context(call: CommandCall) -> str:
    from agent.context.token_calibration import counted_as
    from agent.context.usage_chart import parts, usage_chart
    from agent.turn.context_usage import measure_context
    from gateway.store.repositories import sessions, windows
    from gateway.store.repositories.windows import SessionWindow
    from gateway.turns.agent_profiles import with_model

    services, session = call.services, call.session
    window, chosen = SessionWindow([], trimmed=False), None
    if session is not None:
        window = await services.database.transact(windows.load, session)
        chosen = await services.database.transact(sessions.chosen_model, session)
    speaking = services.permissions.audience(call.message)
    speaking = with_model(speaking, call.message, chosen, services.agent.models)
    found = measure_context(services.agent, speaking)
    memory = services.agent.workspace.text_of(speaking.memory)
    filled = parts(found, window.conversation, memory)
    told = counted_as(services.agent.models.open(speaking.model))
    if found.factor != 1:
        head = t(
            "Context window of {model} (estimate, scaled by {factor:.2f} to match the "
            "model's count):",
            model=escape_markdown(told),
            factor=found.factor,
        )
    else:
        head = t("Context window of {model} (estimated):", model=escape_markdown(told))
    return f"{head}\n```\n{usage_chart(found, filled)}\n```"


async def answer_compact(call: CommandCall) -> str:
    """Repeated after a crash, it finds done what was done."""
    try:
        return await call.services.compact(call.claim, call.argument)
    except KoreError as exc:
        # What it comes to is stored in one transaction: whatever failed, the old state stands.
        told = f"{exc}\n{exc.hint}" if exc.hint else str(exc)
        return t("⚠️ Nothing was changed: {exc}", exc=escape_markdown(told))
