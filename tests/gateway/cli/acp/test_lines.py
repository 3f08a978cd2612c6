"""The line check that every other test of `kore acp` relies on."""

import json
from typing import Any

import pytest

from tests.fakes.acp_lines import LineCheck, check_published, published_schema


def update(**parts: Any) -> dict[str, Any]:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
    params = {"sessionId": "1", "update": {**chunk, **parts}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def faults(*messages: dict[str, Any]) -> list[str]:
    check = LineCheck()
    check.lines += [json.dumps(message).encode() for message in messages]
    return check.faults()


def test_valid_line_has_no_fault() -> None:
    assert not faults(update())


@pytest.mark.parametrize(
    "wrong",
    [
        update(extra=1),
        update(content={"type": "text", "text": 1}),
        update(content={"type": "dance"}),
        update(sessionUpdate="dance"),
        {**update(), "id": 1},
        {**update(), "method": "session/dance"},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
        {"jsonrpc": "2.0", "id": 7, "error": {"message": "no code"}},
    ],
)
def test_invalid_line_is_a_fault(wrong: dict[str, Any]) -> None:
    assert len(faults(wrong, update())) == 1


def test_published_schema_is_checked() -> None:
    if published_schema() is None:
        pytest.skip("the npm package @agentclientprotocol/sdk is not installed")
    params = update()["params"]
    check_published("SessionNotification", params)
    del params["update"]["content"]
    with pytest.raises(ValueError, match="published schema"):
        check_published("SessionNotification", params)
