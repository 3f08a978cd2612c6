"""What a channel brings: messages, what it could not decode, and chats its bot entered or left."""

from collections.abc import Sequence

from agent.records import frozen
from gateway.core.messages import InboundMessage, Route


@frozen
class MembershipChange:
    """A bot was let into a chat or put out of it: `by` whom, in words, and whether it was in
    there before. `title` names the chat or, where it is `private`, the person."""

    route: Route
    event_id: str
    title: str
    by: str
    present: bool
    was_present: bool
    private: bool


# Characters of an undecoded update that are kept; Telegram's own stay far below.
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
    are chats that were given a new id: (the one that Kore knows, the present one). `standings` tell
    of chats that a bot came into or was put out of. `waits`: whoever brings it keeps it until there
    is room.
    """

    messages: Sequence[InboundMessage]
    undecoded: Sequence[Undecoded] = ()
    next_offset: int | None = None
    moves: Sequence[tuple[str, str]] = ()
    standings: Sequence[MembershipChange] = ()
    waits: bool = True
