"""The port to a chat platform, and how a send can end."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import BinaryIO, Literal, Protocol, TypeVar, runtime_checkable

from agent.i18n import t
from agent.records import frozen
from gateway.core.approval import ApprovalPrompt
from gateway.core.channel_events import Batch
from gateway.core.messages import (
    Media,
    OutboundFile,
    OutboundMessage,
    OutboundPart,
    Route,
)
from gateway.core.records import Delivered, Trace

T = TypeVar("T")
_abilities: dict[tuple[type, object], bool] = {}


class SendError(Exception):
    """A send did not end well; the subclass says what the sender may do next."""

    level = logging.WARNING  # of the log's line about it


class NotSent(SendError):
    """It certainly did not arrive (DNS, refused connection): a retry is safe."""


class NoViewer(NotSent):
    """The route has no viewer now: the message waits, and nothing is wrong."""

    level = logging.DEBUG


class Ambiguous(SendError):
    """It may have arrived (read time-out, reset, 5xx): a retry may be a repeat and is marked."""


class ChannelRateLimited(SendError):
    """The platform asks to wait; it did not arrive."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"asked to wait {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


class BadFormat(SendError):
    """The platform refused the formatting; the same text may go out plain."""


class MessageRefused(SendError):
    """The platform refused the message itself; no retry will help."""


class ChatUnreachable(SendError):
    """The chat is gone for us: blocked, kicked, deleted."""


class ChatMoved(SendError):
    """The platform has given the chat a new id; `canonical_id` is the one that Kore keeps."""

    def __init__(self, canonical_id: str, current_id: str) -> None:
        super().__init__(f"the chat {canonical_id} is {current_id} now")
        self.canonical_id = canonical_id
        self.current_id = current_id


class TopicNotFound(SendError):
    """The topic is closed or deleted; the chat around it is there."""


class MessageNotFound(SendError):
    """The message to edit no longer exists; send it anew."""


class NotFetched(Exception):
    """A file could not be fetched, or not be transcribed (`media` is the file then).

    The text, in English, says why; `is_retryable` says that a later try may succeed.
    """

    def __init__(self, english: str, *, is_retryable: bool = False, **values: object) -> None:
        super().__init__(english.format(**values))
        self.is_retryable = is_retryable
        self.media: Media | None = None
        self._template = english, values

    @property
    def translated(self) -> str:
        """The text in the language that is spoken here."""
        english, values = self._template
        return t(english, **values)


@frozen
class ChannelStatus:
    """How receiving goes, for `kore status`. `last_poll_at` is Unix time of the last good answer
    to a poll, or of the last call of a webhook. `pending` counts what the platform still keeps,
    as far as it tells, `waiting` the chats whose answers its limits hold back. `running` is all
    that is known of a channel without `SupportsStatus`.

    `retrying` and `conflict` (another program polls for the same account) resolve themselves,
    `storage` means that a batch could not be kept, `refused` needs the owner.
    """

    state: Literal[
        "starting",
        "running",
        "polling",
        "webhook",
        "retrying",
        "conflict",
        "storage",
        "refused",
        "stopped",
    ]
    last_poll_at: float | None = None
    last_error: str | None = None
    pending: int | None = None
    waiting: int = 0


# Returns once the batch is on disk; raises when it is not, and then nothing may be confirmed.
Accept = Callable[[str, str, Batch], Awaitable[None]]


class Channel(Protocol):
    """A chat platform under one account."""

    @property
    def name(self) -> str: ...
    @property
    def account(self) -> str: ...

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled."""
        ...

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        """Markdown to what the platform shows, split at its size limit. Never fails."""
        ...

    async def send(self, message: OutboundMessage) -> str:
        """Send, or edit when `provider_message_id` is set; returns the platform's id.

        Raises `SendError`.
        """
        ...


# How an answer is shown while it grows: one message is edited, something that vanishes by itself
# stands in for it, or nothing is shown.
Streaming = Literal["edits", "drafts", "off"]


@frozen
class PreviewContent:
    """What is there of an answer (markdown, any length) and a line below it, perhaps empty."""

    text: str
    status_line: str = ""


@runtime_checkable
class SupportsStreaming(Protocol):
    """Optional: the platform can show an answer while it grows."""

    def streaming(self, route: Route) -> Streaming: ...

    def pages(self, growing: PreviewContent) -> Sequence[OutboundPart]:
        """As much of it as is shown while it grows, as messages; none while it is blank. All but
        the last are what `render` makes of the same text."""
        ...

    async def preview(
        self,
        route: Route,
        page: OutboundPart,
        provider_message_id: str | None,
        reply_to: str | None = None,
    ) -> str:
        """Show a page as an edit or as a new message, which answers the message `reply_to`;
        returns the message's id. Raises `SendError`."""
        ...


@runtime_checkable
class SupportsTrace(Protocol):
    """Optional: what was done can stay below an answer."""

    @property
    def trace(self) -> Trace:
        """The default detail of the trace."""
        ...


@runtime_checkable
class SupportsDrafts(Protocol):
    """Optional: the platform can show something that vanishes by itself, soon or with the next
    message."""

    async def show_draft(self, route: Route, text: str, number: int) -> None:
        """Show `text` (markdown) in place of what the same number showed; nothing where that
        cannot be. Raises `SendError`."""
        ...


@runtime_checkable
class SupportsTyping(Protocol):
    """Optional: the platform can show that an answer is being written."""

    async def typing(self, route: Route) -> None: ...


@runtime_checkable
class SupportsMedia(Protocol):
    """Optional: the platform carries files."""

    @property
    def file_limit_bytes(self) -> int: ...

    async def send_files(self, message: OutboundMessage) -> str:
        """Send the message's files with its text below, several as an album; returns the
        platform's id, of the first of them. Raises `SendError`, as `send` does.
        """
        ...


@runtime_checkable
class SupportsWholeAnswers(Protocol):
    """Optional: an answer that `render` makes a file of can be messages only, too."""

    def render_whole(self, markdown: str) -> Sequence[OutboundPart]: ...


@runtime_checkable
class SupportsDownloads(Protocol):
    """Optional: files that people send can be fetched from the platform."""

    async def fetch(self, media: Media, into: BinaryIO, limit_bytes: int) -> None:
        """Write the file's bytes, as they come. Raises `NotFetched`, and `OSError` of `into`."""
        ...


@runtime_checkable
class SupportsAdmission(Protocol):
    """Optional: the platform limits how fast messages may follow each other."""

    async def admit(self, route: Route) -> None:
        """Returns when the next `send` to this route may go out without waiting.

        Called before the row is marked as in flight: what is killed in this wait was not sent.
        """
        ...

    def try_admit(self, route: Route) -> bool:
        """As `admit`, where that needs no wait; else False, and nothing has happened."""
        ...


@runtime_checkable
class SupportsProbe(Protocol):
    """Optional: the platform can be asked whether it answers, without anything being sent."""

    async def probe(self) -> None:
        """Raises `NotSent` when it does not answer."""
        ...


@runtime_checkable
class SupportsApprovals(Protocol):
    """Optional: the platform has buttons that people can answer a question with."""

    def render_approval(self, question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
        """The question as one message with its buttons; `decided` takes their place."""
        ...

    def render_details(self, question: ApprovalPrompt) -> OutboundFile | None:
        """A file with all that would happen when it does not fit into the message, else None."""
        ...

    async def acknowledge(self, event_id: str, sentence: str) -> None:
        """Show the result to the person who pressed a button. Raises `SendError`."""
        ...


@runtime_checkable
class SupportsButtonRemoval(Protocol):
    """Optional: the platform can take the buttons of a message away."""

    async def take_buttons(self, route: Route, provider_message_id: str) -> None:
        """Leave the message's text as it is. Raises `SendError`."""
        ...


@runtime_checkable
class SupportsStatus(Protocol):
    """Optional: the channel can say how it is doing."""

    @property
    def status(self) -> ChannelStatus: ...


@runtime_checkable
class SupportsReplay(Protocol):
    """Optional: an update that was stored undecoded can be decoded later, by a newer version."""

    def decode_again(self, raw: str) -> Batch:
        """`raw` is that of an `Undecoded`. Raises `KoreError` while the channel is not ready."""
        ...


@frozen
class HookCall:
    """HTTP request of a platform; names of `headers` are in lower case."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


@frozen
class HookReply:
    """HTTP response to a platform's call."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain"


@runtime_checkable
class SupportsWebhook(Protocol):
    """Optional: the platform calls us, at a path of the gateway's HTTP server."""

    @property
    def hook_path(self) -> str | None:
        """None when the platform is asked instead."""
        ...

    async def handle_call(self, call: HookCall) -> HookReply:
        """Take a call and answer it. The channel checks who calls: anybody can reach the path."""
        ...


@runtime_checkable
class SupportsReachability(Protocol):
    """Optional: the channel notices when its platform answers again after an outage."""

    def when_reachable(self, call: Callable[[], None]) -> None:
        """`call` whenever it does."""
        ...


@runtime_checkable
class SupportsReactions(Protocol):
    """Optional: the platform can show on a message that it arrived. Failures are ignored."""

    @property
    def shows_reactions(self) -> bool:
        """False where none is configured: then nothing of the kind is done."""
        ...

    async def show_received(self, route: Route, message_id: str | None) -> None:
        """The message was accepted and will be answered."""
        ...

    async def clear_reactions(self, message: OutboundMessage, unanswered: frozenset[str]) -> None:
        """The last part of an answer has arrived; the chat still waits for answers to `unanswered`
        (message ids)."""
        ...


def ability(channel: Channel | None, protocol: Callable[..., T]) -> T | None:
    """The channel as one of the optional protocols, None where it is none of that kind. Asked once
    for each class: a check against a protocol costs as much as twenty calls."""
    key = (type(channel), protocol)
    if (supports := _abilities.get(key)) is None:
        supports = _abilities[key] = isinstance(channel, protocol)  # type: ignore[arg-type]
    return channel if supports else None  # type: ignore[return-value]  # that is what was asked


def delivered_event(message: OutboundMessage) -> Delivered:
    """What a terminal is given of a part."""
    return Delivered(
        message.content.text,
        message.kind,
        message.event_id,
        message.last,
        message.maybe_duplicate,
        message.seq,
    )
