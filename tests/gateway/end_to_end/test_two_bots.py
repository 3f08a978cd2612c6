"""Two bots of the same Kore, in a group and in private chats."""

import asyncio
from pathlib import Path

from tests.fakes.bot_pair import SECOND_TOKEN, BotPair
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import TIMEOUT_S, GatewayProcess

GROUP = -900
ACCOUNT = {"name": "second", "token": SECOND_TOKEN, "allow_from": ["*"]}
SECTIONS = {"telegram": {"accounts": [ACCOUNT], "chats": {str(GROUP): {"listen": True}}}}


def group_messages(pair: BotPair) -> list[list[str]]:
    """Return the messages of both bots in the group, the first bot's before the second's."""
    return [
        [item.text or "" for item in journal if item.chat_id == GROUP]
        for journal in (pair.sends, pair.second.sends)
    ]


async def states(gateway: GatewayProcess) -> dict[str, str]:
    channels = (await gateway.status())["channels"]
    return {name: channel["state"] for name, channel in channels.items()}


async def test_each_bot_in_a_group_answers_its_own_messages_across_a_kill(
    tmp_path: Path, model_server: ModelServer
) -> None:
    async with (
        BotPair() as pair,
        GatewayProcess(tmp_path, pair, model_server, SECTIONS) as gateway,
    ):
        model_server.script("one", "two")
        await pair.all_hear(GROUP, "people talk", user_id=7)
        question = await pair.all_hear(GROUP, "@kore_test_bot you?", user_id=7)
        await gateway.idle()
        assert group_messages(pair) == [["one"], []]
        text = model_server.requests[-1].raw.decode()
        assert "Person 7: people talk" in text
        await pair.all_hear(GROUP, "@second_test_bot you?", user_id=7)
        await gateway.idle()
        assert group_messages(pair) == [["one"], ["two"]]
        # Each bot heard all messages not addressed to it, but nothing of the other's session.
        text = model_server.requests[-1].raw.decode()
        assert "Person 7: people talk" in text
        assert "Person 7: @kore_test_bot you?" in text
        assert '"one"' not in text
        first = next(sent_request for sent_request in pair.sends if sent_request.chat_id == GROUP)
        assert first.reply_to == question["message_id"]

        model_server.script(ReplyScript(text="three"), ReplyScript(text="four"))
        await gateway.kill()
        await pair.all_hear(GROUP, "go on", user_id=7, reply_to=first.message_id)
        command = await pair.all_hear(GROUP, "/status@second_test_bot", user_id=7)
        await gateway.start()
        await gateway.idle()
        assert group_messages(pair)[0] == ["one", "three"]
        assert len(group_messages(pair)[1]) == 2
        assert "Conversation:" in group_messages(pair)[1][1]
        assert pair.second.sends[-1].reply_to == command["message_id"]
        assert len(model_server.requests) == 3


async def test_rejected_token_stops_only_its_own_bot(
    tmp_path: Path, model_server: ModelServer
) -> None:
    wrong = {**ACCOUNT, "token": "999:nobody"}
    async with (
        BotPair() as pair,
        GatewayProcess(
            tmp_path, pair, model_server, {"telegram": {"accounts": [wrong]}}
        ) as gateway,
    ):
        assert await gateway.answers_to(7, "hi") == ["echo: hi"]
        async with asyncio.timeout(TIMEOUT_S):
            while (result := await states(gateway))["telegram:second"] != "refused":
                await asyncio.sleep(0.01)
        assert result["telegram:123456"] == "polling"
