"""JSON forms of the arguments and results of calls."""

from agent.serialization import RecordCodec, message_from_json, message_to_json
from agent.types import Message
from gateway.control.protocol import watch_event_from_json, watch_event_to_json
from gateway.core.records import SessionEvent, WatchEvent

CODEC = RecordCodec(
    {
        Message: (message_to_json, message_from_json),
        WatchEvent: (watch_event_to_json, watch_event_from_json),
        SessionEvent: (watch_event_to_json, watch_event_from_json),
    }
)
