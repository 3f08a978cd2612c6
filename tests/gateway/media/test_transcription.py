from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.channels.base import NotFetched
from gateway.config.sections import TranscriptionSection
from gateway.core.messages import Media
from gateway.media.transcription import MAX_BYTES, Transcriber
from tests.fakes.listener import Listener
from tests.fakes.outbound_proxy import HttpProxy

VOICE = Media("voice", path="inbox/v.ogg", media_type="audio/ogg", size_bytes=9)


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with Listener() as server:
        yield server


@pytest.fixture
def voice_file(tmp_path: Path) -> Path:
    path = tmp_path / "voice-1.ogg"
    path.write_bytes(b"OggS data")
    return path


def transcriber(listener: Listener, **more: Any) -> Transcriber:
    section = TranscriptionSection(api_base=listener.base_url, **more)
    return Transcriber(section, answer_s=20.0)


async def test_voice_message_is_transcribed(listener: Listener, voice_file: Path) -> None:
    listener.text = "  good morning \ud83d\ude00 "
    service = transcriber(listener, api_key=SecretStr("sk-x"), model="large", language="de")
    media = await service.transcribe(VOICE, voice_file)
    assert media.words == "good morning \U0001f600"
    (request,) = listener.requests
    assert (request.filename, request.data) == ("voice-1.ogg", b"OggS data")
    assert request.fields == {"model": "large", "response_format": "json", "language": "de"}
    assert request.authorization == "Bearer sk-x"


@pytest.mark.parametrize(
    ("price", "seconds", "cost_nusd"),
    [(0.006, 30, 3_000_000), (None, 30, None), (0.006, None, None), (0.0, None, 0)],
)
async def test_transcription_cost_depends_on_the_duration(
    listener: Listener,
    voice_file: Path,
    price: float | None,
    seconds: int | None,
    cost_nusd: int | None,
) -> None:
    service = transcriber(listener, model="large", price_per_minute_usd=price)
    media = await service.transcribe(replace(VOICE, seconds=seconds), voice_file)
    assert (media.heard_by, media.heard_nano) == ("transcription/large", cost_nusd)


async def test_proxy_of_the_environment_is_used(
    listener: Listener, voice_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with HttpProxy(listener.port) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        section = TranscriptionSection(api_base="http://speech.example/v1")
        await Transcriber(section, answer_s=20.0).transcribe(VOICE, voice_file)
        assert len(proxy.targets) == 1
        # A loopback address is exempt.
        await transcriber(listener).transcribe(VOICE, voice_file)
    assert len(proxy.targets) == 1
    assert len(listener.requests) == 2


async def test_chunked_response_is_read_to_its_end(listener: Listener, voice_file: Path) -> None:
    listener.answers.append((200, ['{"text": "good ', 'morning", ', '"language": "en"}']))
    assert (await transcriber(listener).transcribe(VOICE, voice_file)).words == "good morning"


async def test_endless_response_is_rejected(listener: Listener, voice_file: Path) -> None:
    listener.answers.append((200, ['{"text": "', *["a" * 100_000] * 11, '"}']))
    with pytest.raises(
        NotFetched, match="the transcription service returned an unexpected response"
    ):
        await transcriber(listener).transcribe(VOICE, voice_file)


async def test_only_audio_is_transcribed(listener: Listener, voice_file: Path) -> None:
    picture = Media("photo", path="inbox/p.jpg")
    assert await transcriber(listener).transcribe(picture, voice_file) is picture
    assert listener.requests == []


async def test_voice_without_a_service_is_reported(
    voice_file: Path,
) -> None:
    nobody = Transcriber(TranscriptionSection())
    with pytest.raises(NotFetched, match="no transcription service is configured"):
        await nobody.transcribe(VOICE, voice_file)
    song = Media("audio", path="inbox/a.mp3")
    assert await nobody.transcribe(song, voice_file) is song


@pytest.mark.parametrize(
    ("status", "body", "why", "again"),
    [
        (401, {"error": {}}, "rejected the API key", False),
        (400, {"error": {}}, "HTTP status 400", False),
        (429, {"error": {}}, "HTTP status 429", True),
        (503, "busy", "HTTP status 503", True),
        (200, "not JSON", "unexpected response", False),
        (200, {"text": None}, "unexpected response", False),
    ],
)
async def test_rejection_is_reported_in_a_sentence(
    listener: Listener, voice_file: Path, status: int, body: object, why: str, again: bool
) -> None:
    listener.answers.append((status, body))
    with pytest.raises(NotFetched, match=why) as refused:
        await transcriber(listener).transcribe(VOICE, voice_file)
    assert refused.value.is_retryable is again


async def test_unreachable_service_is_retryable(voice_file: Path) -> None:
    async with Listener() as listener:
        service = transcriber(listener)
    with pytest.raises(
        NotFetched, match="could not connect to the transcription service"
    ) as refused:
        await service.transcribe(VOICE, voice_file)
    assert refused.value.is_retryable


async def test_slow_service_times_out_without_a_retry(listener: Listener, voice_file: Path) -> None:
    listener.answers.append((200, None))
    section = TranscriptionSection(api_base=listener.base_url)
    with pytest.raises(NotFetched, match="timed out after 1 s") as refused:
        await Transcriber(section, answer_s=1.0).transcribe(VOICE, voice_file)
    assert not refused.value.is_retryable


async def test_oversized_recording_is_not_sent(listener: Listener, voice_file: Path) -> None:
    large = Media("voice", path="inbox/v.ogg", size_bytes=MAX_BYTES + 1)
    with pytest.raises(NotFetched, match="limit of 25 MB"):
        await transcriber(listener).transcribe(large, voice_file)
    assert listener.requests == []
