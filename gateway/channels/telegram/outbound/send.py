"""Sending to Telegram, with errors classified for retries."""

import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from telegram import (
    InlineKeyboardButton,
    InlineKeyboardMarkup,
)
from telegram.error import TelegramError

from agent.text.visible import replace_lone_surrogates
from gateway.channels.base import (
    Ambiguous,
    BadFormat,
    ChannelRateLimited,
    ChatMoved,
    ChatUnreachable,
    MessageNotFound,
    MessageRefused,
    NotSent,
    PreviewContent,
    SendError,
    TopicNotFound,
)
from gateway.channels.chat_aliases import ChatIdAliases
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.api.client import TelegramClient
from gateway.channels.telegram.api.request import Refusal, RequestNotSent
from gateway.channels.telegram.ids import (
    is_direct,
    stored_id,
    telegram_chat_id,
    telegram_message_id,
    thread_parameters,
)
from gateway.channels.telegram.outbound.render import (
    mark_repeat,
    mark_topic_lost,
    render_line,
    render_preview,
)
from gateway.channels.telegram.outbound.rich_message import plain_entities, rich_message
from gateway.core.messages import OutboundMessage, OutboundPart, Route

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_MAX_TOAST_CHARS = 200
_MAX_PREVIEWS = 64

# Telegram explains refusals in prose; these phrases have been stable for years.
# The patterns are compiled on first use, which most runs never reach.
_UNCHANGED = r"(?i)message is not modified"
_GONE = r"(?i)message to edit not found|can't be edited|message_id_invalid"
_FORMAT = r"(?i)can't parse|entit(?:y|ies)|unsupported url"
_NO_TOPIC = (
    r"(?i)"
    r"message thread not found|topic_(?:closed|deleted|id_invalid)"
    r"|topic (?:is )?(?:closed|deleted)"
)
_UNREACHABLE = (
    r"(?i)"
    r"chat not found|user not found|peer_id_invalid|deactivated|was kicked|not a member"
    r"|not enough rights|no rights|[a-z]_forbidden|administrator rights|upgraded to a super"
)
# Refusals that are about the bot rather than the message, so that another form cannot help.
_ABOUT_THE_BOT = (401, 409)
# Refusal by a server that ignores the rich content of an edit.
_NO_TEXT = r"(?i)text is empty"


@dataclass(slots=True)
class RichSupport:
    """Support of a Bot API server for rich messages and rich drafts, true until their method turns
    out to be unknown.

    https://core.telegram.org/bots/api#rich-messages
    """

    messages: bool = True
    drafts: bool = True

    def miss_messages(self) -> None:
        self.messages = False

    def miss_drafts(self) -> None:
        self.drafts = False


