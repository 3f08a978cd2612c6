import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from telegram import Bot, MessageEntity
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter

from tests.fakes import faults
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_limits import Limits


@pytest.fixture
async def bot(bot_api: BotApi) -> AsyncIterator[Bot]:
    async with Bot(TOKEN, base_url=bot_api.base_url) as bot:
        yield bot


async def call(api: BotApi, method: str, **params: Any) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{api.base_url}{api.token}/{method}", json=params) as response,
    ):
        return response.status, await response.json()


async def test_updates_are_repeated_until_a_higher_offset_confirms_them(bot_api: BotApi) -> None:
    first = await bot_api.user_says(7, "one")
    second = await bot_api.user_says(7, "two")
    for _ in range(2):
        _, answer = await call(bot_api, "getUpdates")
        assert [u["message"]["text"] for u in answer["result"]] == ["one", "two"]

    _, answer = await call(bot_api, "getUpdates", offset=second.update_id)

    assert [u["update_id"] for u in answer["result"]] == [second.update_id]
    assert bot_api.confirmed_offset == second.update_id
    assert bot_api.pending_updates == [second.update_id]
    assert len(bot_api.updates.delivered[first.update_id]) == 2


async def test_negative_offset_keeps_only_the_last_updates(bot_api: BotApi) -> None:
    for text in ("one", "two", "three"):
        await bot_api.user_says(7, text)
    _, answer = await call(bot_api, "getUpdates", offset=-1)
    assert [u["message"]["text"] for u in answer["result"]] == ["three"]
    assert len(bot_api.pending_updates) == 1


async def test_poll_returns_at_most_100_updates(bot_api: BotApi) -> None:
    for n in range(101):
        await bot_api.user_says(7, str(n))
    _, answer = await call(bot_api, "getUpdates", limit=1000)
    assert len(answer["result"]) == 100


async def test_long_poll_returns_a_new_message(bot_api: BotApi, bot: Bot) -> None:
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(bot.get_updates(timeout=30))
        await bot_api.wait_for(lambda: bot_api.polling)
        await bot_api.user_says(-5, "/start now", user_id=9, thread_id=3)
    (update,) = poll.result()
    assert update.message is not None
    assert update.message.text == "/start now"
    assert update.message.message_thread_id == 3
    assert update.message.entities[0].type == "bot_command"
    assert update.effective_user is not None
    assert update.effective_user.id == 9


async def test_second_poller_ends_the_first_with_conflict(bot_api: BotApi, bot: Bot) -> None:
    async with asyncio.TaskGroup() as group:
        first = group.create_task(call(bot_api, "getUpdates", timeout=30))
        await bot_api.wait_for(lambda: bot_api.polling)
        second = group.create_task(bot.get_updates(timeout=30))
        status, answer = await first
        await bot_api.user_says(7, "hi")
    assert status == 409
    assert answer["description"].startswith("Conflict: terminated by other getUpdates request")
    assert len(second.result()) == 1


async def test_poll_of_a_disconnected_client_ends(bot_api: BotApi) -> None:
    poll = asyncio.create_task(call(bot_api, "getUpdates", timeout=30))
    await bot_api.wait_for(lambda: bot_api.polling)
    poll.cancel()
    await bot_api.wait_for(lambda: not bot_api.polling)


async def test_broken_update_is_queued_between_valid_ones(bot_api: BotApi) -> None:
    await bot_api.user_says(7, "one")
    await bot_api.user_says(7, "", raw={"message": {"message_id": "nonsense"}})
    await bot_api.user_says(7, "", raw='{"update_id": UPDATE_ID, "message": "\\ud800"}')
    _, answer = await call(bot_api, "getUpdates")
    assert answer["result"][1]["message"] == {"message_id": "nonsense"}
    assert answer["result"][2]["update_id"] == bot_api.pending_updates[2]


async def test_chat_shows_messages_after_edits(bot_api: BotApi, bot: Bot) -> None:
    message = await bot_api.user_says(7, "hi")
    sent = await bot.send_message(
        7,
        "hel",
        entities=[MessageEntity("bold", 0, 3)],
        reply_parameters={"message_id": message.message_id},  # type: ignore[arg-type]  # a dict works
    )
    await bot.edit_message_text("hello", 7, sent.message_id)
    await bot_api.user_says(7, "hi!", edit_of=message.message_id)

    assert [shown.text for shown in bot_api.chat(7)] == ["hi!", "hello"]
    assert bot_api.answers(7) == ["hello"]
    assert [effect.method for effect in bot_api.sent] == ["sendMessage", "editMessageText"]
    assert bot_api.sent[0].entities == [{"type": "bold", "offset": 0, "length": 3}]
    assert bot_api.sent[0].reply_to == message.message_id


@pytest.mark.parametrize(
    ("text", "entities", "reason"),
    [
        ("", [], "message text is empty"),
        (" \n", [], "message text is empty"),
        ("😀" * 2049, [], "message is too long"),
        ("hi", [{"type": "bold", "offset": 0, "length": 3}], "ends after the end of the text"),
        ("😀", [{"type": "bold", "offset": 0, "length": 1}], "in a middle of a UTF-16 symbol"),
        ("hi", [{"type": "shiny", "offset": 0, "length": 1}], "can't parse MessageEntity"),
        ("hi", "[{", "can't parse entities"),
    ],
)
async def test_send_rejects_the_same_messages_as_telegram(
    bot_api: BotApi, text: str, entities: object, reason: str
) -> None:
    status, answer = await call(bot_api, "sendMessage", chat_id=7, text=text, entities=entities)
    assert status == 400
    assert reason in answer["description"]
    assert not bot_api.sent


