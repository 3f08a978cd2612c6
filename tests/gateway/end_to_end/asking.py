"""Helpers for tests of approvals: read questions and press their buttons."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.bot_chats import ChatMessage
from tests.fakes.model_script import Call
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

NOTES = "notes.txt"


def write(content: str, path: str = NOTES) -> tuple[Call, Call]:
    """Return the calls that read a file and then replace its whole content."""
    look = Call("read_file", {"path": path})
    return look, Call("write_file", {"path": path, "content": content})


def run(command: str) -> Call:
    return Call("exec", {"command": command})


def questions(gateway: GatewayProcess, chat: int = OWNER) -> list[ChatMessage]:
    """Return the questions that still have buttons, oldest first."""
    return [shown for shown in gateway.api.chat(chat) if shown.from_bot and shown.reply_markup]


def button(shown: ChatMessage, label: str) -> str:
    rows: list[list[Mapping[str, Any]]] = shown.reply_markup["inline_keyboard"]
    return next(str(b["callback_data"]) for row in rows for b in row if b["text"] == label)


async def wait_for_questions(
    gateway: GatewayProcess, chat: int = OWNER, count: int = 1
) -> list[ChatMessage]:
    await gateway.until(lambda: len(questions(gateway, chat)) >= count)
    return questions(gateway, chat)


async def press(gateway: GatewayProcess, shown: ChatMessage, label: str, **who: int) -> str:
    """Press a button, and return the text that the presser sees."""
    return await push(gateway, shown, button(shown, label), **who)


async def push(gateway: GatewayProcess, shown: ChatMessage, data: str, **who: int) -> str:
    def button_answers() -> list[str]:
        effects = gateway.api.sent
        return [e.text or "" for e in effects if e.method == "answerCallbackQuery"]

    before = len(button_answers())
    await gateway.api.user_presses(shown.chat_id, shown.message_id, data, **who)
    await gateway.until(lambda: len(button_answers()) > before)
    return button_answers()[-1]


def seed(gateway: GatewayProcess) -> None:
    gateway.workspace.mkdir(parents=True, exist_ok=True)
    (gateway.workspace / NOTES).write_text("old\n")


def notes(gateway: GatewayProcess) -> str:
    return (gateway.workspace / NOTES).read_text()
