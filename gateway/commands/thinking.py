"""`/thinking`: whether the model thinks before it answers, and whether screens show it."""

from collections.abc import Mapping
from dataclasses import replace
from sqlite3 import Connection
from typing import Any

from agent.i18n import mark_for_translation, t
from gateway.commands.dispatcher import CommandCall
from gateway.store.repositories import sessions
from gateway.store.repositories.sessions import ThinkingChoice

_THINKING_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "on": {"wanted": True},
    "off": {"wanted": False},
    "default": {"wanted": None},
    "show": {"shown": True},
    "hide": {"shown": False},
}


def answer_thinking(call: CommandCall, connection: Connection) -> str:
    """Show or choose it for this conversation."""
    now = (
        sessions.thinking_of_session(connection, call.session) if call.session else ThinkingChoice()
    )
    if call.message.options.get("thinking") is True:
        now = replace(now, wanted=True)
    general = call.office.agent.settings.thinking
    word = call.argument.casefold()
    known = ", ".join(f"`{choice}`" for choice in _THINKING_CHOICES)
    usage, current = t("`/thinking` takes {known}.", known=known), _thinking_text(now, general)
    if not word:
        return f"{current} {usage}"
    if word not in _THINKING_CHOICES:
        return f"{usage} {current}"
    chosen = replace(now, **_THINKING_CHOICES[word])
    sessions.choose_thinking(connection, call.begun_session(connection), chosen)
    return _thinking_text(chosen, general)


def _thinking_text(now: ThinkingChoice, general: bool | None) -> str:
    wanted = general if now.wanted is None else now.wanted
    words = {
        True: mark_for_translation("on"),
        False: mark_for_translation("off"),
        None: mark_for_translation("as the model does by itself"),
    }
    return t(
        "Thinking in this conversation: {wanted}, shown."
        if now.shown
        else "Thinking in this conversation: {wanted}, hidden.",
        wanted=t(words[wanted]),
    )
