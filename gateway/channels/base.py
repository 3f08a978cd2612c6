"""Port to a chat platform, with the errors of sends and optional capabilities."""

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
from gateway.core.platform_limits import ButtonLimits, FileLimits
from gateway.core.records import Delivered, Trace

T = TypeVar("T")
_abilities: dict[tuple[type, object], bool] = {}


class SendError(Exception):
    """Failure of a send; the subclass determines the sender's next step."""

    level = logging.WARNING  # level of the log line


class NotSent(SendError):
    """Certainly not delivered (DNS, refused connection): a retry is safe."""


class NoViewer(NotSent):
    """Route without a viewer at the moment: the message waits, which is not a failure."""

    level = logging.DEBUG


class Ambiguous(SendError):
    """Possibly delivered (read timeout, reset, 5xx): a retry is marked as a possible duplicate."""


class ChannelRateLimited(SendError):
    """Rate limit of the platform, with a waiting time; not delivered."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"asked to wait {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


class BadFormat(SendError):
    """Rejected formatting; the same text can be sent without it."""


class MessageRefused(SendError):
    """Rejected message; no retry will help."""


class ChatUnreachable(SendError):
    """Unreachable chat: the bot is blocked or removed, or the chat is deleted."""


class ChatMoved(SendError):
    """New id of a chat on the platform; `canonical_id` is the id that Kore uses."""

    def __init__(self, canonical_id: str, current_id: str) -> None:
        super().__init__(f"the chat {canonical_id} is {current_id} now")
        self.canonical_id = canonical_id
        self.current_id = current_id


class TopicNotFound(SendError):
    """Closed or deleted topic; its chat still exists."""


class MessageNotFound(SendError):
    """Missing message for an edit; send a new message."""


class NotFetched(Exception):
    """Failure to fetch or transcribe a file (for transcription, `media` is the file).

    The text, in English, gives the reason; with `is_retryable`, a later attempt may succeed.
    """

    def __init__(self, english: str, *, is_retryable: bool = False, **values: object) -> None:
        super().__init__(english.format(**values))
        self.is_retryable = is_retryable
        self.media: Media | None = None
        self._template = english, values

    @property
    def translated(self) -> str:
        """Text in the current language."""
        english, values = self._template
        return t(english, **values)


@frozen
class ChannelStatus:
    """Receiving state of a channel, for `kore status`.

    `last_poll_at` is the Unix time of the last successful poll, or of a webhook's last call.
    `pending` counts the updates that the platform still stores, if it reports them; `waiting`
    counts the chats whose answers are delayed by its limits. Channels without `SupportsStatus`
    report only `running`.

    `retrying` and `conflict` (another program polls for the same account) resolve on their own;
    `storage` means that a batch could not be stored; `refused` needs the owner.
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


# Returns once the batch is on disk; if it raises, nothing may be confirmed.
Accept = Callable[[str, str, Batch], Awaitable[None]]


class Channel(Protocol):
    """Chat platform under one account."""

    @property
    def name(self) -> str: ...
    @property
    def account(self) -> str: ...

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled."""
        ...

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        """Convert markdown to the platform's format, split at its size limit. Never fails."""
        ...

    async def send(self, message: OutboundMessage) -> str:
        """Send, or edit if `provider_message_id` is set; return the platform's id.

        Raises `SendError`.
        """
        ...


# Display of a growing answer: edits of one message, drafts that vanish, or nothing.
Streaming = Literal["edits", "drafts", "off"]


@frozen
class PreviewContent:
    """Text of an unfinished answer (markdown, any length), and a status line, possibly empty."""

    text: str
    status_line: str = ""


@runtime_checkable
class SupportsStreaming(Protocol):
    """Optional: the platform can show an answer while it grows."""

    def streaming(self, route: Route) -> Streaming: ...

    def pages(self, growing: PreviewContent) -> Sequence[OutboundPart]:
        """Render the unfinished answer as messages; none while it is blank.

        All but the last equal what `render` returns for the same text.
        """
        ...

    async def preview(
        self,
        route: Route,
        page: OutboundPart,
        provider_message_id: str | None,
        reply_to: str | None = None,
    ) -> str:
        """Show a page as an edit, or as a new message in reply to `reply_to`.

        Returns the message's id. Raises `SendError`.
        """
        ...


@runtime_checkable
class SupportsTrace(Protocol):
    """Optional: answers can include a trace of the work."""

    @property
    def trace(self) -> Trace:
        """Default detail of the trace."""
        ...


@runtime_checkable
class SupportsDrafts(Protocol):
    """Optional: the platform has drafts, which vanish soon or with the next message."""

    async def show_draft(self, route: Route, content: PreviewContent, number: int) -> None:
        """Show the content as the draft with this number, replacing its earlier content.

        Does nothing if drafts are unavailable. Raises `SendError`.
        """
        ...


@runtime_checkable
class SupportsTyping(Protocol):
    """Optional: the platform has a typing indicator."""

    async def typing(self, route: Route) -> None: ...


