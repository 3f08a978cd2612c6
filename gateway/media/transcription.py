"""Transcription of voice messages by a service with OpenAI's protocol.

https://platform.openai.com/docs/api-reference/audio/createTranscription
"""

import asyncio
import json
import os
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.errors import ConfigError
from agent.i18n import mark_for_translation
from agent.providers.usage import NUSD_PER_USD
from agent.proxies.outbound import open_session, proxy_for
from agent.serialization import safe_text
from gateway.channels.base import NotFetched
from gateway.config.sections import TranscriptionSection
from gateway.core.messages import Media

# Limit of OpenAI; other services accept more, but voice messages are rarely longer.
MAX_BYTES = 25 * 2**20
ANSWER_TIMEOUT_S = 120.0
_OPENAI = "api.openai.com"
# https://platform.openai.com/docs/pricing
_USD_A_MINUTE = {"whisper-1": 0.006, "gpt-4o-transcribe": 0.006, "gpt-4o-mini-transcribe": 0.003}
MAX_CONCURRENT = 4
_MAX_TEXT_CHARS = 20_000
_MAX_ANSWER_BYTES = 1_000_000
# Spoken messages, which need an answer even without a transcription.
_SPOKEN = frozenset({"voice", "video_note"})
_NO_SERVICE = mark_for_translation(
    "no transcription service is configured (`transcription.api_base`)"
)
_TOO_LARGE = mark_for_translation("it exceeds the transcription limit of {limit} MB")
_REFUSED = mark_for_translation("the transcription service rejected it (HTTP status {status})")
_KEY = mark_for_translation(
    "the transcription service rejected the API key (`transcription.api_key`)"
)
_UNREACHABLE = mark_for_translation("could not connect to the transcription service")
_SLOW = mark_for_translation("the transcription service timed out after {n} s")
_ODD = mark_for_translation("the transcription service returned an unexpected response")


class Transcriber:
    """Client of the configured service; without one, spoken messages get a notice."""

    def __init__(
        self, settings: TranscriptionSection, *, answer_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._settings = settings
        self._answer_s = answer_s
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def transcribe(self, media: Media, path: Path) -> Media:
        """Return the media with its transcription, if it is speech. Raises `NotFetched`."""
        if media.kind not in _SPOKEN | {"audio"}:
            return media
        if self._settings.api_base is None:
            if media.kind in _SPOKEN:
                raise NotFetched(_NO_SERVICE)
            return media
        if (media.size_bytes or 0) > MAX_BYTES:
            raise NotFetched(_TOO_LARGE, limit=MAX_BYTES // 2**20)
        async with self._slots:
            text = await self._ask(path)
        transcript, model = (
            safe_text(text.strip())[:_MAX_TEXT_CHARS],
            f"transcription/{self._settings.model}",
        )
        return replace(
            media, words=transcript, heard_by=model, heard_nano=self._cost(media.seconds)
        )

    def _cost(self, seconds: int | None) -> int | None:
        """Return nano-dollars, or None if the price or the length is unknown."""
        transcription = self._settings
        price = transcription.price_per_minute_usd
        if price is None and urlsplit(transcription.api_base or "").hostname == _OPENAI:
            price = _USD_A_MINUTE.get(transcription.model)
        if price == 0:
            return 0
        return (
            None if price is None or seconds is None else ceil(price * NUSD_PER_USD * seconds / 60)
        )

    async def _ask(self, path: Path) -> str:
        import aiohttp

        transcription = self._settings
        key = transcription.api_key
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        form = aiohttp.FormData({"model": transcription.model, "response_format": "json"})
        if transcription.language:
            form.add_field("language", transcription.language)
        url = f"{str(transcription.api_base).rstrip('/')}/audio/transcriptions"
        timeout = aiohttp.ClientTimeout(total=self._answer_s, connect=10.0)
        with path.open("rb") as file:
            form.add_field("file", file, filename=path.name)
            try:
                async with (
                    open_session(proxy_for(url, os.environ), timeout=timeout) as session,
                    session.post(url, data=form, headers=headers, allow_redirects=False) as answer,
                ):
                    status, body = answer.status, bytearray()
                    async for piece in answer.content.iter_any():
                        body += piece
                        if len(body) > _MAX_ANSWER_BYTES:
                            raise NotFetched(_ODD)
            except aiohttp.ConnectionTimeoutError as exc:
                raise NotFetched(_UNREACHABLE, is_retryable=True) from exc
            except TimeoutError as exc:
                # A retry would be as slow, and the chat waits for it.
                raise NotFetched(_SLOW, n=round(self._answer_s)) from exc
            except (aiohttp.ClientError, ConfigError, OSError) as exc:
                raise NotFetched(_UNREACHABLE, is_retryable=True) from exc
        if status in (401, 403):
            raise NotFetched(_KEY)
        if status != 200:
            again = status == 429 or status >= 500
            raise NotFetched(_REFUSED, is_retryable=again, status=status)
        return _text_of(bytes(body))


def _text_of(body: bytes) -> str:
    try:
        data: Any = json.loads(body)
    except ValueError:
        data = None
    text = data.get("text") if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise NotFetched(_ODD)
    return text
