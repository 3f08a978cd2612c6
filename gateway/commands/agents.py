"""`/agents`: who can be sent out to do a piece of work."""

from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import code, escape_markdown

_MAX_AGENTS = 40


async def answer_agents(call: CommandCall) -> str:
    """The names and what they are for; where each is from only for the owner."""
    import asyncio

    from gateway.turns.agent_profiles import origin, summary_of

    office = call.office
    found = await asyncio.to_thread(office.agent.subagents.load, call.folder)
    lines = []
    for one in list(found.values())[:_MAX_AGENTS]:
        told = escape_markdown(summary_of(one)[:120])
        where = f" ({escape_markdown(origin(one))})" if call.is_owner else ""
        lines.append(f"- {code(one.name)}{where}: {told}")
    if len(found) > _MAX_AGENTS:
        lines.append(t("… and {found} more: `kore agents list`", found=len(found) - _MAX_AGENTS))
    return "\n".join([*lines, "", t("Ask me to have one of them do something.")])
