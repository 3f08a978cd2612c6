"""A question to a person as one Telegram message: what would happen, in code, with buttons."""

import json
from collections.abc import Iterator

from agent.events import ServerQuestion
from agent.i18n import t
from agent.mcp.names import is_mcp_tool
from agent.records import frozen
from agent.security.policy.base import ApprovalRequest
from agent.security.policy.reasons import localized
from agent.text.visible import escape_for_approval
from agent.tools.files.draft_check import reason_to_insist
from gateway.channels.telegram.outbound.render import REPEAT_NOTE
from gateway.channels.telegram.outbound.split import LIMIT_UNITS
from gateway.channels.telegram.utf16 import mend, units
from gateway.core.approval import ApprovalPrompt, buttons_for
from gateway.core.messages import Entity, OutboundFile, OutboundPart
from gateway.core.server_question import buttons_of

# The rest is for the head, the reason, what was decided, and a note that a retry may put in front.
_CODE_UNITS = LIMIT_UNITS - 1950 - units(REPEAT_NOTE)
_LINE_CHARS = 400


@frozen
class _Piece:
    text: str
    style: str | None = None
    language: str | None = None


def render_approval(question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
    """The question with its buttons; `decided` says what came of it, and takes their place.

    What does not fit is cut in the middle, with a note; then `render_details` has the full text,
    and only "once" can be allowed.
    """
    if question.server_question is not None:
        return _server_question(question, question.server_question, decided)
    code, language = _subject(question.request)
    shortened = _shorten(code)
    pieces = [*_pieces(question, shortened, language)]
    if shortened != code:
        note = t("⚠️ The middle is cut; the file above has the full text.")
        pieces.append(_Piece(f"\n{note}"))
    if decided:
        pieces.append(_Piece(f"\n\n{escape_for_approval(decided)[:_LINE_CHARS]}", "bold"))
        return _part(pieces)
    hint = t("Answer with the buttons; a reply to this message denies it and tells the model why.")
    pieces.append(_Piece(f"\n{hint}", "italic"))
    part = _part(pieces)
    buttons = buttons_for(question.nonce, question.request, lasts=shortened == code)
    return OutboundPart(part.text, part.entities, buttons)


def render_details(question: ApprovalPrompt) -> OutboundFile | None:
    """A file with all that would happen, when `render_approval` leaves something out; else None."""
    code, language = _subject(question.request)
    if question.server_question is not None or _shorten(code) == code:
        return None
    name = f"question-{question.number}.{'diff' if language == 'diff' else 'txt'}"
    return OutboundFile(name, text=code, size_bytes=len(code.encode()))


def _server_question(
    question: ApprovalPrompt, query: ServerQuestion, decided: str | None
) -> OutboundPart:
    """Words of a stranger, and who it is: a person must not take them for ours or the model's."""
    server = escape_for_approval(query.server)[:_LINE_CHARS]
    head = t("❓ Question {n}: the MCP server {name} asks", n=question.number, name=server)
    pieces = [
        _Piece(head, "bold"),
        _Piece("\n\n"),
        _Piece(_shorten(escape_for_approval(mend(query.text))), "blockquote"),
    ]
    if decided:
        pieces.append(_Piece(f"\n\n{escape_for_approval(decided)[:_LINE_CHARS]}", "bold"))
        return _part(pieces)
    hints = [t("Answer by a reply to this message.")] if query.takes_text else []
    if query.is_secret:
        hints.append(t("Delete your reply afterwards: this chat keeps it."))
    if hints:
        pieces.append(_Piece(f"\n\n{' '.join(hints)}", "italic"))
    if question.asker != question.principal:
        asker = t("Requested by {name}", name=escape_for_approval(question.asker)[:_LINE_CHARS])
        pieces.append(_Piece(f"\n{asker}"))
    part = _part(pieces)
    return OutboundPart(part.text, part.entities, buttons_of(question.nonce, query))


def _pieces(question: ApprovalPrompt, code: str, language: str | None) -> Iterator[_Piece]:
    # A command stands below, whole.
    request = question.request
    title = question.title if request.command is None else request.tool
    head = t("🔐 Question {n}: {title}", n=question.number, title=escape_for_approval(title))
    yield _Piece(head, "bold")
    if request.folder:
        place = t("in {folder}", folder=escape_for_approval(str(request.folder))[:_LINE_CHARS])
        yield _Piece(f"\n{place}")
    yield _Piece("\n")
    yield _Piece(code, "pre", language)
    if request.diff and (insists := reason_to_insist(request.arguments)):
        reason = escape_for_approval(insists)[:_LINE_CHARS]
        yield _Piece(f"\n{t('Brings new errors; the model insists: {reason}', reason=reason)}")
    yield _Piece(f"\n{escape_for_approval(localized(request.reason))[:_LINE_CHARS]}")
    if question.asker != question.principal:
        asker = t("Requested by {name}", name=escape_for_approval(question.asker)[:_LINE_CHARS])
        yield _Piece(f"\n{asker}")


def _subject(request: ApprovalRequest) -> tuple[str, str | None]:
    """Exactly what would happen, every character visible, and the language it is in."""
    arguments = dict(request.arguments)
    if request.command is not None:
        others = {name: value for name, value in arguments.items() if value != request.command}
        code, language = request.command + _format_arguments(others), "bash"
    elif request.diff:
        code, language = request.diff, "diff"
    elif request.sends is not None and not is_mcp_tool(request.tool):
        code, language = request.sends, None
    else:
        code, language = f"{request.tool}{_format_arguments(arguments)}", None
    return escape_for_approval(mend(code)).strip("\n") or t("(nothing)"), language


def _format_arguments(arguments: dict[str, object]) -> str:
    """Further lines of one stand further in, so that none looks like another argument."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
    }
    indented = {name: text.replace("\n", "\n    ") for name, text in texts.items()}
    return "".join(f"\n{name}: {text}" for name, text in indented.items())


def _shorten(code: str) -> str:
    """As much of both ends as fits."""
    if units(code) <= _CODE_UNITS:
        return code
    half = _CODE_UNITS // 2 - 40
    head, tail = code[:half], code[-half:]
    while units(head) > half:
        head = head[: -max(1, (units(head) - half) // 2)]
    while units(tail) > half:
        tail = tail[max(1, (units(tail) - half) // 2) :]
    missing = t("… {n:,} characters …", n=len(code) - len(head) - len(tail))
    return f"{head}\n{missing}\n{tail}"


def _part(pieces: list[_Piece]) -> OutboundPart:
    entities = []
    at = 0
    for piece in pieces:
        size = units(piece.text)
        if piece.style:
            extra = {"language": piece.language} if piece.language else {}
            entities.append(Entity(piece.style, at, size, extra))
        at += size
    return OutboundPart("".join(piece.text for piece in pieces), tuple(entities))
