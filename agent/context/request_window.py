"""Selection of the messages for a request, and recovery from an exceeded window."""

from collections.abc import Sequence
from dataclasses import replace

from agent import events
from agent.context.active_skills import skill_texts
from agent.context.compaction.compactor import Compactor, Conversation
from agent.context.focused_files import FileFocus, describe_eviction
from agent.context.history_validation import repair
from agent.context.images import ImageLoader
from agent.context.token_budget import (
    SMALLEST,
    ContextBudget,
    TokenCalibration,
    TrimmedMessages,
    text_tokens,
    trim_to_budget,
)
from agent.i18n import t
from agent.types import Message, Usage

# Share of the stated window above which a refusal may mean that the actual window is full.
_MAYBE_FULL = 0.25


class RequestWindow:
    """Messages of a turn's requests.

    Between two cuts, each request continues the previous one byte for byte. `model` is the name
    that `gauge` uses. Until the first cut, the newest token factor applies; afterwards the turn
    continues with the factor of that cut.
    """

    def __init__(
        self,
        conversation: Conversation,
        room: ContextBudget,
        model: str,
        gauge: TokenCalibration | None = None,
        compactor: Compactor | None = None,
        pictures: ImageLoader | None = None,
    ) -> None:
        self.conversation = conversation
        self.sent_tokens = 0
        self._room = room
        self._model = model
        self._gauge = gauge or TokenCalibration()
        self._compactor = compactor
        self._pictures = pictures
        # Tracks the files in the messages, if any.
        self.focus: FileFocus | None = None
        self._most: int | None = None
        self._was_cut = False
        self._has_cut_notice = False
        self._dropped = 0
        self._newly_evicted = 0
        self._sent: Sequence[Message] = ()

    def holds_skill(self, text: str) -> bool:
        """Return whether the newest request contained this text of a skill."""
        conversation = self.conversation
        attached = conversation.summary.files if conversation.summary else ()
        texts = [skill for _, skill in skill_texts(conversation.messages[self._dropped :])]
        return text in (*texts, *(file.text for file in attached))

    def sent_messages(self) -> tuple[Sequence[Message], int]:
        """Return the messages of the newest request and the number of the first."""
        return self._sent, self._dropped + 1

    async def window(self) -> tuple[TrimmedMessages, list[events.Event]]:
        """Return the messages to send and the events to emit."""
        notices: list[events.Event] = []
        window = self._fit()
        if count := self._newly_evicted:
            notices.append(events.Evicted(count, describe_eviction(count)))
        anew = window.cut and (not self._was_cut or window.dropped > self._dropped)
        if anew and self._compactor is not None:
            compacted = await self._compactor.make_room(self.conversation, self._limit())
            if compacted is not None:
                self._was_cut, self._dropped = False, 0
                remaining = len(self.conversation.messages)
                notices.append(
                    events.Compacted(
                        compacted.tokens_before,
                        compacted.tokens_after,
                        remaining,
                        compacted.dropped_count,
                        compacted.summarised_count,
                    )
                )
                window = self._fit()
        self._was_cut = window.cut
        self.sent_tokens = window.tokens
        if window.dropped > self._dropped:
            self._dropped = window.dropped
            notices.append(
                events.Compacted(
                    window.tokens_before, window.tokens, len(window.messages), window.dropped
                )
            )
        notices += self._cut_notices(window)
        self._sent = window.messages
        if self._pictures is not None:
            with_pictures = await self._pictures.with_pictures(window.messages)
            if with_pictures is not window.messages:
                window = replace(window, messages=with_pictures)
        return window, notices

    def _cut_notices(self, window: TrimmedMessages) -> list[events.Event]:
        """Return a notice if the newest message of a person is not sent in full; once."""
        if not window.cut or self._has_cut_notice:
            return []
        full_tokens, sent_tokens = (
            next((text_tokens(each) for each in reversed(messages) if each.role == "user"), 0)
            for messages in (self.conversation.messages, window.messages)
        )
        if sent_tokens >= full_tokens:
            return []
        self._has_cut_notice = True
        text = t(
            "The message is too long for the context window: the model gets {shown:,} of about "
            "{whole:,} tokens, without the middle. To let it read everything, save the text as a "
            "file and mention it as `@file`.",
            shown=sent_tokens,
            whole=full_tokens,
        )
        return [events.Notice("warning", text, text)]

    @property
    def request_tokens(self) -> int:
        """Estimated tokens of the newest request, in the model's count."""
        return int((self._room.fixed + self.sent_tokens) * self._room.factor)

    def learn(self, usage: Usage | None) -> None:
        """Calibrate the estimate with the model's count for the newest request."""
        if usage is not None:
            self._gauge.learn(self._model, self._room.fixed + self.sent_tokens, usage.input)

    def shrink(self) -> bool:
        """Reduce the limit after a refusal; return False if it cannot be reduced further.

        The actual window is smaller than stated, or the estimate was too low.
        """
        if self.sent_tokens <= SMALLEST:
            return False
        self._most = max(min(self._limit(), self.sent_tokens) // 2, SMALLEST)
        return True

    def restore(self) -> None:
        """Undo `shrink`: the size was not the problem."""
        self._most = None

    @property
    def may_be_full(self) -> bool:
        """True if the newest request may exceed a window that is smaller than stated."""
        return self.request_tokens >= self._room.window * _MAYBE_FULL

    def _fit(self) -> TrimmedMessages:
        conversation = self.conversation
        front = conversation.summary.front if conversation.summary else None
        messages: Sequence[Message] = repair(conversation.messages)
        limit = self._limit()
        if self.focus is not None:
            focused = self.focus.fit(messages, min(self._room.focus_tokens, limit))
            messages, self._newly_evicted = focused.messages, focused.newly_evicted
        return trim_to_budget(
            messages,
            limit,
            trimmed=conversation.is_trimmed,
            front=front,
        )

    def _limit(self) -> int:
        if not self._was_cut:
            self._room = self._room.with_factor(self._gauge.factor(self._model))
        return self._room.limit if self._most is None else min(self._most, self._room.limit)
