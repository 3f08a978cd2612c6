"""Answers read aloud by a service with OpenAI's protocol.

https://platform.openai.com/docs/api-reference/audio/createSpeech

Delivery is guaranteed only for the text of an answer, which is stored and sent first. The voice
message follows; a crash in between omits it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.proxies.outbound import open_session, proxy_for
from agent.records import frozen
from gateway.channels.base import SupportsMedia, ability
from gateway.config.sections import TtsSection
from gateway.core.messages import InboundMessage, OutboundPart, Route
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.store.port import Store
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution.claims import TurnClaim

log = logging.getLogger(__name__)

# Limit of the service.
MAX_CHARS = 4_096
ANSWER_TIMEOUT_S = 60.0
_MAX_BYTES = 20_000_000
_MAX_WAITING = 32
_SPOKEN = frozenset({"voice", "video_note"})
_ENDS = (". ", "! ", "? ", "。", "！", "？", "\n")


class SpeechFailed(KoreError):
    """Raised when the service did not read a text aloud; the reason is for the log."""


@frozen
class SpokenReply:
    """Answer to read aloud: the plain text and its route."""

    delivery_id: str
    route: Route
    event_id: str
    text: str


@dataclass(slots=True, kw_only=True)
class SpeechService:
    """Service that reads answers aloud in the background, one after the other."""

    settings: TtsSection
    database: Store
    renderer: ReplyRenderer
    sender: OutboxSender
    answer_s: float = ANSWER_TIMEOUT_S
    _replies: "asyncio.Queue[SpokenReply]" = field(
        default_factory=lambda: asyncio.Queue(_MAX_WAITING)
    )

    def consider(self, claim: TurnClaim, answer: str) -> None:
        """Queue the stored answer of a turn if it should be read aloud."""
        message = claim.messages[-1]
        if not answer or self._replies.full() or not self._is_wanted(claim.messages):
            return
        if ability(self.renderer.channel(message.route), SupportsMedia) is None:
            return
        parts = self.renderer.render(message.route, answer)
        text = shortened("\n".join(part.text for part in parts))
        reply = SpokenReply(f"speech:{claim.turn}", message.route, message.event_id, text)
        self._replies.put_nowait(reply)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            reply = await self._replies.get()
            try:
                await self._send(reply)
            except KoreError as exc:
                log.warning("an answer is not read aloud: %s", exc)

    def _is_wanted(self, messages: Sequence[InboundMessage]) -> bool:
        tts = self.settings
        if tts.api_base is None or tts.replies == "never":
            return False
        if tts.replies == "private" and messages[-1].private:
            return True
        return any(media.kind in _SPOKEN for message in messages for media in message.media)

    async def _send(self, reply: SpokenReply) -> None:
        data = await self._speak(reply.text)
        file = await self.sender.outgoing.write(t("Answer.ogg"), data, "voice")
        part = OutboundPart("", files=(file,))
        outgoing = OutgoingReply(
            delivery_id=reply.delivery_id,
            route=reply.route,
            parts=(part,),
            event_id=reply.event_id,
            is_read=True,
        )
        try:
            await self.database.transact(outbox.put, None, [outgoing], time.time())
        except BaseException:
            await self.sender.outgoing.delete([file])
            raise
        self.sender.wake(reply.route.lane)

    async def _speak(self, text: str) -> bytes:
        """Return Ogg with Opus, as chats play it. Raises `SpeechFailed`."""
        import aiohttp

        tts = self.settings
        headers = {}
        if tts.api_key is not None:
            headers["Authorization"] = f"Bearer {tts.api_key.get_secret_value()}"
        body = {
            "model": tts.model,
            "voice": tts.voice,
            "input": text,
            "response_format": "opus",
        }
        url = f"{str(tts.api_base).rstrip('/')}/audio/speech"
        timeout = aiohttp.ClientTimeout(total=self.answer_s, connect=10.0)
        try:
            async with (
                open_session(proxy_for(url, os.environ), timeout=timeout) as session,
                session.post(url, json=body, headers=headers, allow_redirects=False) as answer,
            ):
                data = bytearray()
                async for piece in answer.content.iter_any():
                    data += piece
                    if len(data) > _MAX_BYTES:
                        raise SpeechFailed("the speech service returned too much")
        except TimeoutError as exc:
            raise SpeechFailed(f"the speech service timed out after {self.answer_s:g} s") from exc
        except ConfigError as exc:
            raise SpeechFailed(str(exc)) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise SpeechFailed("could not connect to the speech service") from exc
        if answer.status in (401, 403):
            raise SpeechFailed("the speech service rejected the API key (tts.api_key)")
        if answer.status != 200:
            raise SpeechFailed(f"the speech service rejected it (HTTP status {answer.status})")
        if data[:4] != b"OggS":
            raise SpeechFailed("the speech service returned something that is not Ogg")
        return bytes(data)


def shortened(text: str) -> str:
    """Return the part of a text to read aloud, ending with a sentence where possible."""
    if len(text) <= MAX_CHARS:
        return text
    head = text[:MAX_CHARS]
    end = max(head.rfind(mark) + len(mark) for mark in _ENDS)
    return head[:end].rstrip() if end > MAX_CHARS // 2 else head
