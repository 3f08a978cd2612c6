"""Buttons below the replies of commands."""

import json

import pytest

from tests.fakes.bot_chats import ChatMessage
from tests.gateway.end_to_end.asking import button, press, push
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

GROUP = -300


async def menu(gateway: GatewayProcess, command: str, chat: int = OWNER) -> ChatMessage:
    """Return the newest message with buttons, once the command is answered."""
    before = len(gateway.api.chat(chat)) + 1
    await gateway.api.user_says(chat, command, user_id=OWNER)
    await gateway.until(lambda: len(gateway.api.chat(chat)) > before)
    shown = gateway.api.chat(chat)[-1]
    assert shown.reply_markup, shown.text
    data = [b["callback_data"] for row in shown.reply_markup["inline_keyboard"] for b in row]
    assert max(len(item.encode()) for item in data) <= 64
    return shown


async def answer(gateway: GatewayProcess, chat: int = OWNER) -> str:
    await gateway.idle()
    return gateway.api.answers(chat)[-1]


async def test_press_runs_its_command_after_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    shown = await menu(alone, "/mode")
    await alone.kill()
    await alone.start()
    assert await press(alone, shown, "plan", user_id=OWNER) == "/mode plan"
    assert "Mode of this conversation: plan" in await answer(alone)
    # A pressed message retains its text and loses its buttons.
    text = shown.text
    await alone.until(lambda: not shown.reply_markup)
    assert shown.text == text
    shown = await menu(alone, "/language")
    await press(alone, shown, "简体中文", user_id=OWNER)
    assert "简体中文" in await answer(alone)
    await alone.answers_to(OWNER, "/language en")
    await alone.answers_to(OWNER, "/cron add tomorrow at 9 tea")
    shown = await menu(alone, "/cron")
    await press(alone, shown, "Pause 1", user_id=OWNER)
    await alone.idle()
    shown = await menu(alone, "/cron")
    assert button(shown, "Resume 1")
    remove = button(shown, "Remove 1")
    await push(alone, shown, remove, user_id=OWNER)
    await alone.idle()
    await push(alone, shown, remove, user_id=OWNER)
    assert "There is no job 1 here" in await answer(alone)


async def test_choice_after_a_plan_works_once_and_after_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.answers_to(OWNER, "/plan")
    shown = await menu(alone, "change the file\n# Plan")
    await alone.kill()
    await alone.start()
    free = button(shown, "build, editing freely")
    assert await push(alone, shown, free, user_id=OWNER) == "/build free"
    await push(alone, shown, free, user_id=OWNER)
    await alone.idle()
    answers = alone.api.answers(OWNER)
    assert sum("Carrying out the plan" in answer for answer in answers) == 1
    assert sum("no plan here" in answer for answer in answers) == 1
    assert sum(answer.startswith("echo: Carry out the plan.") for answer in answers) == 1
    assert not shown.reply_markup


async def test_conversations_and_models_have_buttons(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.answers_to(OWNER, "the first one")
    await alone.answers_to(OWNER, "/new")
    await alone.answers_to(OWNER, "the second one")
    for command in ("/sessions", "/resume"):
        shown = await menu(alone, command)
        data = button(shown, "1")
        assert data.startswith("c:resume:-:")
        assert "one" not in json.dumps(shown.reply_markup)
        assert (await press(alone, shown, "2", user_id=OWNER)).startswith("/resume ")
        assert "Back in conversation" in await answer(alone)
    shown = await menu(alone, "/model")
    label = str(shown.reply_markup["inline_keyboard"][0][0]["text"])
    data = button(shown, label)
    await push(alone, shown, data, user_id=OWNER)
    assert label in await answer(alone)
    await alone.answers_to(OWNER, "/new")
    text = await push(alone, shown, data, user_id=OWNER)
    assert text == "This button is outdated. Send the command again."


@pytest.mark.parametrize(
    ("allowed", "notification"),
    [
        (["*"], "/mode auto"),
        ([], "Only approved users can use this button."),
    ],
)
async def test_press_has_the_permissions_of_its_person(
    alone: GatewayProcess, allowed: list[str], notification: str
) -> None:
    alone.configure({"telegram": {"allow_from": allowed}})
    await alone.start()
    shown = await menu(alone, "/mode@kore_test_bot", GROUP)
    before = alone.api.answers(GROUP)
    assert await press(alone, shown, "auto", user_id=8) == notification
    await alone.idle()
    if allowed:
        await alone.until(lambda: not shown.reply_markup)
    else:
        assert shown.reply_markup
    news = alone.api.answers(GROUP)[len(before) :]
    assert all("Only the owner can choose" in item for item in news)
    assert len(news) == len(allowed)
