"""Approvals as the gateway stores them: request, place, decision, buttons and texts."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from agent.approvals import Answer, ApprovalRequest, FolderAccess, QuestionOption, Scope
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.policy.base import AnswerOption, options_for
from agent.serialization import dumps
from gateway.core.markdown import join_lines
from gateway.core.messages import Button, Route

State = Literal["open", "once", "session", "always", "deny", "expired", "withdrawn"]

_MAX_TITLE_CHARS = 60
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


# Titles by whether calls may also change the files.
_FOLDER_TITLES = {False: "read files in ", True: "read and change files in "}


@frozen
class ApprovalReply:
    """Answer to an approval.

    The model reads the `words` of a denial; `scope` is the coverage of a permanent answer. For a
    server's question, `words` are the answer.
    """

    answer: Answer
    words: str = ""
    scope: Scope = "call"


@frozen
class ApprovalPrompt:
    """Approval that is requested from a person, and its decision.

    `number` and `title` identify it for people; `request` is redacted. The turn runs in `lane`, the
    question is sent to `route`. Relative paths start at `root`. `asker` is the person whose turn
    asks, `principal` the person who may answer. `by` is the person who decided, the model reads the
    `words` of a denial, `scope` is the coverage of a permanent answer. `value` is the answer to a
    server's question and is never stored. Times are Unix seconds; `expires_at` is infinite for an
    approval that waits until it is answered.
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
    """Return an unguessable name for an approval."""
    return secrets.token_urlsafe(12)


def title_of(request: ApprovalRequest) -> str:
    """Return a short title: the tool and the argument that identifies the call."""
    subject = request.command or next(
        (str(request.arguments[key]) for key in _TELLING if request.arguments.get(key)), ""
    )
    line = join_lines(f"{request.tool} {subject}")
    return line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1]}…"


def fingerprint(request: ApprovalRequest, root: Path, *, diff: bool) -> str:
    """Return a hash of everything that is approved: tool, exact arguments, folder, rule, contents
    of scripts, confinement and, with `diff`, the diff. Relative paths start at `root`."""
    bound = [
        request.tool,
        dict(request.arguments),
        request.rule,
        request.command,
        str(request.folder) if request.folder else None,
        request.sends,
        str(root),
        request.diff if diff else None,
        # Only when present, so that earlier answers about other calls keep their hash.
        *([] if request.contents is None else [request.contents]),
        *([] if request.confinement is None else [{"confinement": request.confinement}]),
    ]
    return hashlib.sha256(dumps(bound).encode()).hexdigest()


def prefix_fingerprints(request: ApprovalRequest, root: Path) -> dict[str, str]:
    """Return each prefix of the request by a hash of what an answer for any arguments is bound to:
    tool, prefix, contents of its scripts, confinement and `root`."""
    tool, confinement = request.tool, request.confinement
    bound = {
        dumps(["prefix", tool, prefix.words, prefix.contents, str(root), confinement]): str(prefix)
        for prefix in request.prefixes
    }
    return {hashlib.sha256(text.encode()).hexdigest(): name for text, name in bound.items()}


def recipient_fingerprint(request: ApprovalRequest) -> str | None:
    """Return a hash of what an answer about the recipient is bound to: its name and identity.

    None if a question about the request offers no such answer.
    """
    recipient = request.recipient
    if recipient is None or AnswerOption("always", "recipient") not in options_for(request):
        return None
    bound = ["recipient", recipient.server, recipient.identity]
    return hashlib.sha256(dumps(bound).encode()).hexdigest()


def network_fingerprints(request: ApprovalRequest, root: Path) -> dict[str, str]:
    """Return, for each host of the request, a hash of what an answer about the host is bound to:
    tool, host, `root` and confinement."""
    bound = {
        host: ["network", request.tool, host, str(root), request.confinement]
        for host in request.network
    }
    return {
        host: hashlib.sha256(dumps(values).encode()).hexdigest() for host, values in bound.items()
    }


