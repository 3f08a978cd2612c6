"""Choices of a question at the terminal, by their keys."""

from agent.approvals import QuestionOption
from agent.events import ApprovalAsked
from agent.i18n import t

# With more choices than keys, the person types the chosen words.
_KEYS = "123456789"


def choices_for(approval: ApprovalAsked) -> tuple[QuestionOption, ...]:
    """Return the answers to the question, with further options where words may be written."""
    query = approval.request.server_question
    is_listed = query is not None and len(query.choices) > len(_KEYS)
    choices = [each for each in approval.view.options if not (is_listed and each.words)]
    if query is None:
        choices.append(QuestionOption("f", t("Deny and say why"), "deny", takes_words=True))
    elif query.takes_text or is_listed:
        typed = QuestionOption("t", t("Type the answer"), "once", takes_words=True)
        choices.insert(-1, typed)
    return tuple(choices)


def choices_text(approval: ApprovalAsked, *, only_refusals: bool = False) -> str:
    """Return all choices, or the refusals, in one line."""
    return "  ".join(
        f"[{choice.key}] {choice.label}"
        for choice in choices_for(approval)
        if choice.answer == "deny" or not only_refusals
    )
