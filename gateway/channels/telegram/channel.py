"""Telegram as a channel of Kore: receiving, rendering, sending and previews."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from agent.errors import KoreError
from agent.i18n import t
from gateway.channels.base import (
    Accept,
    ChannelStatus,
    HookCall,
    HookReply,
    PreviewContent,
    Streaming,
)
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.state import ChannelState, InMemoryChannelState
from gateway.channels.telegram.api.client import TelegramClient
from gateway.channels.telegram.inbound.poll import Poller
from gateway.channels.telegram.inbound.update_batch import decode_stored
from gateway.channels.telegram.outbound.approval_card import render_approval, render_details
from gateway.channels.telegram.outbound.reactions import Reactions
from gateway.channels.telegram.outbound.render import (
    as_file_if_long,
    render,
    render_pages,
    text_messages,
)
from gateway.channels.telegram.outbound.send import RichSupport, TelegramSender
from gateway.channels.telegram.settings import TelegramSettings
from gateway.core.approval import ApprovalPrompt
from gateway.core.channel_events import Batch
from gateway.core.messages import Media, OutboundFile, OutboundMessage, OutboundPart, Route
from gateway.core.platform_limits import ButtonLimits, FileLimits
from gateway.core.records import Trace

if TYPE_CHECKING:
    from gateway.channels.telegram.inbound.webhook import Webhook

_SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - the header's name
# Limit of messages in a preview if there is no other limit, because every edit parses all of them
# again.
_MAX_PAGES = 8


class TelegramChannel:
    """Channel of one bot, with every optional capability of `gateway.channels.base`.

    Close it with `aclose`. `cursors` are the positions stored with the last accepted batch. `gate`
    belongs to this bot, `places` to all bots, `rich` to all bots of one server; `memo` is
    persistent state. Nothing connects before `run` or the first send.
    """

    name = "telegram"
    # https://core.telegram.org/bots/api#inlinekeyboardbutton
    button_limits = ButtonLimits(data_bytes=64, count=100)

    def __init__(
        self,
        settings: TelegramSettings,
        *,
        gate: RateLimiter,
        cursors: Mapping[str, str] | None = None,
        places: ChatSettingsIndex | None = None,
        memo: ChannelState | None = None,
        rich: RichSupport | None = None,
    ) -> None:
        self._settings = settings
        self._gate = gate
        self._client = TelegramClient(settings)
        places, memo = places or ChatSettingsIndex(), memo or InMemoryChannelState()
        self._receiver = (
            _webhook(settings, self._client, places, memo)
            if settings.webhook_url
            else Poller(settings, self._client, cursors or {}, places, memo)
        )
        moves = places.moves(self.name)
        self._sender = TelegramSender(self._client, gate, moves, rich)
        self._reactions = Reactions(self._client.bot, gate, moves, settings.reaction)

    @property
    def account(self) -> str:
        return self._settings.account

    @property
    def status(self) -> ChannelStatus:
        return replace(self._receiver.status, waiting=self._gate.waiting)

    def when_reachable(self, call: Callable[[], None]) -> None:
        """Register a function to call when Telegram responds again after an outage."""
        self._receiver.reachable = call

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled.

        Raises `ConfigError` if the server rejects the address of a webhook.
        """
        await self._receiver.run(accept)

    @property
    def hook_path(self) -> str | None:
        return self._settings.hook_path

    async def handle_call(self, call: HookCall) -> HookReply:
        """Handle an update from Telegram."""
        if isinstance(self._receiver, Poller) or call.method != "POST":
            return HookReply(404)
        secret = call.headers.get(_SECRET_HEADER, "")
        return HookReply(await self._receiver.handle_call(secret, call.body))

    def decode_again(self, raw: str) -> Batch:
        """Decode a stored update. Raises `KoreError` while the bot's name is unknown."""
        if (here := self._receiver.decode_context) is None:
            raise KoreError(
                t("Telegram has not answered yet, so updates cannot be decoded"),
                hint=t("Try again when `kore status` shows the channel as polling."),
            )
        return decode_stored(raw, here, time.time())

    @property
    def shows_reactions(self) -> bool:
        return self._settings.reaction is not None

    async def show_received(self, route: Route, message_id: str | None) -> None:
        """Show a reaction, if one is set and the rate limit allows it."""
        await self._reactions.show_received(route, message_id)

    async def clear_reactions(self, message: OutboundMessage, unanswered: frozenset[str]) -> None:
        """Remove the reactions from all messages except the `unanswered` ones."""
        await self._reactions.clear_reactions(message, unanswered)

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        """Render an answer; one with too many messages becomes its beginning and a file."""
        return as_file_if_long(markdown, render(markdown), self._settings.long_answer_messages)

    def render_whole(self, markdown: str) -> Sequence[OutboundPart]:
        return render(markdown)

    async def admit(self, route: Route) -> None:
        """Wait until the rate limit allows one final.

        A sender calls this before it marks its row as in flight, so that a process killed during
        the wait has certainly not sent anything.
        """
        await self._sender.admit(route)

    def try_admit(self, route: Route) -> bool:
        """Admit like `admit` if that needs no wait."""
        return self._sender.try_admit(route)

    async def send(self, message: OutboundMessage) -> str:
        """Send after waiting for the rate limit, unless admitted. Raises `SendError`."""
        return await self._sender.send(message)

    @property
    def file_limits(self) -> FileLimits:
        return self._settings.file_limits

    async def send_files(self, message: OutboundMessage) -> str:
        """Send files with a caption, several as an album, after waiting unless admitted.

        Raises `SendError`.
        """
        return await self._sender.send_files(message)

    async def fetch(self, media: Media, into: BinaryIO, limit_bytes: int) -> None:
        """Write a received file. Raises `NotFetched`, and `OSError` of `into`."""
        await self._client.fetch(media, into, limit_bytes)

    async def probe(self) -> None:
        """Raise `NotSent` when the server does not respond."""
        await self._sender.probe()

    def streaming(self, route: Route) -> Streaming:
        """Return the chosen kind of preview; drafts only if they are available."""
        configured = self._settings.streaming
        return (
            "edits"
            if configured == "drafts" and not self._sender.supports_drafts(route)
            else configured
        )

    @property
    def trace(self) -> Trace:
        return self._settings.trace

    def pages(self, growing: PreviewContent) -> Sequence[OutboundPart]:
        """Return at most as many pages as remain messages if the whole answer becomes a file."""
        most = self._settings.long_answer_messages
        return render_pages(growing.text, growing.status_line, text_messages(most) or _MAX_PAGES)

    async def preview(
        self,
        route: Route,
        page: OutboundPart,
        provider_message_id: str | None,
        reply_to: str | None = None,
    ) -> str:
        """Show a page of a growing answer. Raises `SendError`.

        After `Ambiguous` on a new message, the chat may contain a stray message.
        """
        return await self._sender.preview(route, page, provider_message_id, reply_to)

    async def show_draft(self, route: Route, content: PreviewContent, number: int) -> None:
        """Show `content` for half a minute, in private chats. Raises `SendError`."""
        if self._sender.supports_drafts(route):
            await self._sender.show_draft(route, content, number)

    def render_approval(self, question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
        """Render the question with its details in a code block, cut to one message."""
        return render_approval(question, decided)

    def render_details(self, question: ApprovalPrompt) -> OutboundFile | None:
        return render_details(question)

    async def acknowledge(self, event_id: str, sentence: str) -> None:
        """Show a short sentence to the person who pressed the button.

        Raises `SendError`, also if it is too late.
        """
        await self._sender.acknowledge(event_id, sentence)

    async def remove_buttons(self, route: Route, provider_message_id: str) -> None:
        await self._sender.remove_buttons(route, provider_message_id)

    async def typing(self, route: Route) -> None:
        """Show "typing" for five seconds if the rate limit allows it. Raises `SendError`."""
        await self._sender.typing(route)

    async def aclose(self) -> None:
        await self._client.aclose()


def _webhook(
    settings: TelegramSettings,
    client: TelegramClient,
    places: ChatSettingsIndex,
    memo: ChannelState,
) -> "Webhook":
    # Most bots poll and never need it.
    from gateway.channels.telegram.inbound.webhook import Webhook

    return Webhook(settings, client, places, memo)
