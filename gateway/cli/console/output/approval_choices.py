"""What a person can answer to a question at the terminal, and the key for each."""

from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.policy.base import Answer, Scope


@frozen
class ApprovalChoice:
    """`takes_words`: a sentence for the model follows. `scope`: what a lasting yes is about."""

    key: str
    label: str
    answer: Answer
    takes_words: bool = False
    scope: Scope = "call"


_ALL = (
    ApprovalChoice("y", mark_for_translation("[y] once"), "once"),
    ApprovalChoice("s", mark_for_translation("[s] session"), "session"),
    ApprovalChoice("a", mark_for_translation("[a] always"), "always"),
    ApprovalChoice("p", mark_for_translation("[p] always {prefix}"), "always", scope="prefix"),
    ApprovalChoice("n", mark_for_translation("[n] no"), "deny"),
    ApprovalChoice("f", mark_for_translation("[f] no, because"), "deny", takes_words=True),
)
_NETWORK = (
    _ALL[0],
    ApprovalChoice("s", mark_for_translation("[s] {hosts} this session"), "session"),
    ApprovalChoice("a", mark_for_translation("[a] always {hosts}"), "always"),
    *_ALL[-2:],
)


def choices_for(approval: ApprovalAsked) -> tuple[ApprovalChoice, ...]:
    """Those that the question takes."""
    return tuple(
        choice
        for choice in (_NETWORK if approval.network else _ALL)
        if choice.answer in approval.answers and (choice.scope == "call" or approval.prefix)
    )


def choices_text(approval: ApprovalAsked) -> str:
    """All of them in one line."""
    names = {"prefix": approval.prefix or "", "hosts": ", ".join(approval.network)}
    return "  ".join(t(choice.label).format(**names) for choice in choices_for(approval))
