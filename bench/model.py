"""Process with a model that answers immediately: `python -m bench.model` prints its address.

The model's name selects the answer: "chunks" is a long streamed text, "apart" a text whose chunks
arrive one by one, "calls-N-M" N replies of M tool calls each before the final reply.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from aiohttp import web

CHUNKS = 4_000
CHUNKS_APART = 1_000
# The chunks of a fast model arrive several at a time.
_TOGETHER = 4
_APART_S = 0.001


async def complete(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if body["model"] == "apart":
        for n in range(CHUNKS_APART):
            await response.write(_event({"content": f" word{n}"}))
            await asyncio.sleep(_APART_S)
    else:
        for portion in _text() if body["model"] == "chunks" else _calls(body):
            await response.write(portion)
    await response.write(_event({}, "stop") + b"data: [DONE]\n\n")
    return response


def _text() -> Iterator[bytes]:
    for n in range(0, CHUNKS, _TOGETHER):
        yield b"".join(_event({"content": f" word{n + i}"}) for i in range(_TOGETHER))


def _calls(body: dict[str, Any]) -> Iterator[bytes]:
    replies, at_once = map(int, body["model"].split("-")[1:])
    done = sum(message["role"] == "tool" for message in body["messages"])
    if done >= replies * at_once:
        yield _event({"content": "Done."})
        return
    for index in range(at_once):
        arguments = json.dumps({"path": f"{done + index}.txt"})
        call = {"index": index, "id": f"c{done + index}", "type": "function"}
        function = {"name": "read_file", "arguments": arguments}
        yield _event({"tool_calls": [{**call, "function": function}]})


def _event(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}
    return f"data: {json.dumps(data)}\n\n".encode()


async def main() -> None:
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(json.dumps({"url": f"http://127.0.0.1:{runner.addresses[0][1]}/v1"}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
