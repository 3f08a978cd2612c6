"""Question of an approval at the terminal: its text and its choices by their keys."""

from agent.approvals import QuestionOption
from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t
from gateway.presenter.text import seconds

# With more choices than keys, the person types the chosen words.
_KEYS = "123456789"
SAY_WHY = mark_for_translation("Why not? Enter denies and tells the model, Escape goes back.")
WRITE_ANSWER = mark_for_translation("What you write goes to the server. Escape goes back.")


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


def choices_for(approval: ApprovalAsked) -> tuple[QuestionOption, ...]:
    """Return the answers to the question, with further options if words may be written."""
    query = approval.request.server_question
    is_listed = query is not None and len(query.choices) > len(_KEYS)
    choices = [option for option in approval.view.options if not (is_listed and option.words)]
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
