import asyncio
import json
import logging
import socket
from dataclasses import replace

import pytest

from agent.errors import KoreError
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.channel import TelegramChannel
from tests.fakes import faults
from tests.fakes.bot_api import TOKEN, BotApi
from tests.gateway.channels.telegram.conftest import QUICK, Running, Store


async def test_messages_arrive_in_order_and_are_confirmed(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    async with running():
        for text in ("one", "two", "three"):
            await bot_api.user_says(7, text)
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["one", "two", "three"]


async def test_updates_are_confirmed_only_after_accept_returns(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    confirmed: list[int] = []
    store.before_return = lambda: confirmed.append(bot_api.confirmed_offset)
    message = await bot_api.user_says(7, "one")
    async with running():
        await bot_api.wait_for(lambda: bot_api.confirmed_offset == message.update_id + 1)
    assert confirmed == [0]


@pytest.mark.parametrize("failure", [KoreError("disk full"), OSError(28, "no space")])
async def test_unstored_updates_are_fetched_again(
    bot_api: BotApi,
    store: Store,
    running: Running,
    failure: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    store.failures = [failure, failure]
    await bot_api.user_says(7, "one")
    async with running():
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["one"]
    # Polls between the failures succeeded, but do not count as recovery.
    assert caplog.text.count("could not be stored") == 1
    assert caplog.text.count("messages are stored again") == 1


async def test_polling_continues_at_the_stored_cursor(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    first = await bot_api.user_says(7, "old")
    await bot_api.user_says(7, "new")
    async with running(cursors={"offset": str(first.update_id + 1)}):
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["new"]


async def test_invalid_update_does_not_block_the_rest(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    await bot_api.user_says(7, "before")
    bad = await bot_api.user_says(7, "", raw={"message": {"text": 5}})
    await bot_api.user_says(7, "after")
    async with running():
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["before", "after"]
    assert [item.event_id for item in store.undecoded] == [f"update:{bad.update_id}"]


async def test_update_that_is_not_json_is_isolated_and_skipped(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    await bot_api.user_says(7, "before")
    bad = await bot_api.user_says(7, "", raw='{"update_id":UPDATE_ID,"message":{"text":"x}')
    await bot_api.user_says(7, "after")
    async with running():
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["before", "after"]
    (lost,) = store.undecoded
    assert (lost.event_id, lost.reason) == (f"update:{bad.update_id}", "the answer is not JSON")
    assert f'"update_id":{bad.update_id},' in lost.raw


async def test_too_large_update_is_skipped_and_the_rest_arrives(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    await bot_api.user_says(7, "before")
    huge = await bot_api.user_says(7, "x" * 3_000_000)
    await bot_api.user_says(7, "after")
    async with running(body_limit_bytes=1_000_000):
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["before", "after"]
    assert [item.event_id for item in store.undecoded] == [f"update:{huge.update_id}"]


async def test_updates_that_exceed_the_limit_together_all_arrive(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    for n in range(8):
        await bot_api.user_says(7, f"{n} " + "x" * 300_000)
    async with running(body_limit_bytes=1_000_000):
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert [content[0] for content in store.contents] == list("01234567")
    assert not store.undecoded


async def test_invalid_utf8_and_lone_surrogates_are_replaced(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    body = {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}, "text": "a\ud800b"}
    text = json.dumps({"message": body | {"from": {"id": 7, "first_name": "Ann"}}})
    raw = b'{"update_id":UPDATE_ID,' + text[1:].encode().replace(b"Ann", b"A\xffnn")
    await bot_api.user_says(7, "", raw=raw)
    async with running():
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    (message,) = store.messages
    assert (message.content, message.sender.name) == ("a\ufffdb", "A\ufffdnn")


@pytest.mark.parametrize(
    "fault",
    [
        faults.reset, faults.lost_response, faults.truncated, faults.status(500),
        faults.status(502), faults.status(429, retry_after=1), faults.status(400), faults.hang,
    ],
    ids=lambda fault: f"{fault.kind}{fault.code or ''}",
)  # fmt: skip
async def test_poll_failures_lose_no_message(
    bot_api: BotApi, store: Store, running: Running, fault: faults.Fault
) -> None:
    bot_api.fail("getUpdates", fault, times=2 if fault.kind != "hang" else 1)
    await bot_api.user_says(7, "one")
    async with running() as channel:
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
        assert channel.status.state == "polling"
    assert store.contents == ["one"]


async def test_conflict_with_another_poller_is_reported_until_it_ends(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    bot_api.fail("getUpdates", faults.status(409), times=3)
    async with running() as channel:
        await bot_api.wait_for(lambda: channel.status.state == "conflict")
        assert "another program polls" in (channel.status.last_error or "")
        await bot_api.user_says(7, "one")
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
        assert channel.status.state == "polling"
        assert channel.status.last_error is None
        assert channel.status.last_poll_at is not None


async def test_forgotten_webhook_is_removed_without_losing_updates(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    bot_api.methods.webhook_url = "https://old.example/hook"
    await bot_api.user_says(7, "one")
    async with running():
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["one"]
    assert bot_api.methods.webhook_url == ""


async def test_webhook_is_not_removed_unnecessarily(bot_api: BotApi, running: Running) -> None:
    async with running():
        await bot_api.wait_for(lambda: bot_api.polls_done)
    assert "deleteWebhook" not in bot_api.calls


@pytest.mark.parametrize("code", [401, 404])
async def test_rejected_token_is_reported_in_one_sentence_and_retried(
    bot_api: BotApi, store: Store, running: Running, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    bot_api.fail("getUpdates", faults.status(code), times=3)
    await bot_api.user_says(7, "one")
    states: set[tuple[str, str | None]] = set()

    async with running(refused_s=0.05) as channel:

        def is_stored() -> bool:
            states.add((channel.status.state, channel.status.last_error))
            return store.contents == ["one"]

        await bot_api.wait_for(is_stored)
        ((_, error),) = [state for state in states if state[0] == "refused"]
        assert error is not None
        assert error.startswith("telegram.token: 127.0.0.1")
        assert TOKEN not in error + caplog.text
        assert caplog.text.count("receives nothing") == 1
        await bot_api.wait_for(lambda: channel.status.state == "polling")


async def test_poll_recovery_is_reported_once(bot_api: BotApi, running: Running) -> None:
    numbers: list[int] = []
    bot_api.fail("getUpdates", faults.status(502), times=2)
    async with running() as channel:
        channel.when_reachable(lambda: numbers.append(bot_api.polls_done))
        await bot_api.wait_for(lambda: bot_api.polls_done >= 2)
        assert len(numbers) == 1
        bot_api.fail("getUpdates", faults.reset, times=2)
        await bot_api.wait_for(lambda: len(numbers) == 2)


async def test_storage_failures_do_not_increase_the_delay(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    store.failures = [KoreError("disk full")] * 6
    await bot_api.user_says(7, "one")
    async with running(backoff_s=60, backoff_limit_s=60, store_again_s=0.01):
        await bot_api.wait_for(lambda: store.contents == ["one"])


async def test_startup_does_not_wait_for_name_and_menu(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    bot_api.fail("getMe", faults.status(500), times=3)
    bot_api.fail("setMyCommands", faults.reset, times=2)
    await bot_api.user_says(7, "one")
    async with running():
        await bot_api.wait_for(lambda: store.contents == ["one"])
        await bot_api.wait_for(lambda: bot_api.methods.commands)
    assert "help" in [command["command"] for command in bot_api.methods.commands]


async def test_group_messages_to_others_are_confirmed_but_not_stored(
    bot_api: BotApi, store: Store, running: Running
) -> None:
    async with running():
        await bot_api.user_says(-7, "talk among people", user_id=1)
        await bot_api.user_says(-7, "/status", user_id=1)
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    assert store.contents == ["/status"]


async def test_silent_server_is_abandoned_and_reconnected(
    bot_api: BotApi, store: Store, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    # Together the hangs exceed the tolerated silence, however short each of them is.
    bot_api.fail("getUpdates", faults.hang, times=60)
    await bot_api.user_says(7, "one")
    async with running(answer_s=0.05):
        await bot_api.wait_for(lambda: not bot_api.pending_updates, timeout_s=60)
    assert store.contents == ["one"]
    assert "reconnecting" in caplog.text


async def test_stopped_channel_reports_its_state(bot_api: BotApi, running: Running) -> None:
    async with running() as channel:
        await bot_api.wait_for(lambda: bot_api.polls_done)
    assert channel.status.state == "stopped"


async def test_repeated_poll_failure_and_recovery_are_logged_once(
    bot_api: BotApi, store: Store, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bot_api.fail("*", faults.status(502), times=6)
    await bot_api.user_says(7, "one")
    async with running():
        await bot_api.wait_for(lambda: not bot_api.pending_updates)
    records = [record for record in caplog.records if record.getMessage().startswith("telegram: ")]
    assert sum(record.levelname == "WARNING" for record in records) == 1
    assert sum("polls come through again" in record.getMessage() for record in records) == 1


async def test_recovery_is_visible_without_updates(bot_api: BotApi, running: Running) -> None:
    bot_api.fail("getUpdates", faults.status(502))
    async with running(poll_s=300) as channel:
        # The first poll fails, the second returns at once, and the third waits for updates.
        await bot_api.wait_for(lambda: bot_api.calls.count("getUpdates") >= 3)
        assert (channel.status.state, channel.status.last_error) == ("polling", None)


async def test_missing_network_is_reported_and_retried(store: Store) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        channel = TelegramChannel(replace(QUICK, base_url=url), gate=RateLimiter(None))
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(channel.run(store.accept))
            async with asyncio.timeout(30):
                while channel.status.state != "retrying":
                    await asyncio.sleep(0.01)
            assert "no connection to 127.0.0.1" in (channel.status.last_error or "")
            task.cancel()
        await channel.aclose()


async def test_token_is_in_neither_logs_nor_errors(
    bot_api: BotApi, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for fault in (faults.reset, faults.truncated, faults.status(500), faults.status(400)):
        bot_api.fail("*", fault, times=2)
    await bot_api.user_says(7, "a private word")
    async with running() as channel:
        errors = set()

        def is_confirmed() -> bool:
            errors.add(channel.status.last_error)
            return not bot_api.pending_updates

        await bot_api.wait_for(is_confirmed)
    secret = TOKEN.partition(":")[2]
    assert len(errors) > 1
    assert secret not in caplog.text + str(errors) + repr(QUICK)
    assert "a private word" not in caplog.text
