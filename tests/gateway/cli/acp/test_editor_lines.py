"""Lines that are not messages: each is answered, and none terminates Kore."""

import asyncio
import json
from pathlib import Path

from tests import fork_server
from tests.fakes.editor import KEY, EditorSetup
from tests.fakes.model import ModelServer

BAD_LINES = [
    ("hello", -32700),
    ("[" * 100_000, -32700),
    ("[1]", -32600),
    ("{}", -32600),
    ('{"id": [1], "result": {}}', -32600),
    ('{"id": 1, "error": "no"}', -32600),
    ('{"id": 1, "method": 5}', -32600),
    ('{"id": 1, "method": "initialize", "params": "x"}', -32600),
]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "last",
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


async def test_invalid_message_is_answered(tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model, asyncio.timeout(60):
        setup = EditorSetup(tmp_path, model)
        process = await fork_server.start_talking(
            ["acp"], cwd=setup.project, env=setup.environ(), stderr=2, limit=2**20
        )
        lines = [line for line, _ in BAD_LINES]
        process.stdin.write("\n".join([*lines, "", json.dumps(INITIALIZE), ""]).encode())
        for line, code in BAD_LINES:
            answer = json.loads(await process.stdout.readline())
            assert (answer["id"], answer["error"]["code"]) == (None, code), line[:80]
        answer = json.loads(await process.stdout.readline())
        assert (answer["id"], answer["result"]["protocolVersion"]) == ("last", 1)
        process.stdin.close()
        assert await process.wait() == 0
