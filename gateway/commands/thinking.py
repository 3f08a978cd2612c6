"""`/thinking`: whether the model thinks before it answers, and whether screens show it."""

from collections.abc import Mapping
from dataclasses import replace
from sqlite3 import Connection
from typing import Any

from agent.i18n import mark_for_translation, t
from gateway.commands.dispatcher import CommandCall
from gateway.store.repositories import sessions
from gateway.store.repositories.sessions import ThinkingChoice

_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "on": {"wanted": True},
    "off": {"wanted": False},
    "default": {"wanted": None},
    "show": {"shown": True},
    "hide": {"shown": False},
}


def answer(call: CommandCall, connection: Connection) -> str:
    """Show or choose it for this conversation."""
    now = (
        sessions.thinking_of_session(connection, call.session) if call.session else ThinkingChoice()
    )
    if call.message.options.get("thinking") is True:
        now = replace(now, wanted=True)
    settings = call.office.agent.settings
    word = call.argument.casefold()
    if not word:
        known = ", ".join(f"`{choice}`" for choice in _CHOICES)
        return f"{_told(now, settings.thinking)} {t('`/thinking` takes {known}.', known=known)}"
    if word not in _CHOICES:
        known = ", ".join(f"`{choice}`" for choice in _CHOICES)
        return f"{t('`/thinking` takes {known}.', known=known)} {_told(now, settings.thinking)}"
    chosen = replace(now, **_CHOICES[word])
    sessions.choose_thinking(connection, call.begun_session(connection), chosen)
    return _told(chosen, settings.thinking)


def _told(now: ThinkingChoice, general: bool | None) -> str:
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
