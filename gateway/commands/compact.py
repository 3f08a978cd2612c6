"""`/compact`: makes room in the model's window now; what is asked for is kept above all."""

from agent.errors import KoreError
from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import escape_markdown


async def answer_compact(call: CommandCall) -> str:
    """Repeated after a crash, it finds done what was done."""
    try:
        return await call.office.compact(call.claim, call.argument)
    except KoreError as exc:
        # What it comes to is stored in one transaction: whatever failed, the old state stands.
        told = f"{exc}\n{exc.hint}" if exc.hint else str(exc)
        return t("⚠️ Nothing was changed: {exc}", exc=escape_markdown(told))
