"""Which models a local Ollama offers, asked without waiting for one that is not there."""

import asyncio
import json
from contextlib import suppress

_DEADLINE_S = 0.5
_LIMIT_BYTES = 1 << 20


async def ollama_models(host: str = "127.0.0.1", port: int = 11434) -> list[str]:
    """Names from `GET /api/tags` (docs.ollama.com/api/tags); empty when nobody answers."""
    with suppress(OSError, TimeoutError, ValueError, KeyError, TypeError, RecursionError):
        async with asyncio.timeout(_DEADLINE_S):
            return [model["name"] for model in json.loads(await _get(host, port))["models"]]
    return []


async def _get(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # HTTP/1.0: the answer is neither chunked nor kept open.
        writer.write(b"GET /api/tags HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = b""
        # Whoever listens there may be no Ollama, and never end.
        while len(answer) < _LIMIT_BYTES and (chunk := await reader.read(_LIMIT_BYTES)):
            answer += chunk
    finally:
        writer.close()
    return answer.partition(b"\r\n\r\n")[2]
