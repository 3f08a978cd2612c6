"""A fake model server: OpenAI's format, its Responses API, Anthropic's and Ollama's.

    async with ModelServer() as model:
        model.script(ReplyScript(tool_calls=(Call("exec", {"command": "ls"}),)))
        ... base_url=model.base_url ...
        assert model.requests[0].body["model"] == "fake"

Replies come from the queue first, then from `mind`, which echoes by default.
As a process: `python -m tests.fakes.model --port 0 --latency-ms 200`.
"""

import argparse
import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.fakes.loopback import LoopbackServer, reset, serve
from tests.fakes.model_formats import FORMATS, Format, Writer, refuse
from tests.fakes.model_mind import Mind, always, echo, worker
from tests.fakes.model_script import (
    Dialect,
    ReplyScript,
    context_too_long,
    refusal,
    script_from_json,
)
from tests.fakes.model_wire import counted_usage, split_characters


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as received; `at` is Unix time in seconds."""

    raw: bytes
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    at: float


class ModelServer(LoopbackServer):
    """Model server for several API formats.

    Routes: /v1/chat/completions, /v1/responses, /v1/messages, /api/chat, /v1/embeddings, /v1/models
    and /api/tags. `facts` are answers of local servers about their model, by path: /props of
    llama.cpp, /api/show of Ollama, /api/v0/models of LM Studio; `model_facts` are further fields of
    each model in /v1/models.

    `strict` refuses the requests that the vendor refuses (see model_checks and the wires). With
    `api_key` other keys get a 401; with `context_tokens` longer requests (bytes / 4) get
    context_length_exceeded.
    `abandoned` counts streams that the client left before the end.
    """

    def __init__(
        self,
        mind: Mind = echo,
        *,
        dialect: Dialect = Dialect(),  # noqa: B008  # immutable
        api_key: str | None = None,
        strict: bool = True,
        port: int = 0,
    ) -> None:
        super().__init__(port)
        self.mind = mind
        self.dialect = dialect
        self.api_key = api_key
        self.strict = strict
        # Refuses a request by its bytes, as a non-standard server would.
        self.objects: Callable[[bytes], ReplyScript | None] = lambda raw: None
        self.context_tokens: int | None = None
        self.latency_s = 0.0
        self.models = ["fake"]
        self.models_status = 200
        self.model_facts: Mapping[str, Any] = {}
        self.facts: Mapping[str, Mapping[str, Any]] = {}
        self.requests: list[ReceivedRequest] = []
        self.keep: int | None = None  # number of requests to keep in a long run; None for all
        # Texts of each embeddings request, and the vector of a text.
        self.embedded: list[list[str]] = []
        self.meaning: Callable[[str], Sequence[float]] = lambda text: [1.0, len(text) / 100]
        self.embeddings_status = 200
        self.abandoned = 0
        self.waiting = 0
        self._passes = 0
        self._queue: deque[ReplyScript] = deque()
        self.app.router.add_routes(
            [
                *(web.post(path, self._complete) for path in FORMATS),
                web.post("/v1/embeddings", self._embeddings),
                web.get("/v1/models", self._models),
                web.get("/api/tags", self._tags),
                web.get("/props", self._facts),
                web.get("/api/v0/models", self._facts),
                web.post("/api/show", self._facts),
                web.get("/control/requests", self._control_requests),
                web.post("/control/script", self._control_script),
            ]
        )

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def script(self, *replies: ReplyScript | str) -> None:
        """Queue replies; a string is a reply with that text."""
        self._queue.extend(
            ReplyScript(text=reply) if isinstance(reply, str) else reply for reply in replies
        )

    def let_go(self) -> None:
        """Release the waiting replies (counted by `waiting`), or the next one that would wait."""
        self._passes += max(1, self.waiting)
        self.changed()

    def let_one_go(self) -> None:
        """Release one of the waiting replies."""
        self._passes += 1
        self.changed()

    def forget_script(self) -> None:
        """Drop unused replies and unused releases."""
        self._queue.clear()
        self._passes = 0

    def summary(self) -> str:
        return f"{len(self.requests)} requests, {len(self._queue)} replies left in the queue"

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        format_ = FORMATS[request.path]
        try:
            body = json.loads(raw)
        except ValueError:
            return refuse(
                refusal(400, "We could not parse the JSON body of your request."), format_
            )
        received_request = ReceivedRequest(raw, body, dict(request.headers), time.time())
        self.requests.append(received_request)
        if self.keep is not None:
            del self.requests[: -self.keep]
        self.changed()
        reply = self._objection(received_request, format_) or (
            self._queue.popleft() if self._queue else self.mind(format_.as_openai(body))
        )
        try:
            await self.pause(self.latency_s + reply.latency_s)
            return await self._answer(request, received_request, reply, format_)
        except ConnectionError:
            # The client was killed or has left, so there is no client to answer.
            self.abandoned += 1
            self.changed()
            return await reset(request)
        except asyncio.CancelledError:
            self.abandoned += 1
            self.changed()
            raise

    def _objection(self, asked: ReceivedRequest, format_: Format) -> ReplyScript | None:
        if self.api_key and format_.key(asked.headers) != self.api_key:
            return refusal(401, "Incorrect API key provided.", code="invalid_api_key")
        tokens = len(asked.raw) // 4
        if self.context_tokens is not None and tokens > self.context_tokens:
            return context_too_long(self.context_tokens, tokens)
        reason = format_.complaint(asked.body, asked.headers) if self.strict else None
        return refusal(400, reason) if reason else self.objects(asked.raw)

    async def _answer(
        self, request: web.Request, asked: ReceivedRequest, reply: ReplyScript, format_: Format
    ) -> web.StreamResponse:
        if reply.status != 200:
            return refuse(reply, format_)
        if reply.breaks and reply.breaks.kind == "refuse":
            return await reset(request)
        dialect = reply.dialect or self.dialect
        writer = format_.writer(reply, dialect, asked.body)
        usage = reply.usage or counted_usage(reply, len(asked.raw))
        if dialect.plain_json or not asked.body.get("stream"):
            return web.json_response(writer.whole(usage))
        response = web.StreamResponse(headers={"Content-Type": writer.content_type})
        await response.prepare(request)
        for n, frame in enumerate(writer.events(usage)):
            if reply.breaks and reply.breaks.after == n and reply.breaks.kind != "garbage":
                return await self._break_off(request, response, reply, writer)
            if reply.breaks and reply.breaks.after == n:
                await response.write(writer.garbage_event())
            if n == reply.waits_at:
                await self._wait()
            if n and reply.chunk_delay_s:
                await self.pause(reply.chunk_delay_s)
            await _write(response, frame, dialect)
        return response

    async def _wait(self) -> None:
        """Wait until the reply is released or the client has disconnected."""
        self.waiting += 1
        self.changed()
        try:
            while not self._passes and not self.stopping:
                await self.news(1.0)
        finally:
            self.waiting -= 1
        self._passes = max(0, self._passes - 1)

    async def _break_off(
        self,
        request: web.Request,
        response: web.StreamResponse,
        reply: ReplyScript,
        writer: Writer,
    ) -> web.StreamResponse:
        assert reply.breaks is not None
        if reply.breaks.kind == "error":
            await response.write(writer.error_event())
        if reply.breaks.kind == "hang":
            return await self.hang(request)
        if reply.breaks.kind == "reset":
            # A reset discards data that the client has not read yet: let it arrive first.
            await asyncio.sleep(0.01)
            return await reset(request)
        return response

    async def _embeddings(self, request: web.Request) -> web.Response:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        status = 401 if self.api_key and key != self.api_key else self.embeddings_status
        if status != 200:
            error = refusal(status, f"There are no embeddings for {key}.")
            return refuse(error, FORMATS["/v1/chat/completions"])
        texts = (await request.json())["input"]
        self.embedded.append(texts)
        data = [
            {"object": "embedding", "index": n, "embedding": list(self.meaning(text))}
            for n, text in enumerate(texts)
        ]
        # The order is arbitrary: the index maps each vector to its text.
        return web.json_response({"object": "list", "data": data[::-1], "model": "fake"})

    async def _models(self, request: web.Request) -> web.Response:
        if self.models_status != 200:
            refused = refusal(self.models_status, "The models cannot be listed.")
            return refuse(refused, FORMATS["/v1/chat/completions"])
        model = {"object": "model", "owned_by": "tests", **self.model_facts}
        data = [{"id": name, **model} for name in self.models]
        return web.json_response({"object": "list", "data": data})

    async def _tags(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"models": [{"name": model, "model": model} for model in self.models]}
        )

    async def _facts(self, request: web.Request) -> web.Response:
        if request.path not in self.facts:
            raise web.HTTPNotFound
        return web.json_response(self.facts[request.path])

    async def _control_requests(self, request: web.Request) -> web.Response:
        """Return raw bodies, starting at number `since`."""
        requests = self.requests[int(request.query.get("since", "0")) :]
        return web.json_response(
            [{"raw": item.raw.decode("utf-8", "replace"), "at": item.at} for item in requests]
        )

    async def _control_script(self, request: web.Request) -> web.Response:
        self.script(*(script_from_json(reply) for reply in await request.json()))
        return web.json_response({"ok": True})


async def _write(response: web.StreamResponse, frame: bytes, dialect: Dialect) -> None:
    if not dialect.split_characters:
        await response.write(frame)
        return
    for piece in split_characters(frame):
        await response.write(piece)
        # Long enough for the bytes to be sent in a separate segment.
        await asyncio.sleep(0.001)


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in model server.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0, help="before the first byte")
    parser.add_argument("--chunk-delay-ms", type=float, default=0.0, help="between events")
    parser.add_argument("--reply", help="always say this instead of echoing")
    parser.add_argument("--pieces", type=int, default=3, help="text deltas of a reply")
    parser.add_argument("--effects-file", type=Path, help="work mode: where jobs leave their mark")
    parser.add_argument("--keep", type=int, help="requests to remember (all)")
    options = parser.parse_args()

    mind: Mind = echo if options.reply is None else always(ReplyScript(text=options.reply))
    if options.effects_file:
        mind = worker(options.effects_file)

    def paced(body: Mapping[str, Any]) -> ReplyScript:
        delay_s = options.chunk_delay_ms / 1000
        return replace(mind(body), pieces=options.pieces, chunk_delay_s=delay_s)

    async def run() -> None:
        server = ModelServer(paced, port=options.port)
        server.latency_s = options.latency_ms / 1000
        server.keep = options.keep
        await serve(server)

    asyncio.run(run())


if __name__ == "__main__":
    main()
