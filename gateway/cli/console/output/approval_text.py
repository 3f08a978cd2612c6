"""Approvals in words: what exactly would happen, what may be answered, and what was."""

from collections.abc import Sequence

from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t
from agent.mcp.names import is_mcp_tool
from agent.security.policy.base import Answer
from agent.text.visible import escape_for_approval
from agent.tools.files.draft_check import reason_to_insist
from gateway.cli.console.output.text import seconds

SAY_WHY = mark_for_translation("Why not? Enter denies and tells the model, Escape goes back.")
WRITE_ANSWER = mark_for_translation("What you write goes to the server. Escape goes back.")
_VERDICTS: dict[Answer, str] = {
    "once": mark_for_translation("allowed once"),
    "session": mark_for_translation("allowed for this session"),
    "always": mark_for_translation("always allowed (exactly this)"),
    "deny": mark_for_translation("denied"),
}


def subject(approval: ApprovalAsked) -> str:
    """Exactly what would happen, every character visible; a diff is shown beside it."""
    if (query := approval.server_question) is not None:
        head = t("the MCP server {name} asks", name=query.server)
        return escape_for_approval("\n  ".join([f"{head}:", *query.text.split("\n")]))
    arguments = {**approval.arguments, **_further_details(approval)}
    if isinstance(command := arguments.get("command"), str):
        others = [_row(name, value) for name, value in arguments.items() if name != "command"]
        return escape_for_approval("\n".join([f"{approval.tool}: {_indent(command)}", *others]))
    if approval.diff is not None and "path" in arguments:
        head = f"{approval.tool}: {arguments['path']}"
        if reason := reason_to_insist(arguments):
            head += f"\n  {t('Brings new errors; the model insists: {reason}', reason=reason)}"
        return escape_for_approval(head)
    rows = "\n".join(_row(name, value) for name, value in arguments.items())
    return escape_for_approval(f"{approval.tool}\n{rows}" if rows else approval.tool)


def _row(name: str, value: object) -> str:
    return f"  {name}: {_indent(str(value))}"


def _indent(text: str) -> str:
    """Its further lines stand further in, so that none looks like another argument."""
    return text.replace("\n", "\n    ")


def _further_details(approval: ApprovalAsked) -> dict[str, str]:
    """What the arguments alone do not tell."""
    # What leaves for an MCP server are the arguments themselves.
    sends = None if is_mcp_tool(approval.tool) else approval.sends
    details = {"in": approval.folder, "sends": sends}
    return {name: text for name, text in details.items() if text}


def time_left(left_s: float | None) -> str:
    """How long the question still waits; nothing when it waits until it is answered."""
    return "" if left_s is None else f"  ({t('{time} left', time=seconds(left_s))})"


def words_hint(approval: ApprovalAsked) -> str:
    """What the line is for that is to be written."""
    return t(SAY_WHY if approval.server_question is None else WRITE_ANSWER)


def server_verdict(answer: Answer) -> str:
    """What was said to a server."""
    return t("not answered") if answer == "deny" else t("answered")


def verdict(
    answer: Answer, words: str = "", prefix: str | None = None, network: Sequence[str] = ()
) -> str:
    decision = t(_VERDICTS[answer])
    if network and answer in ("session", "always"):
        decision = t(
            "allowed for this session: network to {hosts}"
            if answer == "session"
            else "always allowed: network to {hosts}",
            hosts=", ".join(network),
        )
    if prefix is not None:
        decision = t("always allowed: {prefix}", prefix=prefix)
    return f"{decision}: {escape_for_approval(words)}" if words else decision
