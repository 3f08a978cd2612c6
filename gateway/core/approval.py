"""A question to a person: what would happen, what may be answered, and what was decided."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from agent.approvals import Answer, ApprovalRequest, QuestionOption, Scope
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.serialization import dumps
from gateway.core.messages import Button, Route

State = Literal["open", "once", "session", "always", "deny", "expired", "withdrawn"]

_TITLE_CHARS = 60
_TELLING = ("path", "file_path", "url", "query")
_LETTERS: dict[str, Answer] = {"o": "once", "s": "session", "a": "always", "d": "deny"}
_PREFIX = "p"
_DID: dict[Answer, str] = {
    "once": "allowed it once",
    "session": "allowed it for this session",
    "always": "allowed it from now on",
    "deny": "denied it",
}
_VERDICTS: dict[State, str] = {
    "open": mark_for_translation("Open"),
    "once": mark_for_translation("✅ Allowed once"),
    "session": mark_for_translation("✅ Allowed for this session"),
    "always": mark_for_translation("✅ Always allowed (exactly this)"),
    "deny": mark_for_translation("⛔ Denied"),
    "expired": mark_for_translation("⌛ Expired, counted as denied"),
    "withdrawn": mark_for_translation("⏹ Withdrawn"),
}

_SERVER_VERDICTS: dict[State, str] = {
    **_VERDICTS,
    "once": mark_for_translation("✅ Answered"),
    "deny": mark_for_translation("⛔ Declined"),
    "expired": mark_for_translation("⌛ Not answered in time"),
}


@frozen
class ApprovalReply:
    """An answer, what is told to the model with a no, and what a lasting yes is about. To what a
    server asks, `words` are the answer itself."""

    answer: Answer
    words: str = ""
    scope: Scope = "call"


@frozen
class ApprovalPrompt:
    """An approval that is requested from a person.

    `number` and `title` tell it apart; `request` is what the call wants, without secrets. `lane` is
    where the turn runs, `route` where the question is put. `root` is where relative paths start.
    `asker` is whose turn asks, `principal` who may answer. `state` is what was decided, `by` who
    decided it, `words` what they wrote to the model with a no, `scope` what a lasting yes is about.
    With `server_question` an MCP server asks, and `value` is what it is answered, which is kept
    nowhere. Times are Unix seconds; `expires_at` is infinite for a question that waits until it is
    answered.
    """

    nonce: str
    number: int
    title: str
    request: ApprovalRequest
    lane: str
    session: str
    asker: str
    principal: str
    route: Route
    asked_at: float
    expires_at: float
    root: str = ""
    state: State = "open"
    by: str | None = None
    words: str = ""
    scope: Scope = "call"
    value: str = field(default="", repr=False)


def new_nonce() -> str:
    """Return a name for a question that nobody guesses."""
    return secrets.token_urlsafe(12)


def title_of(request: ApprovalRequest) -> str:
    """A few words: the tool, and what tells the call apart."""
    subject = request.command or next(
        (str(request.arguments[key]) for key in _TELLING if request.arguments.get(key)), ""
    )
    line = " ".join(f"{request.tool} {subject}".split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"


def fingerprint(request: ApprovalRequest, root: Path, *, diff: bool) -> str:
    """A hash of what is approved: tool, exact arguments, folder, rule, the contents of scripts,
    what confines the call and, if wanted, the diff.

    `root` is where relative paths start.
    """
    bound = [
        request.tool,
        dict(request.arguments),
        request.rule,
        request.command,
        str(request.folder) if request.folder else None,
        request.sends,
        str(root),
        request.diff if diff else None,
        # Only where there are any, so that older answers about other calls keep their hash.
        *([] if request.contents is None else [request.contents]),
        *([] if request.confinement is None else [{"confinement": request.confinement}]),
    ]
    return hashlib.sha256(dumps(bound).encode()).hexdigest()


def prefix_fingerprint(request: ApprovalRequest, root: Path) -> str | None:
    """A hash of what an answer for any arguments binds: tool, prefix, the contents of the scripts
    that it runs, what confines it, and `root`; None where there is no such answer."""
    prefix = request.prefix
    if prefix is None:
        return None
    confinement = request.confinement
    bound = ["prefix", request.tool, prefix.words, prefix.contents, str(root), confinement]
    return hashlib.sha256(dumps(bound).encode()).hexdigest()


def network_fingerprints(request: ApprovalRequest, root: Path) -> dict[str, str]:
    """For each host of the request a hash of what an answer about it binds: tool, host, `root` and
    what confines the command."""
    bound = {
        host: ["network", request.tool, host, str(root), request.confinement]
        for host in request.network
    }
    return {
        host: hashlib.sha256(dumps(values).encode()).hexdigest() for host, values in bound.items()
    }


def buttons_for(nonce: str, options: Sequence[QuestionOption]) -> tuple[Button, ...]:
    """The buttons of a question that takes these answers."""
    return tuple(Button(each.label, f"a:{_letter(each)}:{nonce}") for each in options)


def _letter(option: QuestionOption) -> str:
    if option.scope == "prefix":
        return _PREFIX
    return next(letter for letter, answer in _LETTERS.items() if answer == option.answer)


def read_press(data: str) -> tuple[str, Answer, Scope] | None:
    """Nonce, answer and what it is about, of a button of ours; None for any other button."""
    kind, _, rest = data.partition(":")
    letter, _, nonce = rest.partition(":")
    if kind != "a" or not nonce:
        return None
    if letter == _PREFIX:
        return nonce, "always", "prefix"
    answer = _LETTERS.get(letter)
    return None if answer is None else (nonce, answer, "call")


def audit_text(state: State, by: str | None) -> str:
    """What the audit log says of how a question ended."""
    match state:
        case "expired":
            return "asked, and nobody answered in time"
        case "withdrawn":
            return "asked, and the question was withdrawn"
        case "once" | "session" | "always" | "deny":
            return f"asked, and {by or 'somebody'} {_DID[state]}"
    return "asked"


def audit_text_for_server(state: State, by: str | None) -> str:
    """What the audit log says of how a server's question ended; never what was answered."""
    if state in ("once", "deny"):
        return f"asked, and {by or 'somebody'} {'answered' if state == 'once' else 'declined'}"
    return audit_text(state, by)


def audit_text_for_grant(session: str, by: str, about: str = "") -> str:
    """What the audit log says of an answer that was given before; `session` is '' for always."""
    did = _DID["session" if session else "always"]
    return f"not asked: {by} {did}" + (f" ({about})" if about else "")


def verdict(question: ApprovalPrompt, *, names: bool = True) -> str:
    """What was decided, by whom if it `names` them, and what they wrote to the model."""
    request = question.request
    decision = t((_SERVER_VERDICTS if request.server_question else _VERDICTS)[question.state])
    if question.scope == "prefix" and request.prefix is not None:
        decision = t("✅ Always allowed: {prefix}", prefix=str(request.prefix))
    if question.scope == "network":
        decision = t(
            "✅ Allowed for this session: network to {hosts}"
            if question.state == "session"
            else "✅ Always allowed: network to {hosts}",
            hosts=", ".join(request.network),
        )
    if names and question.by:
        decision = t("{decided} by {name}", decided=decision, name=question.by)
    return f"{decision}: {question.words}" if names and question.words else decision
