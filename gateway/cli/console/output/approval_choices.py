"""The keys for the answers to a question at the terminal."""

from agent.events import ApprovalAsked
from agent.i18n import t
from agent.records import frozen
from agent.security.policy.base import Answer, Scope

# Of more choices than there are such keys, the words of one are written.
_KEYS = "123456789"


@frozen
class ApprovalChoice:
    """`takes_words`: words follow, for the model with a no, for the server that asks with a yes.
    `scope`: what a lasting yes is about. `words` are those that the key alone stands for."""

    key: str
    label: str
    answer: Answer
    takes_words: bool = False
    scope: Scope = "call"
    words: str = ""


def choices_for(approval: ApprovalAsked) -> tuple[ApprovalChoice, ...]:
    """The answers that the question takes, and where words may be written, that."""
    query = approval.server_question
    is_listed = query is not None and len(query.choices) > len(_KEYS)
    choices = [
        ApprovalChoice(each.key, each.label, each.answer, scope=each.scope, words=each.words)
        for each in approval.view.options
        if not (is_listed and each.words)
    ]
    if query is None:
        choices.append(ApprovalChoice("f", t("Deny and say why"), "deny", takes_words=True))
    elif query.takes_text or is_listed:
        typed = ApprovalChoice("t", t("Type the answer"), "once", takes_words=True)
        choices.insert(-1, typed)
    return tuple(choices)


def choices_text(approval: ApprovalAsked, *, only_refusals: bool = False) -> str:
    """All of them in one line, or those that deny."""
    return "  ".join(
        f"[{choice.key}] {choice.label}"
        for choice in choices_for(approval)
        if choice.answer == "deny" or not only_refusals
    )
