from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from gateway.channels.state import InMemoryChannelState
from gateway.channels.telegram.api.client import TelegramClient
from gateway.commands import menu
from gateway.commands.table import COMMANDS
from tests.fakes.bot_api import BotApi
from tests.gateway.channels.telegram.conftest import QUICK, Running, Store
from tests.gateway.parts import wait_until

OWNER = 77


async def menu_calls(
    api: BotApi, memo: InMemoryChannelState, **changes: Any
) -> list[dict[str, Any]]:
    """Publish the menu once, and return the calls that Telegram received."""
    before = len(api.sent)
    settings = replace(QUICK, base_url=api.url, menu=menu(), **changes)
    client = TelegramClient(settings)
    await client.set_menu(memo)
    await client.aclose()
    return [effect.params for effect in api.sent[before:] if effect.method == "setMyCommands"]


def names(menu: dict[str, Any]) -> set[str]:
    return {command["command"] for command in menu["commands"]}


async def test_people_groups_and_owner_have_menus_in_their_languages(bot_api: BotApi) -> None:
    menus = await menu_calls(bot_api, InMemoryChannelState(), owner=str(OWNER))
    result = {(menu["scope"]["type"], menu["language"]): menu for menu in menus}
    assert len(result) == len(menus) == 6
    assert "pair" not in names(result["default", None])
    assert "resume" not in names(result["all_group_chats", None])
    assert {"new", "stop", "help"} <= names(result["all_group_chats", None])
    assert names(result["chat", None]) == {name.replace("-", "_") for name in COMMANDS}
    assert result["chat", None]["scope"]["chat_id"] == OWNER
    english, chinese = (result["default", tag]["commands"][0] for tag in (None, "zh"))
    assert english == {"command": "new", "description": "Start a new conversation"}
    assert not chinese["description"].isascii()


async def test_unchanged_menu_is_not_sent_again(bot_api: BotApi) -> None:
    memo = InMemoryChannelState()
    assert await menu_calls(bot_api, memo)
    assert await menu_calls(bot_api, memo) == []
    assert await menu_calls(bot_api, memo, owner=str(OWNER))
    assert await menu_calls(bot_api, memo, owner=str(OWNER)) == []


async def test_missing_owner_chat_does_not_break_the_menu(bot_api: BotApi) -> None:
    bot_api.chats.missing.add(OWNER)
    menus = await menu_calls(bot_api, InMemoryChannelState(), owner=str(OWNER))
    assert {menu["scope"]["type"] for menu in menus} == {"default", "all_group_chats"}


async def test_pollers_on_one_machine_do_not_share_messages(
    bot_api: BotApi, running: Running
) -> None:
    async with running() as first:
        await bot_api.wait_for(lambda: bot_api.polling)
        async with running() as second:
            await wait_until(lambda: second.status.state == "conflict")
            assert "on this machine polls for this bot already" in str(second.status.last_error)
            assert first.status.state == "polling"
            assert bot_api.calls.count("deleteWebhook") == 0


async def test_poller_takes_over_quickly_on_the_same_machine(
    bot_api: BotApi, running: Running, store: Store
) -> None:
    async with AsyncExitStack() as first:
        await first.enter_async_context(running())
        await bot_api.wait_for(lambda: bot_api.polling)
        # After a polling conflict the channel would wait longer than the test runs.
        async with running(conflict_s=600.0) as second:
            await wait_until(lambda: second.status.state == "conflict")
            await first.aclose()
            await bot_api.user_says(7, "are you there?")
            await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["are you there?"]
