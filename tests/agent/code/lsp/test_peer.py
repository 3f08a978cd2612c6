"""JSON-RPC with a server whose input is already closed."""

import asyncio
from typing import Any

from agent.code.lsp.protocol.peer import JsonRpcPeer, encode_message


async def test_request_from_a_server_with_closed_input_is_ignored() -> None:
    """The server's input is closed, while its output is still read."""
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