async def test_text_of_4096_units_is_accepted(bot_api: BotApi, bot: Bot) -> None:
    await bot.send_message(7, "😀" * 2048)
    assert len(bot_api.answers(7)[0]) == 2048


async def test_edit_rejects_same_content_and_unknown_messages(bot_api: BotApi, bot: Bot) -> None:
    sent = await bot.send_message(7, "same")
    with pytest.raises(BadRequest, match="Message is not modified"):
        await bot.edit_message_text("same", 7, sent.message_id)
    with pytest.raises(BadRequest, match="Message to edit not found"):
        await bot.edit_message_text("same", 7, 999)


async def test_wrong_token_and_blocked_chat_are_rejected(bot_api: BotApi, bot: Bot) -> None:
    bot_api.chats.blocked.add(7)
    with pytest.raises(Forbidden, match="blocked by the user"):
        await bot.send_message(7, "hi")
    stranger = Bot("1:wrong", base_url=bot_api.base_url)
    with pytest.raises(InvalidToken):
        await stranger.initialize()
    await stranger.shutdown()


async def test_scripted_statuses_are_followed_by_success(
    bot_api: BotApi, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # avoids RetryAfter's deprecation warning
    bot_api.fail("sendMessage", faults.status(429, retry_after=3))
    bot_api.fail("sendMessage", faults.status(502))
    bot_api.fail("getUpdates", faults.status(409))
    with pytest.raises(RetryAfter):
        await bot.send_message(7, "a")
    with pytest.raises(NetworkError):
        await bot.send_message(7, "a")
    with pytest.raises(Conflict):
        await bot.get_updates()
    await bot.send_message(7, "a")
    assert bot_api.answers(7) == ["a"]


@pytest.mark.parametrize(
    ("fault", "arrived"),
    [(faults.reset, []), (faults.lost_response, ["hi"]), (faults.truncated, ["hi"])],
    ids=["reset", "lost_response", "truncated"],
)
async def test_connection_fault_happens_before_or_after_the_effect(
    bot_api: BotApi, fault: faults.Fault, arrived: list[str]
) -> None:
    bot_api.fail("sendMessage", fault)
    with pytest.raises(aiohttp.ClientError):
        await call(bot_api, "sendMessage", chat_id=7, text="hi")
    assert bot_api.answers(7) == arrived


@pytest.mark.parametrize(
    ("fault", "arrived"),
    [(faults.hang, []), (faults.answerless, ["hi"])],
    ids=["hang", "answerless"],
)
async def test_silent_server_fault_happens_before_or_after_the_effect(
    bot_api: BotApi, fault: faults.Fault, arrived: list[str]
) -> None:
    bot_api.fail("sendMessage", fault)
    sending = asyncio.create_task(call(bot_api, "sendMessage", chat_id=7, text="hi"))
    await bot_api.wait_for(lambda: "sendMessage" in bot_api.calls)
    await bot_api.wait_for(lambda: bot_api.answers(7) == arrived)
    assert not sending.done()
    sending.cancel()


async def test_random_faults_repeat_with_their_seed() -> None:
    def drawn(seed: int) -> list[bool]:
        plan = faults.FaultPlan()
        plan.add_by_chance("*", faults.reset, 0.5, seed)
        return [plan.take("sendMessage") is not None for _ in range(40)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 5 < sum(drawn(1)) < 35


async def test_rate_limit_errors_name_the_wait() -> None:
    now = 0.0
    async with BotApi(limits=Limits(private_burst=2, clock=lambda: now)) as api:
        statuses = [(await call(api, "sendMessage", chat_id=7, text="x"))[0] for _ in range(3)]
        _, refused = await call(api, "sendMessage", chat_id=7, text="x")
        other, _ = await call(api, "sendMessage", chat_id=8, text="x")
        now = 1.0
        later, _ = await call(api, "sendMessage", chat_id=7, text="x")
    assert statuses == [200, 200, 429]
    assert refused["parameters"] == {"retry_after": 1}
    assert (other, later) == (200, 200)


async def test_process_keeps_its_state_and_obeys_control(tmp_path: Path) -> None:
    command = ["-m", "tests.fakes.telegram", "--state", str(tmp_path / "state")]
    for expected_waiting in (1, 2):
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        port = json.loads(await process.stdout.readline())["port"]
        control = f"http://127.0.0.1:{port}/control"
        async with aiohttp.ClientSession() as session:
            await session.post(f"{control}/user_says", json=[{"chat_id": 7, "text": "hi"}])
            fault = {"method": "getMe", "fault": {"kind": "status", "code": 500}}
            await session.post(f"{control}/fail", json=fault)
            bot_url = f"http://127.0.0.1:{port}/bot{TOKEN}"
            assert (await session.get(f"{bot_url}/getMe")).status == 500
            await session.post(f"{bot_url}/sendMessage", data={"chat_id": "7", "text": "yes"})
            sent = await (await session.get(f"{control}/sent?wait_s=10")).json()
            state = await (await session.get(f"{control}/state")).json()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert sent[-1]["text"] == "yes"
        assert len(state["pending_updates"]) == expected_waiting
