"""Language of each person's messages."""

import os
from collections.abc import Callable

from agent.i18n import LANGUAGES, current_locale, t, use_locale
from gateway.core.messages import CONSOLE, InboundMessage, Route
from gateway.store.port import Transaction
from gateway.store.repositories import preferences
from gateway.store.repositories.execution.claims import CommandClaim, TurnClaim


class UserLanguages:
    """Language settings of people.

    A person's choice overrides the configuration, which overrides their app's language. Texts for
    no particular person use the language of this process. `configured` is one of `LANGUAGES`, or
    "auto". Choices and app languages are cached here as stored; `on_changed` is called after a
    change on disk.
    """

    def __init__(
        self, configured: str = "auto", on_changed: Callable[[], None] = lambda: None
    ) -> None:
        self.configure(configured)
        self._on_changed = on_changed
        self._default = current_locale()
        self._client_languages: dict[str, str] = {}
        self._choices: dict[str, str] = {}

    def configure(self, configured: str) -> None:
        self._configured = configured if configured in LANGUAGES else None

    def load(self, tx: Transaction) -> None:
        """Replace the cache with the stored values."""
        rows = preferences.client_languages(tx)
        # A newer version of Kore may have stored a language unknown here.
        client_languages = {
            who: client_language for who, client_language, _ in rows if client_language in LANGUAGES
        }
        choices = {who: choice for who, _, choice in rows if choice in LANGUAGES}

        def keep() -> None:
            self._client_languages, self._choices = client_languages, choices

        tx.after_commit(keep)

    def of(self, message: InboundMessage) -> str:
        """Return the language of the message's sender."""
        return self._configured_for(message.principal) or self._client_language(message)

    def of_claim(self, claim: TurnClaim | CommandClaim) -> str:
        """Return the language of the answered person, or of the last one if there are several."""
        return self.of(claim.message if isinstance(claim, CommandClaim) else claim.messages[-1])

    def of_person(self, principal: str) -> str:
        return self._configured_for(principal) or self._last(principal)

    def of_route(self, route: Route) -> str:
        """Return the language of a chat's reader: a private chat has the id of its person."""
        reader = str(os.getuid()) if route.channel == CONSOLE else route.chat_id
        return self.of_person(f"{route.channel}:{reader}")

    def text_for(self, route: Route, english: str) -> str:
        """Return a text in the language of the chat's reader."""
        with use_locale(self.of_route(route)):
            return t(english)

    def choice_of(self, principal: str) -> str | None:
        return self._choices.get(principal)

    def record_client_language(self, tx: Transaction, message: InboundMessage) -> None:
        """Store the language of a person's app, for messages that Kore starts."""
        if message.language in LANGUAGES and message.language != self._client_languages.get(
            message.principal
        ):
            preferences.record_client_language(tx, message.principal, message.language)
            update = {message.principal: message.language}
            tx.after_commit(lambda: self._client_languages.update(update))
            tx.after_commit(self._on_changed)

    def choose(self, tx: Transaction, message: InboundMessage, language: str | None) -> str:
        """Store the sender's choice, or remove it with None; return their language."""
        principal = message.principal
        preferences.choose_language(tx, principal, language)

        def keep() -> None:
            if language is None:
                self._choices.pop(principal, None)
            else:
                self._choices[principal] = language

        tx.after_commit(keep)
        tx.after_commit(self._on_changed)
        return language or self._configured or self._client_language(message)

    def _client_language(self, message: InboundMessage) -> str:
        client_language = message.language if message.language in LANGUAGES else None
        return client_language or self._last(message.principal)

    def _configured_for(self, principal: str) -> str | None:
        return self._choices.get(principal) or self._configured

    def _last(self, principal: str) -> str:
        return self._client_languages.get(principal) or self._default
