"""Hints between the processes of one Kore.

Any hint may be lost, so every receiver also checks the database periodically. Unknown kinds are
ignored, so that two versions work side by side during an upgrade.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, get_origin

from agent.records import frozen
from agent.serialization import dumps


@frozen
class LaneHint:
    """A lane has work for the process with this number (0 is the front)."""

    lane: str
    to: int


@frozen
class MailHint:
    """A route has mail to send."""

    lane: str


@frozen
class StopHint:
    """The turn on a lane must stop."""

    lane: str


@frozen
class QuestionHint:
    """A question is open, and its time limit is running."""


@frozen
class SettledHint:
    """A question that an MCP server asked during a call was answered with `value`, or withdrawn."""

    nonce: str
    value: str = ""


@frozen
class SessionEndHint:
    """A session was closed; its background work ends."""

    session: str


@frozen
class PeopleHint:
    """Access or languages of people have changed."""


@frozen
class AuditHint:
    """The audit log has entries to take over."""


@frozen
class JobsHint:
    """A job was created or changed."""


@frozen
class LeavingHint:
    """A worker is shutting down and takes no more turns."""

    worker: int


@frozen
class EventsHint:
    """Events of a worker's turns, in order."""

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
    """Return the hint, or None for an unknown kind or an invalid message.

    Without the store's key, every client that may publish on a NATS server can send a message.
    """
    try:
        data = json.loads(message)
        # A lone surrogate cannot be stored.
        json.dumps(data, ensure_ascii=False).encode()
        kind = _KINDS[data.pop("kind")]
        if kind is EventsHint:
            data["events"] = tuple(data["events"])
        hint = kind(**data)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return hint if _is_sound(hint) else None


def _is_sound(hint: Hint) -> bool:
    if isinstance(hint, EventsHint) and not all(isinstance(event, dict) for event in hint.events):
        return False
    return all(
        type(getattr(hint, field.name)) is (get_origin(field.type) or field.type)
        for field in fields(hint)
    )
