"""Language of messages to each person, including messages they did not ask for."""

import asyncio
import re
from pathlib import Path

from agent.i18n import current_locale
from agent.providers.scripted import ScriptedProvider
from gateway.core.channel_events import Batch
from gateway.core.messages import Route
from gateway.delivery.user_language import UserLanguages
from tests.fakes.platform import Platform
from tests.gateway.commands.people import other
from tests.gateway.parts import answer_to, chat_message, console_message, running

HANS, HANT = "zh-Hans", "zh-Hant"


async def test_answer_is_in_the_language_of_the_app(tmp_path: Path) -> None:
    async with running(tmp_path, []) as parts:
        assert await answer_to(parts, chat_message("/stop")) == "Nothing is running."
        assert (
            await answer_to(parts, chat_message("/stop", language=HANS))
            == "当前没有正在进行的任务。"
        )
        assert (
            await answer_to(parts, chat_message("/stop", language=HANT))
            == "目前沒有正在進行的任務。"
        )
        assert await answer_to(parts, other("/stop", language="tlh")) == "Nothing is running."


async def test_chosen_language_applies_to_all_chats_and_after_a_restart(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, []) as parts:
        assert "简体中文" in await answer_to(parts, chat_message("/language"))
        assert "简体中文" in await answer_to(parts, chat_message("/language zh-Hans"))
        assert "没有" in await answer_to(parts, chat_message("/stop", chat="-5", private=False))
        assert await answer_to(parts, other("/stop")) == "Nothing is running."
    async with running(tmp_path, []) as parts:
        await parts.database.transact(parts.app.languages.load)
        assert "没有" in await answer_to(parts, chat_message("/stop", language="en"))
        assert "Klingon" in await answer_to(parts, chat_message("/language Klingon"))
        assert "English" in await answer_to(parts, chat_message("/language auto"))
        assert await answer_to(parts, chat_message("/stop", language="en")) == "Nothing is running."


async def test_language_is_recognized_by_its_common_names(tmp_path: Path) -> None:
    async with running(tmp_path, []) as parts:
        for name in ("zh-hant", "zh-TW", "繁體中文", "繁體"):
            assert "繁體中文" in await answer_to(parts, chat_message(f"/language {name}"))
            assert "English" in await answer_to(parts, chat_message("/language english"))


async def test_notice_is_in_the_language_of_its_recipient(tmp_path: Path) -> None:
    """The owner gets the notice about a stranger in the language of the owner's app."""
    platform = Platform()
    async with running(tmp_path, [], platform=platform, allow=("7",), owner="chat:7") as parts:
        await answer_to(parts, chat_message("/stop", chat="7", language=HANS))
        stranger = other("hello", chat="8", language=HANT)
        await parts.bus.accept("chat", "bot", Batch([stranger]))
        await platform.until(lambda: len(platform.chats["7"]) > 1 and platform.chats["8"])
        assert "想" in platform.chats["7"][-1].text
        assert "認識" in platform.chats["8"][-1].text
        (code,) = re.findall(r"[A-Z2-9]{4}-[A-Z2-9]{4}", platform.chats["8"][-1].text)
        await parts.bus.accept(
            "chat", "bot", Batch([chat_message(f"/pair approve {code}", chat="7")])
        )
        await platform.until(lambda: len(platform.chats["8"]) > 1)
        assert not platform.chats["8"][-1].text.isascii()


async def test_internal_error_is_in_the_language_of_the_sender(tmp_path: Path) -> None:
    class Broken(ScriptedProvider):
        def stream(self, request: object) -> object:  # type: ignore[override]
            raise RuntimeError("a bug")

    async with running(tmp_path, Broken([])) as parts:
        assert "时发生内部错误，已写入日志；请重试。" in await answer_to(
            parts, chat_message("hello", language=HANS)
        )


async def test_transaction_has_the_language_of_its_caller(tmp_path: Path) -> None:
    from agent.i18n import set_locale

    async def say(language: str) -> str:
        set_locale(language)
        return await parts.database.transact(lambda _: current_locale())

    async with running(tmp_path, []) as parts:
        assert await asyncio.gather(say(HANS), say("en"), say(HANT)) == [HANS, "en", HANT]


def test_configuration_overrides_the_app_and_a_choice_overrides_both() -> None:
    languages = UserLanguages(HANT)
    assert languages.of(chat_message("x", language="en")) == HANT
    assert languages.of_route(Route("chat", "bot", "1")) == HANT
    assert UserLanguages().of(chat_message("x", language=HANS)) == HANS
    assert UserLanguages().of(console_message("x")) == "en"


def test_changed_configuration_takes_effect_at_once() -> None:
    languages = UserLanguages()
    languages.configure(HANS)
    assert languages.of(chat_message("x", language="en")) == HANS
    languages.configure("auto")
    assert languages.of(chat_message("x", language="en")) == "en"
