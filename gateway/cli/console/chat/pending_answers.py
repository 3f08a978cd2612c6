"""Pending answers of a console chat: to its own messages and from turns of other clients."""

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
    """Tracker of unanswered messages; true until every answer has been delivered.

    Call `add` for a sent message, `notice` for each event and `settle` for each delivery.
    `has_foreign_turn`: a turn of another client, or an earlier turn, is running. `has_goal`: turns
    and checks of a goal follow each other.
    """

    def __init__(self) -> None:
        self.has_foreign_turn = False
        self.has_goal = False
        self._texts: dict[str, str] = {}
        self._commands: set[str] = set()
        # Input that was typed during another turn and is now far above its answer on the screen.
        self._lines: dict[str, str] = {}
        self._has_ended = True

    def __bool__(self) -> bool:
        return bool(self._texts) or self.has_foreign_turn or self.has_goal

    @property
    def next_text(self) -> str:
        """Oldest message without an answer; empty if there is none."""
        return next(iter(self._texts.values()), "")

    @property
    def queued_count(self) -> int:
        """Number of messages that wait for the running turn."""
        return len(self._texts) - (bool(self._texts) and not self.has_foreign_turn)

    def add(
        self, message: InboundMessage, text: str, line: str = "", *, is_prompt: bool = False
    ) -> None:
        """Add a sent message; `line` is the input if it was typed during another turn.

        Commands are answered without a turn, unless they are prompts.
        """
        self._texts[message.event_id] = text
        if text.startswith("/") and not is_prompt:
            self._commands.add(message.event_id)
        elif line:
            self._lines[message.event_id] = line

    def remove(self, message: InboundMessage) -> None:
        """Remove a rejected message, which will not be answered."""
        del self._texts[message.event_id]

    def clear(self) -> None:
        """Stop waiting for all answers."""
        self._texts.clear()
        self.has_foreign_turn = self.has_goal = False

    def notice(self, event: WatchEvent) -> None:
        """Record work of another screen, that is, work that runs while none of our answers is
        pending.
        """
        if isinstance(event, events.GoalChanged):
            self.has_goal = event.state == "active"
        self.has_foreign_turn |= isinstance(event, _WORK) and not self._texts

    def follow(self, event: WatchEvent) -> str:
        """Return the input line to show again if its turn begins with this event, else ''."""
        if isinstance(event, events.Done):
            self._has_ended = True
        # A turn that waited for an answer sends a second start event.
        elif isinstance(event, events.SessionStart) and self._has_ended:
            self._has_ended = False
            first = next((text for text in self._texts if text in self._lines), "")
            return self._lines.pop(first, "")
        return ""

    def settle(self, delivered: Delivered) -> bool:
        """Remove the messages that a delivery answers; return whether it completes an answer."""
        has_ended = self.has_goal and delivered.ends_goal
        self.has_goal &= not has_ended
        is_general_notice = delivered.kind == "notice" and delivered.event_id is None
        if is_general_notice or not delivered.last:
            return has_ended
        self.has_foreign_turn = False
        if (event_id := delivered.event_id) in self._texts:
            # A joined turn names its newest message; a command may overtake a turn.
            alone = event_id in self._commands
            for earlier in [event_id] if alone else list(self._texts):
                del self._texts[earlier]
                if earlier == event_id:
                    break
        return True
