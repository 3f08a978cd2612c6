"""Views of approvals for all screens: complete content, the extent of each option, and buttons."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent.approvals import (
    Answer,
    ApprovalRequest,
    QuestionLine,
    QuestionOption,
    QuestionView,
    Scope,
    ServerQuestion,
)
from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, plural, t
from agent.mcp.settings import is_mcp_tool
from agent.security.policy.base import options_for
from agent.security.policy.reasons import localized
from agent.text.visible import escape_for_approval
from agent.tools.files.draft_check import reason_to_insist
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import Button

# Longer lines are wrapped, because narrow screens would cut them.
MAX_LINE_CHARS = 160
_CONTINUES = "↪ "
# More spaces or empty lines would push the following text out of sight.
_BLANKS = re.compile(r"[ \t]{41,}|\t{11,}")
_MAX_EMPTY_LINES = 2
_INDENT = "    "
_MAX_TITLE_CHARS = 60
_PATHS = ("path", "file_path")

_KEYS: dict[tuple[Answer, Scope], str] = {
    ("once", "call"): "y",
    ("session", "call"): "s",
    ("always", "call"): "a",
    ("session", "network"): "s",
    ("always", "network"): "a",
    ("session", "recipient"): "s",
    ("always", "recipient"): "a",
    ("session", "folder"): "s",
    ("always", "folder"): "a",
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
    ("session", "recipient"): mark_for_translation(
        "Allow private data for the MCP server {server} in this session"
    ),
    ("always", "recipient"): mark_for_translation(
        "Always trust the MCP server {server} with private data"
    ),
    ("session", "folder"): mark_for_translation("Allow reading files in {folder} for this session"),
    ("always", "folder"): mark_for_translation("Always allow reading files in {folder}"),
    ("always", "prefix"): mark_for_translation("Always allow {prefix} (any arguments)"),
    ("deny", "call"): mark_for_translation("Deny"),
}
_LABELS_FOR_CHANGES: dict[tuple[Answer, Scope], str] = {
    ("session", "folder"): mark_for_translation(
        "Allow reading and changing files in {folder} for this session"
    ),
    ("always", "folder"): mark_for_translation(
        "Always allow reading and changing files in {folder}"
    ),
}
# Beyond this number, choices are numbered in the text, and a reply names one of them.
MAX_BUTTONS = 10
_KIND = "e"
_OTHERWISE = "-"


def approval_event(prompt: ApprovalPrompt, expires_s: float | None = None) -> ApprovalAsked:
    """Return the event that shows an approval on screens, in the current language."""
    asker = prompt.asker if prompt.asker != prompt.principal else None
    return with_view(ApprovalAsked(prompt.nonce, prompt.request, prompt.number, expires_s, asker))


def with_view(event: ApprovalAsked) -> ApprovalAsked:
    """Return the event with its view in the current language."""
    return replace(event, view=view_of(event.request, event.asker))


def view_of(request: ApprovalRequest, asker: str | None = None) -> QuestionView:
    """Return the presentation of a request in the current language."""
    query = request.server_question
    if query is not None:
        title = t("the MCP server {name} asks", name=query.server)
        lines = [*visible_lines(query.text, "quote"), *_asker_lines(asker)]
        options = _server_options(query)
    else:
        title = " ".join([request.tool, *_path_in_title(request).values()])
        lines = [*_call_lines(request), *_asker_lines(asker)]
        options = _options(request)
    return QuestionView(_one_line(title), tuple(lines), options)


def visible_lines(text: str, kind: Any = "code", indent: str = "") -> Iterator[QuestionLine]:
    """Yield the lines of a text, with invisible and misleading characters escaped.

    Long lines are wrapped, long runs of blanks and empty lines are replaced by their number.
    `indent` precedes all lines but the first.
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
        yield QuestionLine(kind, text_line[:MAX_LINE_CHARS])
        for at in range(MAX_LINE_CHARS, len(text_line), MAX_LINE_CHARS):
            yield QuestionLine(kind, f"{before}{_CONTINUES}{text_line[at : at + MAX_LINE_CHARS]}")
    yield from _empty_lines(empty, kind)


def _empty_lines(count: int, kind: Any) -> Iterator[QuestionLine]:
    if count > _MAX_EMPTY_LINES:
        yield QuestionLine(kind, plural(count, "({n} empty line)", "({n:,} empty lines)"))
    else:
        yield from (QuestionLine(kind, "") for _ in range(count))


def _one_line(text: str) -> str:
    return escape_for_approval(" ".join(text.split()))


def _path_in_title(request: ApprovalRequest) -> dict[str, str]:
    """Return the argument to show as a path in the title; empty if it is not short and plain."""
    for name in _PATHS if request.command is None else ():
        path = request.arguments.get(name)
        if isinstance(path, str) and len(path) <= _MAX_TITLE_CHARS and _one_line(path) == path:
            return {name: path}
    return {}


