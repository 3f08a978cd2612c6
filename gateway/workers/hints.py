"""What processes of one Kore tell each other. Any hint may be lost: whoever needs to know looks in
the database now and then as well. Kinds that this version does not know are ignored, so that two
versions work side by side during an upgrade."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, get_origin

from agent.records import frozen
from agent.serialization import dumps


@frozen
class LaneHint:
    """There is something to do on a lane for the process with this number (0: the front)."""

    lane: str
    to: int


@frozen
class MailHint:
    """A route has mail."""

    lane: str


@frozen
class StopHint:
    """The turn on a lane is to end."""

    lane: str


@frozen
class QuestionHint:
    """A question was put: its time runs."""


@frozen
class SettledHint:
    """What an MCP server asked in the middle of a call is settled: with `value`, or nothing."""

    nonce: str
    value: str = ""


@frozen
class SessionEndHint:
    """A conversation holds nothing any more: what runs in its background ends."""

    session: str


@frozen
class PeopleHint:
    """Who may speak, or in which language, has changed."""


@frozen
class AuditHint:
    """The audit log has entries to take over."""


@frozen
class JobsHint:
    """A job was made or changed."""


@frozen
class LeavingHint:
    """A worker is ending: it takes no turns any more."""

    worker: int


@frozen
class EventsHint:
    """What turns of a worker show, in their order."""

    worker: int
    events: tuple[Mapping[str, Any], ...]


Hint = (
    LaneHint
    | MailHint
    | StopHint
    | QuestionHint
    | SettledHint
    | SessionEndHint
    | PeopleHint
    | AuditHint
    | JobsHint
    | LeavingHint
    | EventsHint
)
_KINDS: Mapping[str, type[Hint]] = {
    "lane": LaneHint,
    "mail": MailHint,
    "stop": StopHint,
    "question": QuestionHint,
    "settled": SettledHint,
    "end": SessionEndHint,
    "people": PeopleHint,
    "audit": AuditHint,
    "jobs": JobsHint,
    "leaving": LeavingHint,
    "events": EventsHint,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(hint: Hint) -> bytes:
    return dumps({"kind": _NAMES[type(hint)], **asdict(hint)}).encode()


def decode(message: bytes) -> Hint | None:
    """None for one of another version, and for what is none: without the store's key anybody who
    may publish on a NATS server can send one."""
    try:
        data = json.loads(message)
        # Half of a pair of surrogates is no text that could be stored.
        json.dumps(data, ensure_ascii=False).encode()
        kind = _KINDS[data.pop("kind")]
        if kind is EventsHint:
            data["events"] = tuple(data["events"])
        hint = kind(**data)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return hint if _is_sound(hint) else None


def _is_sound(hint: Hint) -> bool:
    if isinstance(hint, EventsHint) and not all(isinstance(one, dict) for one in hint.events):
        return False
    return all(
        type(getattr(hint, one.name)) is (get_origin(one.type) or one.type) for one in fields(hint)
    )
