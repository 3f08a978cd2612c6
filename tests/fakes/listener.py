"""Fake transcription service with OpenAI's protocol."""

import asyncio
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.fakes.loopback import LoopbackServer


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """A request as received."""

    filename: str
    data: bytes
    fields: dict[str, str]
    authorization: str | None


class Listener(LoopbackServer):
    """Server that answers with `text`, or with the next of the `answers` (status and body).

    A body that is a list of texts is sent in that many chunks, with a short pause between them;
    with a body of None, the server never answers.
    """

    def __init__(self, text: str = "hello there") -> None:
        super().__init__()
        self.text = text
        self.answers: list[tuple[int, Any]] = []
        self.requests: list[TranscriptionRequest] = []
        self.app.router.add_post("/v1/audio/transcriptions", self._listen)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        fields: dict[str, str] = {}
        filename, data = "", b""
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                filename = value.filename
                with value.file:
                    data = value.file.read()
            elif isinstance(value, str):
                fields[name] = value
        self.requests.append(
            TranscriptionRequest(filename, data, fields, request.headers.get("Authorization"))
        )
        status, body = self.answers.pop(0) if self.answers else (200, {"text": self.text})
        if body is None:
            return await self.hang(request)
        if isinstance(body, str):
            return web.Response(status=status, text=body)
        if isinstance(body, list):
            return await self._in_pieces(request, body)
        return web.json_response(body, status=status)

    async def _in_pieces(self, request: web.Request, pieces: list[str]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece.encode())
            await asyncio.sleep(0.05)
        await response.write_eof()
        return response
