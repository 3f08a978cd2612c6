"""Questions of MCP servers during a call, put to people one field at a time."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agent.approvals import ServerQuestion
from agent.i18n import t
from agent.tools.elicitation import Elicitation, ElicitationAnswer, FormField, looks_secret
from gateway.core.approval import ApprovalPrompt
from gateway.core.question_view import MAX_BUTTONS

# Longer forms are declined, because they are impractical in a chat.
MAX_FIELDS = 15
_MAX_TRIES = 3
_MESSAGE_CHARS = 2_000
_MAX_URL_CHARS = 1_500

# Sends one question and returns the closed prompt; None when no person can be asked.
Put = Callable[[ServerQuestion], Awaitable[ApprovalPrompt | None]]


async def ask_person(
    put: Put, elicitation: Elicitation, learn: Callable[[Iterable[str]], None]
) -> ElicitationAnswer:
    """Ask a person to answer the server, field by field.

    Only a person's own button press, key or text accepts anything. `learn` receives secret-looking
    values before the server does, because its result may repeat them.
    """
    if len(elicitation.fields) > MAX_FIELDS:
        return ElicitationAnswer("decline")
    if elicitation.url is not None:
        return await _ask_to_open(put, elicitation)
    values: dict[str, Any] = {}
    for number, field in enumerate(elicitation.fields, start=1):
        answer = await _ask_field(put, elicitation, field, number)
        if isinstance(answer, ElicitationAnswer):
            return answer
        if field.is_secret or (not field.choices and looks_secret(elicitation.message)):
            learn(value for value in answer.values() if isinstance(value, str))
        values |= answer
    if len(elicitation.fields) == 1:
        return ElicitationAnswer("accept", values)
    ending = await put(_last_question(elicitation, values))
    return _refusal(ending) or ElicitationAnswer("accept", values)


async def _ask_to_open(put: Put, elicitation: Elicitation) -> ElicitationAnswer:
    """Ask the person to agree to open a page; this function does not open it."""
    host, url = elicitation.host, elicitation.url or ""
    if host is None or len(url) > _MAX_URL_CHARS:
        return ElicitationAnswer("decline")
    text = "\n".join(
        [
            _message(elicitation),
            "",
            t("It wants you to open a page on: {host}", host=host),
            url,
            "",
            t(
                "I do not open it. Open it yourself, and only if you expected it and know {host}.",
                host=host,
            ),
        ]
    )
    agreement = t("I agree to open it")
    query = ServerQuestion(elicitation.server, text, otherwise=agreement, url=url)
    return _refusal(await put(query)) or ElicitationAnswer("accept")


async def _ask_field(
    put: Put, elicitation: Elicitation, field: FormField, number: int
) -> dict[str, Any] | ElicitationAnswer:
    """Ask for a field; return its value by name, or the answer that ends the form.

    The value is absent when the person leaves an optional field out.
    """
    remark = ""
    for _ in range(_MAX_TRIES):
        query = _field_question(elicitation, field, number, remark)
        ending = await put(query)
        if (refusal := _refusal(ending)) is not None:
            return refusal
        words = ending.value if ending is not None else ""
        if not words and query.otherwise:
            return {}
        try:
            return {field.name: field.read(words)}
        except ValueError as exc:
            remark = str(exc)
    return ElicitationAnswer("cancel")


def _field_question(
    elicitation: Elicitation, field: FormField, number: int, remark: str
) -> ServerQuestion:
    choices = tuple(label for label, _ in field.choices)
    is_listed = field.takes_several or len(choices) > MAX_BUTTONS
    is_secret = field.is_secret or (not choices and looks_secret(elicitation.message))
    lines = [*([f"⚠ {remark}"] if remark else []), _message(elicitation), ""]
    head = field.title
    if len(elicitation.fields) > 1:
        head = f"{number}/{len(elicitation.fields)} {head}"
    lines += [head, *([field.description] if field.description else [])]
    if is_listed:
        lines += [f"{n}. {label}" for n, label in enumerate(choices, start=1)]
    if field.takes_several:
        lines.append(t("Answer with the numbers, separated by commas."))
    elif not choices:
        lines.append(t("Answer: {kind}", kind=field.kind))
    if is_secret:
        lines += ["", _warning(elicitation)]
    return ServerQuestion(
        elicitation.server,
        "\n".join(lines),
        () if is_listed else choices,
        takes_text=is_listed or not choices,
        otherwise=_otherwise(field),
        is_secret=is_secret,
    )


def _otherwise(field: FormField) -> str:
    """Return the meaning of an empty answer."""
    if "default" in field.schema:
        return t("Keep {value}", value=field.label_of(field.schema["default"]) or "…")
    return "" if field.is_required else t("Leave out")


def _last_question(elicitation: Elicitation, values: dict[str, Any]) -> ServerQuestion:
    """Return the final question, with all values to be sent.

    A form without fields asks for plain agreement.
    """
    if not elicitation.fields:
        return ServerQuestion(elicitation.server, _message(elicitation), otherwise=t("Accept"))
    whole = elicitation.defaults() | values
    rows = [
        f"{field.title}: {field.label_of(whole[field.name])}"
        for field in elicitation.fields
        if field.name in whole
    ]
    name = elicitation.server
    text = "\n".join([t("This would be sent to the MCP server {name}:", name=name), *rows])
    return ServerQuestion(elicitation.server, text, otherwise=t("Send"))


def _warning(elicitation: Elicitation) -> str:
    return t(
        "⚠ This looks like a password or another secret. The MCP server {name} asks for it, not "
        "the model, and gets what you write. Answer only if you trust that server with it.",
        name=elicitation.server,
    )


def _message(elicitation: Elicitation) -> str:
    text = elicitation.message.strip()
    return text if len(text) <= _MESSAGE_CHARS else f"{text[: _MESSAGE_CHARS - 1]}…"


def _refusal(ending: ApprovalPrompt | None) -> ElicitationAnswer | None:
    """Return the answer to the server if the person did not answer; else None."""
    if ending is None:
        return ElicitationAnswer("decline")
    match ending.state:
        case "once":
            return None
        case "deny":
            return ElicitationAnswer("decline")
    return ElicitationAnswer("cancel")