class TelegramSender:
    """Sender for one bot; all its messages pass the rate limiter.

    `rich` belongs to the server.
    """

    def __init__(
        self,
        client: TelegramClient,
        gate: RateLimiter,
        moves: ChatIdAliases | None = None,
        rich: RichSupport | None = None,
    ) -> None:
        self._rich = rich or RichSupport()
        self._bot = client.bot
        self._client = client
        self._gate = gate
        self._moves = moves or ChatIdAliases()
        self._knows_drafts = True
        self._chats_without_drafts: set[str] = set()
        self._open_admissions: Counter[str] = Counter()
        # Displayed content of the running previews.
        self._preview_pages: dict[tuple[Route, str], OutboundPart] = {}

    async def admit(self, route: Route) -> None:
        """Wait until the rate limiter admits the next `send` to this chat."""
        await self._gate.acquire(route.chat_id, group=_is_group(route))
        self._open_admissions[route.chat_id] += 1

    def try_admit(self, route: Route) -> bool:
        """Admit the next `send` if that needs no wait; return False otherwise."""
        if not self._gate.acquire_at_once(route.chat_id, group=_is_group(route)):
            return False
        self._open_admissions[route.chat_id] += 1
        return True

    async def send(self, message: OutboundMessage) -> str:
        """Send or edit a message, waiting for the rate limiter unless admitted; return its id."""
        route, part = message.route, message.content
        if message.maybe_duplicate and message.provider_message_id is None:
            part = mark_repeat(part, preview=message.preview_lost, number=message.part)
        if message.strayed and message.part == 0:
            part = mark_topic_lost(part)
        await self._pass_gate(route)
        if message.provider_message_id and self._is_shown(route, part, message.provider_message_id):
            return message.provider_message_id
        try:
            if message.provider_message_id is not None:
                return await self._edit(route, part, message.provider_message_id)
            return await self._new(route, part, message.reply_to)
        except ChatMoved as moved:
            # Only in memory; a caller that sends a final part also stores the new id.
            self._moves.learn(moved.canonical_id, moved.current_id)
            raise

    async def send_files(self, message: OutboundMessage) -> str:
        """Send files, waiting for the rate limiter unless admitted; return the first id."""
        route, part = message.route, message.content
        if message.maybe_duplicate:
            part = mark_repeat(part, preview=message.preview_lost)
        if message.strayed and message.part == 0:
            part = mark_topic_lost(part)
        await self._pass_gate(route)
        for _ in part.files[1:]:
            # Each file of an album counts towards the limit, but the album is one request.
            self._gate.try_acquire(route.chat_id, group=_is_group(route))
        target = self._target(route, message.reply_to)
        try:
            message_id = await self._outcome(route, self._client.send_files(target, part))
        except ChatMoved as moved:
            self._moves.learn(moved.canonical_id, moved.current_id)
            raise
        return stored_id(str(target["chat_id"]), message_id, self._moves)

    async def probe(self) -> None:
        """Send a harmless request, to detect connection problems."""
        try:
            await self._bot.get_me()
        except (TelegramError, LookupError, TypeError, ValueError) as exc:
            raise NotSent(f"Telegram does not answer: {exc}") from exc

    async def preview(
        self,
        route: Route,
        page: OutboundPart,
        provider_message_id: str | None,
        reply_to: str | None,
    ) -> str:
        """Show a page of a growing answer.

        Raises `ChannelRateLimited` if the rate limit is reached.
        """
        group = _is_group(route)
        if provider_message_id and self._is_shown(route, page, provider_message_id):
            return provider_message_id
        if not self._gate.try_acquire(route.chat_id, group=group):
            raise ChannelRateLimited(self._gate.wait_s(route.chat_id, group=group))
        if provider_message_id is not None:
            message_id = await self._edit(route, page, provider_message_id)
        else:
            message_id = await self._new(route, page, reply_to)
        self._preview_pages[(route, message_id)] = page
        if len(self._preview_pages) > _MAX_PREVIEWS:
            del self._preview_pages[next(iter(self._preview_pages))]
        return message_id

    def _is_shown(self, route: Route, part: OutboundPart, provider_message_id: str) -> bool:
        """Return whether a preview already shows this content.

        Telegram rejects an edit that changes nothing, but counts it.
        """
        return self._preview_pages.get((route, provider_message_id)) == part

    def supports_drafts(self, route: Route) -> bool:
        """Return whether drafts are available: in private chats that did not refuse one, on servers
        that support them."""
        is_refused = route.chat_id in self._chats_without_drafts
        return self._knows_drafts and not is_refused and not _is_group(route)

    async def show_draft(self, route: Route, content: PreviewContent, number: int) -> None:
        """Show a draft, which disappears with the next message or after half a minute.

        https://core.telegram.org/bots/api#sendmessagedraft
        """
        pieces = filter(None, (content.text, content.status_line))
        part = render_preview("\n\n".join(pieces))
        if part is None or not self._gate.try_acquire(route.chat_id, group=False):
            return
        draft = {
            "chat_id": telegram_chat_id(route, self._moves),
            "draft_id": number,
            **thread_parameters(route),
            # Telegram shows a Stop button, which sends an update: Bot API 10.3.
            "can_stop": True,
        }
        text = _text_parameters(part)
        try:
            await self._rich_or_text(
                route,
                _rich_draft(content) if self._rich.drafts else None,
                lambda rich: self._client.call("sendRichMessageDraft", draft | rich),
                lambda: self._client.call("sendMessageDraft", draft | text),
                self._rich.miss_drafts,
            )
        except (MessageRefused, NotSent) as exc:
            # Drafts are optional: an older server does not know them, a bot may lack permission.
            code = getattr(exc.__cause__, "code", None)
            if code == 404:
                self._knows_drafts = False
            elif code == 400:
                self._chats_without_drafts.add(route.chat_id)

    async def typing(self, route: Route) -> None:
        """Show "typing" if the rate limit allows it. Raises `SendError`."""
        # https://core.telegram.org/bots/api#sendchataction
        if not is_direct(route) and self._gate.try_acquire(route.chat_id, group=_is_group(route)):
            await self._outcome(
                route,
                self._bot.send_chat_action(
                    telegram_chat_id(route, self._moves),
                    "typing",
                    api_kwargs=dict(thread_parameters(route)),
                ),
            )

    async def acknowledge(self, query_id: str, sentence: str) -> None:
        """Answer a pressed button, without the rate limiter, since the chat gets no message.

        https://core.telegram.org/bots/api#answercallbackquery
        """
        try:
            await self._bot.answer_callback_query(
                query_id, replace_lone_surrogates(sentence[:_MAX_TOAST_CHARS])
            )
        except TelegramError as exc:
            raise send_error(exc) from exc
        except (LookupError, TypeError, ValueError) as exc:
            raise Ambiguous(f"Telegram's answer could not be read: {exc}") from exc

    async def remove_buttons(self, route: Route, provider_message_id: str) -> None:
        """Remove a message's buttons. Raises `SendError`.

        https://core.telegram.org/bots/api#editmessagereplymarkup
        """
        message_id = telegram_message_id(route, provider_message_id, self._moves)
        if message_id is None:
            return
        await self._gate.acquire(route.chat_id, group=_is_group(route))
        edit = self._bot.edit_message_reply_markup(
            chat_id=telegram_chat_id(route, self._moves), message_id=message_id
        )
        with suppress(_Unchanged):
            await self._outcome(route, edit)

    async def _pass_gate(self, route: Route) -> None:
        if not self._open_admissions[route.chat_id]:
            await self.admit(route)
        self._open_admissions[route.chat_id] -= 1
        if not self._open_admissions[route.chat_id]:
            del self._open_admissions[route.chat_id]

    async def _new(self, route: Route, part: OutboundPart, reply_to: str | None) -> str:
        target = self._target(route, reply_to)
        if (keyboard := _keyboard(part)) is not None:
            target["reply_markup"] = keyboard.to_dict()
        text = _text_parameters(part) | {"link_preview_options": {"is_disabled": True}}
        message_id = await self._rich_or_text(
            route,
            rich_message(part) if self._rich.messages else None,
            lambda rich: self._client.send_rich_message(target | rich),
            lambda: self._client.send_message(target | text),
            self._rich.miss_messages,
        )
        return stored_id(str(target["chat_id"]), message_id, self._moves)

    async def _rich_or_text(
        self,
        route: Route,
        rich: dict[str, Any] | None,
        send_rich: Callable[[dict[str, Any]], Awaitable[_T]],
        send_text: Callable[[], Awaitable[_T]],
        miss: Callable[[], None],
    ) -> _T:
        """Send a rich message, or the text without one or if the server refuses it.

        Only a refusal leads to the second call, so that nothing can arrive in both forms. `miss`
        records that the server does not know the method.
        """
        if rich is None:
            return await self._outcome(route, send_text())
        try:
            return await self._outcome(route, send_rich({"rich_message": rich}))
        except (MessageRefused, BadFormat, ChatUnreachable, NotSent) as exc:
            refusal = exc.__cause__
            if not isinstance(refusal, Refusal) or refusal.code in _ABOUT_THE_BOT:
                raise
        log.info("a rich message was refused, so it is sent as text: %s", refusal.description)
        # The second call counts, too, but the answer was already admitted.
        self._gate.try_acquire(route.chat_id, group=_is_group(route))
        result = await self._outcome(route, send_text())
        # The same token works with another method: this one is unknown there.
        if refusal.code == 404 or re.search(_NO_TEXT, refusal.description):
            miss()
        return result

    def _target(self, route: Route, reply_to: str | None) -> dict[str, Any]:
        """Return the destination of a new message and its reply as parameters of the Bot API."""
        target: dict[str, Any] = {
            "chat_id": telegram_chat_id(route, self._moves),
            **thread_parameters(route),
        }
        answered = telegram_message_id(route, reply_to, self._moves) if reply_to else None
        if answered:
            reply = {"message_id": answered, "allow_sending_without_reply": True}
            target["reply_parameters"] = reply
        return target

    async def _edit(self, route: Route, part: OutboundPart, provider_message_id: str) -> str:
        message_id = telegram_message_id(route, provider_message_id, self._moves)
        if message_id is None:
            raise MessageNotFound(
                "the message belongs to the group that this chat was upgraded from"
            )
        # Until this edit succeeds, the displayed content is unknown.
        self._preview_pages.pop((route, provider_message_id), None)
        target: dict[str, Any] = {
            "chat_id": telegram_chat_id(route, self._moves),
            "message_id": message_id,
        }
        if (keyboard := _keyboard(part)) is not None:
            target["reply_markup"] = keyboard.to_dict()
        text = _text_parameters(part) | {"link_preview_options": {"is_disabled": True}}
        with suppress(_Unchanged):
            await self._rich_or_text(
                route,
                rich_message(part) if self._rich.messages else None,
                lambda rich: self._client.call("editMessageText", target | rich),
                lambda: self._client.call("editMessageText", target | text),
                self._rich.miss_messages,
            )
        return provider_message_id

    async def _outcome(self, route: Route, call: Awaitable[_T]) -> _T:
        """Return the call's result, or raise its failure as an error of the port."""
        try:
            result = await call
        except TelegramError as exc:
            error = send_error(exc)
            if isinstance(exc, Refusal) and exc.new_chat_id is not None:
                error = ChatMoved(route.chat_id, str(exc.new_chat_id))
            if isinstance(error, ChannelRateLimited):
                group = _is_group(route)
                self._gate.note_refused(route.chat_id, error.retry_after_s, group=group)
            raise error from exc
        except (LookupError, TypeError, ValueError) as exc:
            raise Ambiguous(f"Telegram's answer could not be read: {exc}") from exc
        self._gate.note_passed()
        return result