def _call_lines(request: ApprovalRequest) -> Iterator[QuestionLine]:
    """Yield the lines that describe the call and the reason for the question."""
    arguments = dict(request.arguments)
    code, details = None, arguments
    if request.command is not None:
        code = request.command
        details = {name: value for name, value in arguments.items() if value != code}
    elif request.diff:
        # The diff shows the effect of the other arguments.
        details = {name: arguments[name] for name in _PATHS if name in arguments}
    elif (
        request.sends and not is_mcp_tool(request.tool) and request.sends not in arguments.values()
    ):
        # For an MCP server, the arguments themselves are sent.
        code = request.sends
    details = {n: value for n, value in details.items() if n not in _path_in_title(request)}
    lines = [
        *(visible_lines(code) if code is not None else ()),
        *_details({**details, **_further_details(request)}),
        *(visible_lines(request.diff, "diff") if request.diff else ()),
    ]
    yield from lines
    if request.diff and (insists := reason_to_insist(arguments)):
        text = t("Introduces new errors; the model insists: {reason}", reason=insists)
        yield from visible_lines(text, "note", _INDENT)
    yield from visible_lines(localized(request.reason), "reason", _INDENT)
    if request.confinement == "none":
        yield QuestionLine("note", t("It runs without a sandbox."))
    if request.home_settings:
        names = ", ".join(request.home_settings)
        text = t("Files of earlier commands in its home: {names}", names=names)
        yield from visible_lines(text, "note", _INDENT)
    if request.unbound is not None and not request.network:
        text = t(
            "This can only be allowed once: it is unknown which files {program} runs.",
            program=request.unbound,
        )
        yield from visible_lines(text, "note", _INDENT)


def _further_details(request: ApprovalRequest) -> dict[str, str]:
    """Return details that are not among the arguments."""
    details = {"in": str(request.folder or ""), "network": ", ".join(request.network)}
    return {name: text for name, text in details.items() if text}


def _details(values: Mapping[str, Any]) -> Iterator[QuestionLine]:
    """Yield a line per value; continuation lines are indented, so that none looks like a value."""
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield from visible_lines(f"{_one_line(name)}: {text}", "detail", _INDENT)


def _asker_lines(asker: str | None) -> Iterator[QuestionLine]:
    if asker is not None:
        yield from visible_lines(t("Requested by {name}", name=asker), "note", _INDENT)


def _options(request: ApprovalRequest) -> tuple[QuestionOption, ...]:
    access = request.folder_access
    labels = {**_LABELS, **(_LABELS_FOR_CHANGES if access and access.is_writable else {})}
    values = {
        "hosts": ", ".join(request.network),
        "prefix": request.prefix_names,
        "server": "" if request.recipient is None else request.recipient.server,
        "folder": "" if access is None else str(access.path),
    }
    return tuple(
        QuestionOption(
            _KEYS[option.answer, option.scope],
            escape_for_approval(t(labels[option.answer, option.scope]).format(**values)),
            option.answer,
            option.scope,
        )
        for option in options_for(request)
    )


def _server_options(query: ServerQuestion) -> tuple[QuestionOption, ...]:
    options = [
        QuestionOption(str(number), _one_line(choice), "once", words=choice)
        for number, choice in enumerate(query.choices, start=1)
    ]
    if query.otherwise:
        options.append(QuestionOption("y", _one_line(query.otherwise), "once"))
    return (*options, QuestionOption("n", t("Decline"), "deny"))


def buttons_of(nonce: str, query: ServerQuestion) -> tuple[Button, ...]:
    """Return a button for each choice, and always one to decline."""
    buttons = [
        Button(label, f"{_KIND}:{n}:{nonce}") for n, label in enumerate(query.choices, start=1)
    ]
    if query.otherwise:
        buttons.append(Button(query.otherwise, f"{_KIND}:{_OTHERWISE}:{nonce}"))
    return (*buttons, Button(t("Decline"), f"a:d:{nonce}"))


def read_choice(data: str) -> tuple[str, int] | None:
    """Return the nonce and number of a button for a server's question; None for other buttons.

    Number 0 is an empty answer.
    """
    kind, _, rest = data.partition(":")
    word, _, nonce = rest.partition(":")
    if kind != _KIND or not nonce or not (word.isdecimal() or word == _OTHERWISE):
        return None
    return nonce, 0 if word == _OTHERWISE else int(word)


def words_of(query: ServerQuestion, number: int) -> str:
    """Return the label of the button with this number."""
    return query.choices[number - 1] if 0 < number <= len(query.choices) else ""
