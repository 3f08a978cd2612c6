"""Changes of the bot's membership in chats: queued messages and notices to the owner."""

from collections.abc import Iterable

from agent.i18n import t, use_locale
from gateway.access.control import AccessControl
from gateway.core.channel_events import MembershipChange
from gateway.core.markdown import escape_markdown
from gateway.core.messages import Route
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import chats, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply

# Anyone can add a bot to a group and remove it: the limit keeps the owner's chat usable.
MAX_NOTICES_PER_HOUR = 5


class ChatMembership:
    """Recorder of membership changes, inside the transaction that stores the update."""

    def __init__(
        self, *, access: AccessControl, renderer: ReplyRenderer, languages: UserLanguages
    ) -> None:
        self._access = access
        self._renderer = renderer
        self._languages = languages

    def record(self, tx: Transaction, changes: Iterable[MembershipChange], now: float) -> set[str]:
        """Record the changes; return the lanes that have a new message to send."""
        lanes = set()
        for change in changes:
            owner = self._owner_route(tx, change.route)
            is_owner_chat = owner is not None and owner.chat_id == change.route.chat_id
            with use_locale(self._languages.of_route(owner or change.route)):
                text = self._notice_text(tx, change, now)
            if owner is None or is_owner_chat or text is None:
                continue
            if not change.is_private and self._is_notice_limit_reached(tx, now):
                continue
            name = _notice_id(change.route, change.event_id)
            reply = OutgoingReply(name, owner, self._renderer.render(owner, text), "notice")
            outbox.put(tx, None, [reply], now)
            lanes.add(owner.lane)
        return lanes

    def record_unreachable(
        self, tx: Transaction, route: Route, reason: str, now: float
    ) -> tuple[int, str | None]:
        """Drop the queued messages for a chat that refuses messages.

        Returns the number of dropped parts, and the owner's lane if the owner gets a notice.
        """
        is_known = chats.is_unreachable(tx, route)
        lost = chats.mark_unreachable(tx, route, reason, now)
        owner = self._owner_route(tx, route)
        if owner is None or owner.chat_id == route.chat_id or is_known:
            return lost, None
        if self._is_notice_limit_reached(tx, now):
            return lost, None
        # A private chat has the id of its person.
        message = chats.last_private_message(tx, f"{route.channel}:{route.chat_id}")
        with use_locale(self._languages.of_route(owner)):
            text = (
                t(
                    "I can't write to {name} ({chat}) any more: {reason}. "
                    "Queued messages for this person were dropped.",
                    name=escape_markdown(message.sender.name),
                    chat=route.chat_id,
                    reason=escape_markdown(reason),
                )
                if message is not None
                else t(
                    "I can't write to the chat {chat} any more: {reason}. "
                    "Queued messages for it were dropped.",
                    chat=route.chat_id,
                    reason=escape_markdown(reason),
                )
            )
            parts = self._renderer.render(owner, text)
        name = _notice_id(route, repr(now))
        outbox.put(tx, None, [OutgoingReply(name, owner, parts, "notice")], now)
        return lost, owner.lane

    def _notice_text(self, tx: Transaction, change: MembershipChange, now: float) -> str | None:
        """Record the change; return the notice for the owner, or None if nothing is new."""
        route, chat = change.route, escape_markdown(change.title)
        was_unreachable = chats.is_unreachable(tx, route)
        if change.is_present:
            chats.mark_reachable(tx, route, "", now)
            if change.is_private or change.was_present:
                return None
            return t(
                "I was added to the group {chat} by {name}.",
                chat=chat,
                name=escape_markdown(change.actor),
            )
        reason = "blocked by the person" if change.is_private else "removed from the group"
        lost = chats.mark_unreachable(tx, route, reason, now)
        if was_unreachable:
            return None
        if not change.is_private:
            return t(
                "I was removed from the group {chat} by {name}.",
                chat=chat,
                name=escape_markdown(change.actor),
            )
        return (
            t("{name} has blocked me. Their queued messages were dropped.", name=chat)
            if lost
            else None
        )

    def _is_notice_limit_reached(self, tx: Transaction, now: float) -> bool:
        return chats.notice_time(tx, chats.PRESENCE, now - 3600) >= MAX_NOTICES_PER_HOUR

    def _owner_route(self, tx: Transaction, route: Route) -> Route | None:
        """Return the owner's private chat with the same bot; None on another channel."""
        owner = self._access.owner_id
        if owner is None or owner.partition(":")[0] != route.channel:
            return None
        return chats.private_chat(tx, owner, route.account)


def _notice_id(route: Route, occasion: str) -> str:
    """Return a delivery id that links the notice to the data of the chat's person."""
    return f"{chats.PRESENCE}{route.channel}:{route.account}:{route.chat_id}:{occasion}"