def folder_fingerprint(access: FolderAccess, root: Path) -> str:
    """Return a hash of what an answer about a folder is bound to: path, access and `root`."""
    bound = ["folder", str(access.path), access.is_writable, str(root)]
    return hashlib.sha256(dumps(bound).encode()).hexdigest()


def folder_title(access: FolderAccess) -> str:
    """Return the title of a standing answer about a folder."""
    return f"{_FOLDER_TITLES[access.is_writable]}{access.path}"


def folder_of_title(title: str) -> FolderAccess | None:
    """Return the folder of a standing answer with this title; None for any other answer."""
    for is_writable, beginning in _FOLDER_TITLES.items():
        if title.startswith(beginning):
            return FolderAccess(Path(title.removeprefix(beginning)), is_writable)
    return None


def buttons_for(nonce: str, options: Sequence[QuestionOption]) -> tuple[Button, ...]:
    """Return the buttons of an approval with these options."""
    return tuple(Button(option.label, f"a:{_letter(option)}:{nonce}") for option in options)


def _letter(option: QuestionOption) -> str:
    if option.scope == "prefix":
        return _PREFIX
    return next(letter for letter, answer in _LETTERS.items() if answer == option.answer)


def read_press(data: str) -> tuple[str, Answer, Scope] | None:
    """Return nonce, answer and scope of an approval's button; None for any other button."""
    kind, _, rest = data.partition(":")
    letter, _, nonce = rest.partition(":")
    if kind != "a" or not nonce:
        return None
    if letter == _PREFIX:
        return nonce, "always", "prefix"
    answer = _LETTERS.get(letter)
    return None if answer is None else (nonce, answer, "call")


def audit_text(state: State, by: str | None) -> str:
    """Return the audit log's text about the end of an approval."""
    match state:
        case "expired":
            return "asked, and nobody answered in time"
        case "withdrawn":
            return "asked, and the question was withdrawn"
        case "once" | "session" | "always" | "deny":
            return f"asked, and {by or 'somebody'} {_DID[state]}"
    return "asked"


def audit_text_for_server(state: State, by: str | None) -> str:
    """Return the audit log's text about the end of a server's question, without the answer."""
    if state in ("once", "deny"):
        return f"asked, and {by or 'somebody'} {'answered' if state == 'once' else 'declined'}"
    return audit_text(state, by)


def audit_text_for_grant(session: str, by: str, about: str = "") -> str:
    """Return the audit log's text about a standing answer; `session` is '' for always."""
    did = _DID["session" if session else "always"]
    return f"not asked: {by} {did}" + (f" ({about})" if about else "")


def verdict(approval: ApprovalPrompt, *, names: bool = True) -> str:
    """Return the decision as text, with the person if `names`, and the words of a denial."""
    request = approval.request
    decision = t((_SERVER_VERDICTS if request.server_question else _VERDICTS)[approval.state])
    if approval.scope == "prefix":
        decision = t("✅ Always allowed: {prefix}", prefix=request.prefix_names)
    if approval.scope == "recipient" and request.recipient is not None:
        decision = t(
            "✅ Allowed for this session: private data for the MCP server {server}"
            if approval.state == "session"
            else "✅ The MCP server {server} is trusted with private data",
            server=request.recipient.server,
        )
    if approval.scope == "network":
        decision = t(
            "✅ Allowed for this session: network to {hosts}"
            if approval.state == "session"
            else "✅ Always allowed: network to {hosts}",
            hosts=", ".join(request.network),
        )
    if approval.scope == "folder" and request.folder_access is not None:
        decision = t(
            "✅ Allowed for this session: files in {folder}"
            if approval.state == "session"
            else "✅ Always allowed: files in {folder}",
            folder=str(request.folder_access.path),
        )
    if names and approval.by:
        decision = t("{decided} by {name}", decided=decision, name=approval.by)
    return f"{decision}: {approval.words}" if names and approval.words else decision
