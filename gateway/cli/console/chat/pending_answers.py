"""What is still to come in a console's chat: answers to its own messages, and work of others."""

from agent import events
from gateway.core.messages import InboundMessage
from gateway.core.records import Delivered, WatchEvent

_WORK = (
    events.SessionStart
    | events.IterationStart
    | events.TextDelta
    | events.ThinkingDelta
    | events.ToolStart
)


class PendingAnswers:
    """`add` what is sent, `notice` what happens, `settle` what is delivered; true until all came.

    `has_foreign_turn`: another client's turn, or an earlier one, is under way.
    """

    def __init__(self) -> None:
        self.has_foreign_turn = False
        self._texts: dict[str, str] = {}
        # What was typed while something else ran, and has stood far above its answer since.
        self._lines: dict[str, str] = {}
        self._has_ended = True

    def __bool__(self) -> bool:
        return bool(self._texts) or self.has_foreign_turn

    @property
    def next_text(self) -> str:
        """The oldest message that has no answer; empty when there is none."""
        return next(iter(self._texts.values()), "")

    @property
    def queued_count(self) -> int:
        """How many messages wait for one that has its turn now."""
        return len(self._texts) - (bool(self._texts) and not self.has_foreign_turn)

    def add(self, message: InboundMessage, text: str, line: str = "") -> None:
        """`line` is what was typed while something else ran; commands answer without a turn."""
        self._texts[message.event_id] = text
        if line and not text.startswith("/"):
            self._lines[message.event_id] = line

    def remove(self, message: InboundMessage) -> None:
        """It was refused: no answer will come."""
        del self._texts[message.event_id]

    def clear(self) -> None:
        """Wait no longer for anything."""
        self._texts.clear()
        self.has_foreign_turn = False

    def notice(self, event: WatchEvent) -> None:
        """Record work that runs while none of our answers is pending: another screen started it."""
        self.has_foreign_turn |= isinstance(event, _WORK) and not self._texts

    def follow(self, event: WatchEvent) -> str:
        """The line whose turn begins with this event, to be shown again; empty for any other."""
        if isinstance(event, events.Done):
            self._has_ended = True
        # A turn that waited for an answer begins a second time.
        elif isinstance(event, events.SessionStart) and self._has_ended:
            self._has_ended = False
            first = next((one for one in self._texts if one in self._lines), "")
            return self._lines.pop(first, "")
        return ""

    def settle(self, delivered: Delivered) -> bool:
        """Take off what this delivery closes; whether it closes anything."""
        beside = delivered.kind == "notice" and delivered.event_id is None
        if beside or not delivered.last:
            return False
        self.has_foreign_turn = False
        if (event_id := delivered.event_id) in self._texts:
            # A joined turn names its newest message; a command may overtake a turn.
            alone = self._texts[event_id].startswith("/")
            for earlier in [event_id] if alone else list(self._texts):
                del self._texts[earlier]
                if earlier == event_id:
                    break
        return True
