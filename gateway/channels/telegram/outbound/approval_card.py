"""Question to a person as one Telegram message: details as code, with buttons."""

from collections.abc import Collection, Sequence

from agent.approvals import QuestionLine, QuestionView, ServerQuestion
from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_for_approval, replace_lone_surrogates
from gateway.channels.telegram.outbound.render import REPEAT_NOTE
from gateway.channels.telegram.outbound.split import MAX_UNITS
from gateway.channels.telegram.utf16 import units
from gateway.core.approval import ApprovalPrompt, buttons_for
from gateway.core.messages import Entity, OutboundFile, OutboundPart
from gateway.core.question_view import approval_event, buttons_of

# The remaining space is for the heading, the reason, the answers or the decision, and a note about
# retries.
_CODE_UNITS = MAX_UNITS - 2350 - units(REPEAT_NOTE)
_MAX_LINE_CHARS = 400
_HEAD_UNITS, _NOTES_UNITS, _LABELS_UNITS = 300, 1000, 600
_MAX_BUTTON_CHARS = 40
# Kinds of lines: details, and notes about them.
_CODE, _NOTES = ("code", "detail", "diff"), ("reason", "note")


@frozen
class _Piece:
    text: str
    style: str | None = None
    language: str | None = None


def render_approval(question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
    """Render the question with its buttons; `decided` is the decision and replaces them.

    Long text is cut in the middle, with a note. `render_details` then returns the full text, and
    the call can be allowed only once.
    """
    view = approval_event(question).view
    if question.request.server_question is not None:
        return _server_question(question, question.request.server_question, view, decided)
    code = _text(view.lines, _CODE) or t("(nothing)")
    notes = _text(view.lines, _NOTES)
    shortened = _shorten(code, _CODE_UNITS)
    head = t("🔐 Question {n}: {title}", n=question.number, title=view.title)
    pieces = [
        _Piece(_shorten(head, _HEAD_UNITS), "bold"),
        _Piece("\n"),
        _Piece(shortened, "pre", _language(question)),
        _Piece(f"\n{_shorten(notes, _NOTES_UNITS)}"),
    ]
    is_whole = _is_whole(view)
    if not is_whole:
        note = t("⚠️ The middle is cut; the file above has the full text.")
        pieces.append(_Piece(f"\n{note}"))
    if decided:
        pieces.append(_Piece(f"\n\n{escape_for_approval(decided)[:_MAX_LINE_CHARS]}", "bold"))
        return _part(pieces)
    options = [option for option in view.options if is_whole or option.answer in ("once", "deny")]
    if any(len(option.label) > _MAX_BUTTON_CHARS for option in options):
        # Narrow screens truncate the labels of buttons.
        labels = "\n".join(f"• {option.label}" for option in options)
        pieces.append(_Piece(f"\n{_shorten(labels, _LABELS_UNITS)}"))
    hint = t("Answer with the buttons; a reply to this message denies it and tells the model why.")
    pieces.append(_Piece(f"\n{hint}", "italic"))
    part = _part(pieces)
    return OutboundPart(part.text, part.entities, buttons_for(question.nonce, options))


def render_details(question: ApprovalPrompt) -> OutboundFile | None:
    """Return a file with the full text when `render_approval` omits some of it, else None."""
    view = approval_event(question).view
    if question.request.server_question is not None or _is_whole(view):
        return None
    text = replace_lone_surrogates("\n".join(line.text for line in view.lines))
    name = f"question-{question.number}.{'diff' if _language(question) == 'diff' else 'txt'}"
    return OutboundFile(name, text=text, size_bytes=len(text.encode()))


def _is_whole(view: QuestionView) -> bool:
    """Return whether all lines fit into one message."""
    is_code_whole = units(_text(view.lines, _CODE)) <= _CODE_UNITS
    return is_code_whole and units(_text(view.lines, _NOTES)) <= _NOTES_UNITS


def _text(lines: Sequence[QuestionLine], kinds: Collection[str]) -> str:
    return replace_lone_surrogates("\n".join(line.text for line in lines if line.kind in kinds))


def _language(question: ApprovalPrompt) -> str | None:
    if question.request.command is not None:
        return "bash"
    return "diff" if question.request.diff else None


def _server_question(
    question: ApprovalPrompt, query: ServerQuestion, view: QuestionView, decided: str | None
) -> OutboundPart:
    """Render a server's question, naming the server, so that people do not attribute it to Kore."""
    head = t("❓ Question {n}: {title}", n=question.number, title=view.title)
    pieces = [
        _Piece(_shorten(head, _HEAD_UNITS), "bold"),
        _Piece("\n\n"),
        _Piece(_shorten(_text(view.lines, ("quote",)), _CODE_UNITS), "blockquote"),
    ]
    if decided:
        pieces.append(_Piece(f"\n\n{escape_for_approval(decided)[:_MAX_LINE_CHARS]}", "bold"))
        return _part(pieces)
    hints = [t("Answer by a reply to this message.")] if query.takes_text else []
    if query.is_secret:
        hints.append(t("Delete your reply afterwards: this chat keeps it."))
    if hints:
        pieces.append(_Piece(f"\n\n{' '.join(hints)}", "italic"))
    if notes := _text(view.lines, ("note",)):
        pieces.append(_Piece(f"\n{_shorten(notes, _NOTES_UNITS)}"))
    part = _part(pieces)
    return OutboundPart(part.text, part.entities, buttons_of(question.nonce, query))


def _shorten(text: str, limit_units: int) -> str:
    """Shorten the text in the middle."""
    if units(text) <= limit_units:
        return text
    half = limit_units // 2 - 40
    head, tail = text[:half], text[-half:]
    while units(head) > half:
        head = head[: -max(1, (units(head) - half) // 2)]
    while units(tail) > half:
        tail = tail[max(1, (units(tail) - half) // 2) :]
    missing = t("… {n:,} characters …", n=len(text) - len(head) - len(tail))
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
