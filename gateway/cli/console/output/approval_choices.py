"""What a person can answer to a question at the terminal, and the key for each."""

from agent.events import ApprovalAsked, ServerQuestion
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.policy.base import Answer, Scope
from agent.text.visible import escape_for_approval


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


# Beyond as many choices as there are such keys, the words of one are written.
_KEYS = "123456789"
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
    if approval.server_question is not None:
        return _choices_of_server(approval.server_question)
    return tuple(
        choice
        for choice in (_NETWORK if approval.network else _ALL)
        if (approval.prefix if choice.scope == "prefix" else choice.answer in approval.answers)
    )


def _choices_of_server(query: ServerQuestion) -> tuple[ApprovalChoice, ...]:
    is_listed = len(query.choices) > len(_KEYS)
    keys = () if is_listed else zip(_KEYS, query.choices, strict=False)
    choices = [
        ApprovalChoice(key, f"[{key}] {_literal(label)}", "once", words=label)
        for key, label in keys
    ]
    if query.takes_text or is_listed:
        label = mark_for_translation("[t] type the answer")
        choices.append(ApprovalChoice("t", label, "once", takes_words=True))
    if query.otherwise:
        label = f"[y] {_literal(query.otherwise)}"
        choices.append(ApprovalChoice("y", label, "once"))
    return (*choices, ApprovalChoice("n", mark_for_translation("[n] decline"), "deny"))


def _literal(label: str) -> str:
    """A label of the server's own, for which nothing is put in."""
    return escape_for_approval(label).replace("{", "{{").replace("}", "}}")


def choices_text(approval: ApprovalAsked) -> str:
    """All of them in one line."""
    names = {"prefix": approval.prefix or "", "hosts": ", ".join(approval.network)}
    return "  ".join(t(choice.label).format(**names) for choice in choices_for(approval))
