"""Code actions of a server, by title."""

from collections.abc import Mapping
from typing import Any

from agent.code.lsp.protocol.positions import Position, TextLines
from agent.code.lsp.questions import DIAGNOSE_TIMEOUT_S, Question
from agent.text.visible import escape_line

_MAX_ACTIONS = 200


async def code_actions(question: Question) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the actions that the server offers for a line, or for the whole file, with their
    titles."""
    lines = TextLines(question.text)
    last = Position(len(lines) - 1, len(lines.line(len(lines) - 1)))
    start, end = Position(0, 0), last
    if (line := question.args.get("line")) is not None:
        number = min(max(0, int(line) - 1), len(lines) - 1)
        start, end = Position(number, 0), Position(number, len(lines.line(number)))
    await question.session.diagnose(question.path, DIAGNOSE_TIMEOUT_S)
    span = {
        "start": lines.to_wire(start, question.session.encoding),
        "end": lines.to_wire(end, question.session.encoding),
    }
    items = question.session.documents[question.path].raw_diagnostics
    context = {"diagnostics": [item for item in items if _is_in_span(item, span)]}
    params = {**question.document, "range": span, "context": context}
    answer = await question.ask(params)
    actions = answer if isinstance(answer, list) else []
    return [
        (escape_line(" ".join(str(action.get("title")).split())), action)
        for action in actions[:_MAX_ACTIONS]
        if isinstance(action, dict) and not action.get("disabled")
    ]


def _is_in_span(diagnostic: Any, span: Mapping[str, Any]) -> bool:
    try:
        line = diagnostic["range"]["start"]["line"]
        return bool(span["start"]["line"] <= line <= span["end"]["line"])
    except (TypeError, KeyError):
        return False
