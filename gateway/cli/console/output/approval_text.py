"""Texts for approvals: the question, the time left, and the answer."""

from collections.abc import Sequence

from agent.approvals import Answer
from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t
from agent.text.visible import escape_for_approval
from gateway.cli.console.output.text import seconds

SAY_WHY = mark_for_translation("Why not? Enter denies and tells the model, Escape goes back.")
WRITE_ANSWER = mark_for_translation("What you write goes to the server. Escape goes back.")
_VERDICTS: dict[Answer, str] = {
    "once": mark_for_translation("allowed once"),
    "session": mark_for_translation("allowed for this session"),
    "always": mark_for_translation("always allowed (exactly this)"),
    "deny": mark_for_translation("denied"),
}


def question_text(approval: ApprovalAsked) -> str:
    """Return the whole question as plain text."""
    view = approval.view
    return "\n  ".join([view.title, *(line.text for line in view.lines)])


def time_left(left_s: float | None) -> str:
    """Return the time until the question expires; an empty string if it never does."""
    return "" if left_s is None else f"  ({t('{time} left', time=seconds(left_s))})"


def words_hint(approval: ApprovalAsked) -> str:
    """Return the hint for the text input."""
    return t(SAY_WHY if approval.request.server_question is None else WRITE_ANSWER)


def server_verdict(answer: Answer) -> str:
    """Return the answer that was given to a server."""
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
