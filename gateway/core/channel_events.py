"""Results of a channel's poll: messages, undecodable updates and membership changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from agent.records import frozen
from gateway.core.messages import InboundMessage, Route


@frozen
class MembershipChange:
    """Addition of a bot to a chat, or its removal, by an `actor` (in words).

    `title` names the chat or, if it `is_private`, the person.
    """

    route: Route
    event_id: str
    title: str
    actor: str
    is_present: bool
    was_present: bool
    is_private: bool


# Stored characters of an undecoded update; real updates are far smaller.
UNDECODED_LIMIT_CHARS = 256 * 1024


@frozen
class Undecoded:
    """Update that could not be decoded.

    `reason` quotes nothing that a person wrote. `raw` is the update as received, at most
    `UNDECODED_LIMIT_CHARS`. `principal` is its sender, if known.
    """

    event_id: str
    reason: str
    raw: str
    principal: str = ""


@frozen
class Batch:
    """Result of one poll: decoded messages, undecoded updates and the next positions.

    `undecoded` updates are stored together with the messages, so that they never block messages.
    `cursors` are positions in the platform's streams of updates, by names that the channel chooses;
    earlier cursors with other names remain. `moves` are chats with a new id, as pairs of known and
    current id. `membership_changes` are chats that a bot entered or left. `can_wait`: the sender
    keeps the batch until there is room. `on_new` is called in the transaction that stores it if a
    message is new.
    """

    messages: Sequence[InboundMessage]
    undecoded: Sequence[Undecoded] = ()
    cursors: Mapping[str, str] = field(default_factory=dict)
    moves: Sequence[tuple[str, str]] = ()
    membership_changes: Sequence[MembershipChange] = ()
    can_wait: bool = True
    on_new: Callable[[Any], None] | None = None