class _Unchanged(SendError):
    """The message already has this text, which counts as success."""


def send_error(exc: TelegramError) -> SendError:
    """Convert a failure of the request layer to an error of the port."""
    if isinstance(exc, RequestNotSent):
        return NotSent(str(exc))
    if not isinstance(exc, Refusal):
        return Ambiguous(str(exc))
    reason = exc.description
    if exc.code == 429:
        return ChannelRateLimited(exc.retry_after_s)
    if re.search(_NO_TOPIC, reason):
        return TopicNotFound(reason)
    if exc.code == 403 or re.search(_UNREACHABLE, reason):
        return ChatUnreachable(reason)
    if exc.code in (401, 404, 409):
        # The token or the server is wrong, not the message, which is sent once that is corrected.
        return NotSent(str(exc))
    for pattern, error in (
        (_UNCHANGED, _Unchanged),
        (_GONE, MessageNotFound),
        (_FORMAT, BadFormat),
    ):
        if re.search(pattern, reason):
            return error(reason)
    return MessageRefused(reason)


def _rich_draft(content: PreviewContent) -> dict[str, Any] | None:
    """Return a draft with its status as a thinking block.

    https://core.telegram.org/bots/api#sendrichmessagedraft
    """
    part = render_preview(content.text) or OutboundPart("")
    return rich_message(part, render_line(content.status_line) if content.status_line else "")


def _text_parameters(part: OutboundPart) -> dict[str, Any]:
    """Return the text and its formatting as parameters of the Bot API."""
    parameters: dict[str, Any] = {"text": replace_lone_surrogates(part.text)}
    if entities := plain_entities(part):
        parameters["entities"] = [
            {"type": entity.type, "offset": entity.offset, "length": entity.length, **entity.extra}
            for entity in entities
        ]
    return parameters


def _keyboard(part: OutboundPart) -> InlineKeyboardMarkup | None:
    """Return a keyboard with two buttons per row; an edit without buttons removes the existing
    ones.
    """
    buttons = [InlineKeyboardButton(b.label, callback_data=b.data) for b in part.buttons]
    rows = [buttons[i : i + 2] for i in range(0, len(buttons), 2)]
    return InlineKeyboardMarkup(rows) if rows else None


def _is_group(route: Route) -> bool:
    """Return whether the route is a group; the ids of private chats are positive."""
    return route.chat_id.startswith("-")
