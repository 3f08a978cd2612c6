"""JSON-RPC with a server whose input is closed already."""

import asyncio
from typing import Any

from agent.code.lsp.protocol.peer import JsonRpcPeer
from agent.code.lsp.protocol.wire import encode_message


async def test_what_a_server_asks_with_its_last_breath_is_not_answered() -> None:
    """Its input has been closed, its output is still read."""
    requests: list[str] = []

    def answer(method: str, params: Any) -> None:
        requests.append(method)

    peer = JsonRpcPeer(answer, lambda method, params: None)
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    peer.connect(process.stdin)
    process.stdin.close()
    peer.feed(encode_message({"id": 1, "method": "workspace/configuration"}))
    assert requests == ["workspace/configuration"]
    await process.wait()
