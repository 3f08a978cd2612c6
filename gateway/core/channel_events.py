"""What a channel brings: messages, what it could not decode, and chats its bot entered or left."""

from collections.abc import Sequence

from agent.records import frozen
from gateway.core.messages import InboundMessage, Route


@frozen
class MembershipChange:
    """A bot was let into a chat or put out of it by an `actor` (in words). `title` names the chat
    or, where it is `is_private`, the person."""

    route: Route
    event_id: str
    title: str
    actor: str
    is_present: bool
    was_present: bool
    is_private: bool


# Characters of an undecoded update that are kept; real ones stay far below.
UNDECODED_LIMIT_CHARS = 256 * 1024


@frozen
class Undecoded:
    """An update that could not be decoded. `reason` quotes nothing that a person wrote; `raw` is
    the update as it came, at most `UNDECODED_LIMIT_CHARS`; `principal` is its sender, if known."""

    event_id: str
    reason: str
    raw: str
    principal: str = ""


@frozen
class Batch:
    """All that one poll brought: what could be decoded, what could not, and the next cursor.

    `undecoded` updates are stored beside the messages so that they never block the rest. `moves`
    are chats that were given a new id: (the one that Kore knows, the present one).
    `membership_changes` tell of chats that a bot came into or was put out of. `can_wait`: the
    sender keeps the batch until there is room.
    """

    messages: Sequence[InboundMessage]
    undecoded: Sequence[Undecoded] = ()
    next_offset: int | None = None
    moves: Sequence[tuple[str, str]] = ()
    membership_changes: Sequence[MembershipChange] = ()
    can_wait: bool = True
