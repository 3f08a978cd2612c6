"""Fake image and text-to-speech service with OpenAI's protocol."""

import base64
from typing import Any

from aiohttp import web

from tests.fakes.loopback import LoopbackServer

# The smallest PNG image, and the beginning of an Ogg file.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
OGG = b"OggS" + bytes(60)


class Studio(LoopbackServer):
    """Server that answers with `picture` and `voice`, or with the next of the `answers`.

    `answers` are pairs of status and body. Images are sent inline, or as an address when
    `by_address` is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.picture, self.voice, self.by_address = PNG, OGG, False
        self.answers: list[tuple[int, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.app.router.add_post("/v1/images/generations", self._paint)
        self.app.router.add_post("/v1/audio/speech", self._speak)
        self.app.router.add_get("/picture", self._show)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    async def _paint(self, request: web.Request) -> web.Response:
        if (failure := await self._failure(request)) is not None:
            return failure
        if self.by_address:
            return web.json_response({"created": 1, "data": [{"url": f"{self.url}/picture"}]})
        encoded = base64.b64encode(self.picture).decode()
        return web.json_response({"created": 1, "data": [{"b64_json": encoded}]})

    async def _speak(self, request: web.Request) -> web.Response:
        if (failure := await self._failure(request)) is not None:
            return failure
        return web.Response(body=self.voice, content_type="audio/ogg")

    async def _show(self, request: web.Request) -> web.Response:
        return web.Response(body=self.picture, content_type="image/png")

    async def _failure(self, request: web.Request) -> web.Response | None:
        self.requests.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        if not self.answers:
            return None
        status, body = self.answers.pop(0)
        return web.json_response(body, status=status)
