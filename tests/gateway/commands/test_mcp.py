"""`/mcp login` and `logout` in a chat: the link in one message, the address in another."""

import html
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.mcp.settings import McpServerSettings, McpSettings
from tests.fakes.oauth_mcp import OauthMcpServer, open_page
from tests.gateway.parts import Parts, answer_to, chat_message, running

pytest.importorskip("mcp", reason="needs the extra mcp")
OWNER = "chat:7"


@asynccontextmanager
async def chatting(folder: Path) -> AsyncIterator[tuple[Parts, OauthMcpServer]]:
    async with OauthMcpServer() as server, running(folder, [], owner=OWNER) as parts:
        mcpserversettings = McpServerSettings("g", url=f"{server.url}/mcp")
        parts.agent._mcp_settings = McpSettings((mcpserversettings,), folder / "mcp")
        parts.agent._toolbox = None
        yield parts, server
        assert parts.agent.mcp is not None
        await parts.agent.mcp.aclose()


async def link_from(parts: Parts) -> str:
    answer = await answer_to(parts, chat_message("/mcp login g"))
    (link,) = (line for line in answer.splitlines() if "/authorize" in line)
    return html.unescape(link.replace("\\", ""))


async def test_login_is_started_and_completed_in_a_chat(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (parts, server):
        address = await open_page(await link_from(parts))
        wrong = address.replace("state=", "state=x")
        answer = await answer_to(parts, chat_message(f"/mcp login g {wrong}"))
        assert "does not belong to a login" in answer
        answer = await answer_to(parts, chat_message(f"/mcp login g {address}"))
        assert answer == "Logged in to `g`."
        assert "whoami" in await answer_to(parts, chat_message("/mcp"))
        answer = await answer_to(parts, chat_message(f"/mcp login g {address}"))
        assert "does not belong to a login" in answer
        server.revocation = f"{server.url}/revoke"
        answer = await answer_to(parts, chat_message("/mcp logout g"))
        assert answer.startswith("Logged out of `g`")
        assert not list((tmp_path / "mcp").rglob("login"))


async def test_second_login_replaces_the_first(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (parts, _):
        first = await open_page(await link_from(parts))
        second = await open_page(await link_from(parts))
        answer = await answer_to(parts, chat_message(f"/mcp login g {first}"))
        assert "does not belong to a login" in answer
        assert "Logged in" in await answer_to(parts, chat_message(f"/mcp login g {second}"))


@pytest.mark.parametrize(
    ("text", "private", "words"),
    [
        ("/mcp login g", False, "only in a private chat"),
        ("/mcp logout g", False, "only in a private chat"),
        ("/mcp login other", True, "There is no MCP server `other`."),
        ("/mcp logout g", True, "`g` had no login."),
        ("/mcp log in", True, "`/mcp login NAME`"),
    ],
)
async def test_impossible_login_is_explained(
    tmp_path: Path, text: str, private: bool, words: str
) -> None:
    async with chatting(tmp_path) as (parts, server):
        assert words in await answer_to(parts, chat_message(text, private=private))
        assert server.registrations == []


async def test_unfinished_login_is_not_a_login(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (parts, server):
        await link_from(parts)
        assert server.registrations
        assert await answer_to(parts, chat_message("/mcp logout g")) == "`g` had no login."