@runtime_checkable
class SupportsMedia(Protocol):
    """Optional: the platform supports files."""

    @property
    def file_limits(self) -> FileLimits: ...

    async def send_files(self, message: OutboundMessage) -> str:
        """Send the message's files with its text below, several as an album.

        Returns the platform's id of the first. Raises `SendError`, as `send` does.
        """
        ...


@runtime_checkable
class SupportsWholeAnswers(Protocol):
    """Optional: an answer that `render` turns into a file can also be sent as text messages."""

    def render_whole(self, markdown: str) -> Sequence[OutboundPart]: ...


@runtime_checkable
class SupportsDownloads(Protocol):
    """Optional: files that people send can be fetched from the platform."""

    async def fetch(self, media: Media, into: BinaryIO, limit_bytes: int) -> None:
        """Write the file's bytes as they arrive. Raises `NotFetched`, and `OSError` of `into`."""
        ...


@runtime_checkable
class SupportsAdmission(Protocol):
    """Optional: the platform limits the rate of messages."""

    async def admit(self, route: Route) -> None:
        """Wait until the next `send` to this route may start without waiting.

        Called before the row is marked as in flight, so that a process killed during this wait has
        certainly not sent it.
        """
        ...

    def try_admit(self, route: Route) -> bool:
        """Admit like `admit` if that needs no wait; otherwise return False without effect."""
        ...


@runtime_checkable
class SupportsProbe(Protocol):
    """Optional: the platform's availability can be checked without sending anything."""

    async def probe(self) -> None:
        """Raise `NotSent` if the platform does not respond."""
        ...


@runtime_checkable
class SupportsApprovals(Protocol):
    """Optional: the platform has buttons to answer questions."""

    @property
    def button_limits(self) -> ButtonLimits: ...

    def render_approval(self, question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
        """Render the question as one message with its buttons; `decided` replaces them."""
        ...

    def render_details(self, question: ApprovalPrompt) -> OutboundFile | None:
        """Return a file with the full text if it does not fit into the message, else None."""
        ...

    async def acknowledge(self, event_id: str, sentence: str) -> None:
        """Show the result to the person who pressed a button. Raises `SendError`."""
        ...


@runtime_checkable
class SupportsButtonRemoval(Protocol):
    """Optional: the platform can remove the buttons of a message."""

    async def remove_buttons(self, route: Route, provider_message_id: str) -> None:
        """Remove the buttons, but leave the message's text unchanged. Raises `SendError`."""
        ...


@runtime_checkable
class SupportsStatus(Protocol):
    """Optional: the channel reports its status."""

    @property
    def status(self) -> ChannelStatus: ...


@runtime_checkable
class SupportsReplay(Protocol):
    """Optional: an update that was stored undecoded can be decoded later, by a newer version."""

    def decode_again(self, raw: str) -> Batch:
        """Decode the `raw` text of an `Undecoded`.

        Raises `KoreError` while the channel is not ready.
        """
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
    """Optional: the platform calls Kore, at a path of the gateway's HTTP server."""

    @property
    def hook_path(self) -> str | None:
        """Path for the platform's calls; None if the channel polls."""
        ...

    async def handle_call(self, call: HookCall) -> HookReply:
        """Handle a call and return the response.

        The channel authenticates the caller: anyone can reach the path.
        """
        ...


@runtime_checkable
class SupportsReachability(Protocol):
    """Optional: the channel notices when its platform responds again after an outage."""

    def when_reachable(self, call: Callable[[], None]) -> None:
        """Register a function to call after each outage."""
        ...


@runtime_checkable
class SupportsReactions(Protocol):
    """Optional: the platform shows reactions on received messages. Failures are ignored."""

    @property
    def shows_reactions(self) -> bool:
        """True if a reaction is configured; otherwise none is shown."""
        ...

    async def show_received(self, route: Route, message_id: str | None) -> None:
        """Show that the message was accepted and will be answered."""
        ...

    async def clear_reactions(self, message: OutboundMessage, unanswered: frozenset[str]) -> None:
        """Remove reactions after the last part of an answer has arrived.

        Messages in `unanswered` (message ids) still wait for their answers.
        """
        ...


def ability(channel: Channel | None, protocol: Callable[..., T]) -> T | None:
    """Return the channel as this optional protocol, or None if it does not implement it.

    Cached per class: a check against a protocol costs as much as twenty calls.
    """
    key = (type(channel), protocol)
    if (supports := _abilities.get(key)) is None:
        supports = _abilities[key] = isinstance(channel, protocol)  # type: ignore[arg-type]
    return channel if supports else None  # type: ignore[return-value]  # that is what was asked


def delivered_event(message: OutboundMessage) -> Delivered:
    """Return the event that a terminal receives for a part."""
    return Delivered(
        message.content.text,
        message.kind,
        message.event_id,
        message.last,
        message.maybe_duplicate,
        message.seq,
        message.outcome,
    )
