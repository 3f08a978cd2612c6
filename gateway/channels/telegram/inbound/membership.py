"""Changes of the bot's membership in a chat.

https://core.telegram.org/bots/api#chatmemberupdated
"""

from collections.abc import Mapping
from typing import Any

from gateway.channels.telegram.inbound.decode import MALFORMED, DecodeContext, person, undecodable
from gateway.core.channel_events import MembershipChange
from gateway.core.messages import Route


def membership_change(update: Mapping[str, Any], here: DecodeContext) -> MembershipChange | None:
    """Return the membership change of an update; None for an update of another kind.

    Also None for a group that became a supergroup, because every member leaves the old group.
    Raises `Undecodable`.
    """
    change = update.get("my_chat_member")
    if change is None:
        return None
    try:
        chat, author = change["chat"], person(change["from"])
        private = chat["type"] == "private"
        wire = str(int(chat["id"]))
        first = here.moves.canonical(wire)
        if here.moves.current(first) != wire:
            return None
        return MembershipChange(
            route=Route("telegram", here.account, first),
            event_id=f"{here.account}:{int(update['update_id'])}",
            title=f"{author.name if private else str(chat.get('title', ''))[:80]!r} ({wire})",
            actor=f"{author.name[:80]!r} ({author.id})",
            is_present=_is_in(change["new_chat_member"]),
            was_present=_is_in(change["old_chat_member"]),
            is_private=private,
        )
    except MALFORMED as exc:
        raise undecodable(exc) from exc


def _is_in(member: Mapping[str, Any]) -> bool:
    """Return whether the member is in the chat; a restricted member may have left too."""
    status = member["status"]
    return bool(member.get("is_member")) if status == "restricted" else status not in _OUT


_OUT = ("left", "kicked")
