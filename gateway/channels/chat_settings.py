"""Settings of individual chats and their topics."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from agent.records import frozen
from gateway.channels.chat_aliases import ChatIdAliases
from gateway.core.messages import Route


@frozen
class ChatSettings:
    """Settings of a chat; None means unset.

    `persona` is a text, or a file of the workspace if it ends in `.md`. `model` and `agent` apply
    unless the conversation has chosen others. `role` applies to everyone except the owner. With
    `listen`, the model sees other people's messages since its last answer. `folder` replaces the
    workspace as the working folder.
    """

    persona: str | None = None
    model: str | None = None
    agent: str | None = None
    role: str | None = None
    listen: bool | None = None
    folder: Path | None = None


class ChatSettingsIndex:
    """Chat settings by channel, then by chat ("-100123") or topic ("-100123/45").

    A topic inherits the unset values from its chat. A chat is found by any of its ids (see
    `ChatIdAliases`).
    """

    def __init__(
        self,
        by_channel: Mapping[str, Mapping[str, ChatSettings]] | None = None,
        moves: dict[str, ChatIdAliases] | None = None,
    ) -> None:
        self._by_channel = by_channel or {}
        self._moves = moves if moves is not None else {}

    def of(self, route: Route) -> ChatSettings:
        by_chat = self._by_channel.get(route.channel)
        if not by_chat:
            return NOWHERE
        ids = self.names(route)
        topics = [f"{name}/{route.thread_id}" for name in ids] if route.thread_id else []
        entries = [by_chat[name] for name in (*topics, *ids) if name in by_chat]
        if len(entries) < 2:
            return entries[0] if entries else NOWHERE
        first = {
            part.name: next(
                (v for entry in entries if (v := getattr(entry, part.name)) is not None), None
            )
            for part in fields(ChatSettings)
        }
        return ChatSettings(**first)

    def names(self, route: Route) -> tuple[str, ...]:
        """Return the ids that the configuration may use for the route's chat."""
        return self.moves(route.channel).names(route.chat_id)

    def moves(self, channel: str) -> ChatIdAliases:
        """Return the aliases of a channel's chats; updates are effective here immediately."""
        return self._moves.setdefault(channel, ChatIdAliases())


NOWHERE = ChatSettings()
