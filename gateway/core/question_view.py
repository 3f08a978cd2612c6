"""A question as every screen shows it: lines that hide nothing, and answers that say what they
grant."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent.events import ApprovalAsked, QuestionLine, QuestionOption, QuestionView, ServerQuestion
from agent.i18n import mark_for_translation, plural, t
from agent.mcp.names import is_mcp_tool
from agent.security.policy.base import Answer, Scope, options_for
from agent.security.policy.reasons import localized
from agent.text.visible import escape_for_approval
from agent.tools.files.draft_check import reason_to_insist
from gateway.core.approval import ApprovalPrompt

# A longer line goes on in further ones: what stands far to the right is not on every screen.
LINE_CHARS = 160
_CONTINUES = "↪ "
# More blanks, or more empty lines, would move what comes behind them out of sight.
_BLANKS = re.compile(r"[ \t]{41,}|\t{11,}")
_EMPTY_LINES = 2
_INDENT = "    "
_TITLE_CHARS = 60
_PATHS = ("path", "file_path")

_KEYS: dict[tuple[Answer, Scope], str] = {
    ("once", "call"): "y",
    ("session", "call"): "s",
    ("always", "call"): "a",
    ("session", "network"): "s",
    ("always", "network"): "a",
    ("always", "prefix"): "p",
    ("deny", "call"): "n",
}
_LABELS: dict[tuple[Answer, Scope], str] = {
    ("once", "call"): mark_for_translation("Allow once"),
    ("session", "call"): mark_for_translation("Allow exactly this for this session"),
    ("always", "call"): mark_for_translation("Always allow exactly this"),
    ("session", "network"): mark_for_translation(
        "Allow network to {hosts} for all commands of this session"
    ),
    ("always", "network"): mark_for_translation("Always allow network to {hosts} for all commands"),
    ("always", "prefix"): mark_for_translation("Always allow {prefix} (any arguments)"),
    ("deny", "call"): mark_for_translation("Deny"),
}


def approval_event(prompt: ApprovalPrompt, expires_s: float | None = None) -> ApprovalAsked:
    """The event of a question for screens, in the current language."""
    request = prompt.request
    options = options_for(request)
    event = ApprovalAsked(
        nonce=prompt.nonce,
        tool=request.tool,
        arguments=request.arguments,
        reason=request.reason,
        diff=request.diff,
        expires_s=expires_s,
        number=prompt.number,
        folder=str(request.folder) if request.folder else None,
        sends=request.sends,
        answers=tuple(option.answer for option in options if option.scope != "prefix"),
        prefix=str(request.prefix) if request.prefix else None,
        network=request.network,
        server_question=prompt.server_question,
        command=request.command,
        unbound=request.unbound,
        confinement=request.confinement,
        home_settings=request.home_settings,
        asker=prompt.asker if prompt.asker != prompt.principal else None,
    )
    return with_view(event)


def with_view(event: ApprovalAsked) -> ApprovalAsked:
    """The event with what a person is shown, in the current language."""
    query = event.server_question
    if query is not None:
        title = t("the MCP server {name} asks", name=query.server)
        lines = [*visible_lines(query.text, "quote"), *_asker(event)]
        options = _server_options(query)
    else:
        title = " ".join([event.tool, *_path_in_title(event).values()])
        lines, options = [*_call_lines(event)], _options(event)
    return replace(event, view=QuestionView(_one_line(title), tuple(lines), options))


def visible_lines(text: str, kind: Any = "code", indent: str = "") -> Iterator[QuestionLine]:
    """The lines of a text, with every character that hides something escaped.

    Long lines are continued, many blanks or empty lines are counted. `indent` stands in front of
    all lines but the first.
    """
    empty, before = 0, ""
    for number, line in enumerate(escape_for_approval(text).rstrip("\n").split("\n")):
        before = indent if number else ""
        if not line.strip():
            empty += 1
            continue
        yield from _empty_lines(empty, kind)
        empty = 0
        text_line = _BLANKS.sub(lambda blanks: f"\\u{{20}}×{len(blanks[0])}", f"{before}{line}")
        yield QuestionLine(kind, text_line[:LINE_CHARS])
        for at in range(LINE_CHARS, len(text_line), LINE_CHARS):
            yield QuestionLine(kind, f"{before}{_CONTINUES}{text_line[at : at + LINE_CHARS]}")
    yield from _empty_lines(empty, kind)


def _empty_lines(count: int, kind: Any) -> Iterator[QuestionLine]:
    if count > _EMPTY_LINES:
        yield QuestionLine(kind, plural(count, "({n} empty line)", "({n:,} empty lines)"))
    else:
        yield from (QuestionLine(kind, "") for _ in range(count))


def _one_line(text: str) -> str:
    return escape_for_approval(" ".join(text.split()))


def _path_in_title(event: ApprovalAsked) -> dict[str, str]:
    """The path that the title names, if it is short and plain, by the name of its argument."""
    for name in _PATHS if event.command is None else ():
        path = event.arguments.get(name)
        if isinstance(path, str) and len(path) <= _TITLE_CHARS and _one_line(path) == path:
            return {name: path}
    return {}


def _call_lines(event: ApprovalAsked) -> Iterator[QuestionLine]:
    """All of what would happen."""
    arguments = dict(event.arguments)
    code, details = None, arguments
    if event.command is not None:
        code = event.command
        details = {name: value for name, value in arguments.items() if value != code}
    elif event.diff:
        # It shows what the other arguments come to.
        details = {name: arguments[name] for name in _PATHS if name in arguments}
    elif event.sends and not is_mcp_tool(event.tool) and event.sends not in arguments.values():
        # What leaves for an MCP server are the arguments themselves.
        code = event.sends
    details = {n: value for n, value in details.items() if n not in _path_in_title(event)}
    lines = [
        *(visible_lines(code) if code is not None else ()),
        *_details({**details, **_further_details(event)}),
        *(visible_lines(event.diff, "diff") if event.diff else ()),
    ]
    yield from lines
    if event.diff and (insists := reason_to_insist(arguments)):
        text = t("Brings new errors; the model insists: {reason}", reason=insists)
        yield from visible_lines(text, "note", _INDENT)
    yield from visible_lines(localized(event.reason), "reason", _INDENT)
    if event.confinement == "none":
        yield QuestionLine("note", t("It runs without a sandbox."))
    if event.home_settings:
        names = ", ".join(event.home_settings)
        text = t("Files of earlier commands in its home: {names}", names=names)
        yield from visible_lines(text, "note", _INDENT)
    if event.unbound is not None and not event.network:
        text = t(
            "Exactly this can only be allowed once: which files {program} runs is not known.",
            program=event.unbound,
        )
        yield from visible_lines(text, "note", _INDENT)
    yield from _asker(event)


def _further_details(event: ApprovalAsked) -> dict[str, str]:
    """What the arguments do not tell, or not as it will be done."""
    details = {"in": event.folder or "", "network": ", ".join(event.network)}
    return {name: text for name, text in details.items() if text}


def _details(values: Mapping[str, Any]) -> Iterator[QuestionLine]:
    """Further lines of a value stand further in, so that none looks like another value."""
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield from visible_lines(f"{_one_line(name)}: {text}", "detail", _INDENT)


def _asker(event: ApprovalAsked) -> Iterator[QuestionLine]:
    if event.asker is not None:
        yield from visible_lines(t("Requested by {name}", name=event.asker), "note", _INDENT)


def _options(event: ApprovalAsked) -> tuple[QuestionOption, ...]:
    choices: list[tuple[Answer, Scope]] = []
    for answer in event.answers:
        lasts = answer in ("session", "always")
        choices.append((answer, "network" if lasts and event.network else "call"))
    if event.prefix is not None:
        choices.insert(-1, ("always", "prefix"))
    values = {"hosts": ", ".join(event.network), "prefix": event.prefix or ""}
    return tuple(
        QuestionOption(
            _KEYS[choice], escape_for_approval(t(_LABELS[choice]).format(**values)), *choice
        )
        for choice in choices
    )


def _server_options(query: ServerQuestion) -> tuple[QuestionOption, ...]:
    options = [
        QuestionOption(str(number), _one_line(choice), "once", words=choice)
        for number, choice in enumerate(query.choices, start=1)
    ]
    if query.otherwise:
        options.append(QuestionOption("y", _one_line(query.otherwise), "once"))
    return (*options, QuestionOption("n", t("Decline"), "deny"))
