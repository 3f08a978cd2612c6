"""The first five minutes, typed into a real terminal, with a fake model and Bot API."""

import json
import signal
from pathlib import Path

from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.model import ModelServer
from tests.gateway.cli.console.terminal import Terminal, kore_there
from tests.gateway.cli.verbs.channel_setup import code_in, config, surroundings

KEY = "sk-typed-canary-77"
OTHER = "another OpenAI-compatible server"


async def choose(terminal: Terminal, label: str, question: str) -> None:
    """Answer the question with the number of the entry with this label."""
    began = len(terminal.text)
    await terminal.see(question)
    lines = terminal.text[max(0, began - 1500) :].splitlines()
    numbers = [line.split()[0] for line in lines if label in line and line.split()[0].isdecimal()]
    terminal.type(f"{numbers[-1]}\r")


async def answer(terminal: Terminal, question: str, text: str = "") -> None:
    await terminal.see(question)
    terminal.type(f"{text}\r")


def at(bot_api: str) -> dict[str, str]:
    return {"KORE_TELEGRAM_BASE_URL": bot_api, "KORE_HTTP_PORT": "0"}


async def name_a_server(terminal: Terminal, address: str) -> None:
    await choose(terminal, OTHER, "Which model provider?")
    await answer(terminal, "Its URL", address)
    await answer(terminal, "API key, if it needs one (hidden while you paste; Enter: none", KEY)
    await answer(terminal, "Which model?", "fake")


async def test_setup_leads_to_the_first_reply_in_telegram(tmp_path: Path, bot_api: BotApi) -> None:
    home = tmp_path / "h"
    async with (
        ModelServer(api_key=KEY) as model,
        kore_there(home, "init", environ=at(bot_api.url)) as terminal,
    ):
        await answer(terminal, "Language / ")
        await name_a_server(terminal, model.url)
        await terminal.see("It works.")
        await answer(terminal, "What should I be called?", "Jarvis")
        await answer(terminal, "What tone should I use?", "2")
        await answer(terminal, "What should I call you?", "Ada")
        await answer(terminal, "Your time zone", "berlin")
        await answer(terminal, "did you mean Europe/Berlin?", "Europe/Berlin")
        assert not (home / "config.json").exists()
        await answer(terminal, "Connect a chat app now?")
        await answer(terminal, "Token (hidden while you paste", TOKEN)
        await bot_api.user_says(77, f"/start {await code_in(terminal)}")
        await terminal.see("Person 77 (telegram:77) is now the owner.")
        await terminal.see("chat here with openai/fake")
        await terminal.see("answer in Telegram")
        await answer(terminal, "Start it here now?")
        await terminal.see("is running")
        await bot_api.user_says(77, "hello")
        await bot_api.wait_for(lambda: "echo: hello" in bot_api.answers(77), timeout_s=30)
        terminal.process.send_signal(signal.SIGINT)
        assert await terminal.ended() == 0
        assert KEY not in terminal.text
        assert TOKEN not in terminal.text
        system = json.dumps(model.requests[-1].body["messages"][0])
    assert "You are Jarvis, a personal assistant." in system
    assert "Brief and factual" in system
    assert "how to address them: Ada" in system
    assert "zone: Europe/Berlin" in system
    assert config(home)["model_list"] == [
        {
            "model_name": "default",
            "model": "openai/fake",
            "api_base": f"{model.url}/v1",
            "api_key": "${KORE_SECRET_MODEL_LIST_DEFAULT_API_KEY}",
        }
    ]


async def test_steps_can_be_revisited_and_skipped_and_failures_are_explained(
    tmp_path: Path, bot_api: BotApi
) -> None:
    home = tmp_path / "h"
    async with (
        ModelServer(api_key="sk-the-right-one") as model,
        kore_there(home, "init", environ=surroundings(bot_api)) as terminal,
    ):
        await answer(terminal, "Language / ")
        await answer(terminal, "Which model provider?", "<")
        await answer(terminal, "Language / ", "Engl")
        await name_a_server(terminal, "http://127.0.0.1:9")
        await terminal.see("could not connect to openai")
        await answer(terminal, "What now?", "<")
        await name_a_server(terminal, "http://127.0.0.1:9")
        await terminal.see("try again")
        await answer(terminal, "What now?", "another URL")
        await answer(terminal, "Its URL", model.url)
        await terminal.see("rejected the API key")
        await answer(terminal, "What now?", "1")
        await answer(
            terminal,
            "API key, if it needs one (hidden while you paste; Enter: none",
            "sk-the-right-one",
        )
        await terminal.see("It works.")
        await answer(terminal, "What should I be called?", "-")
        await terminal.see("Unchanged.")
        await answer(terminal, "Connect a chat app now?", "n")
        await terminal.see("Ready to use:")
        await terminal.see("No chat app is connected")
        assert await terminal.ended() == 0
    assert json.loads((home / "secrets.json").read_text()) == {
        "KORE_SECRET_MODEL_LIST_DEFAULT_API_KEY": "sk-the-right-one"
    }
    assert "You are Kore" in (home / "workspace" / "IDENTITY.md").read_text()


async def test_ctrl_c_leaves_no_files(tmp_path: Path, bot_api: BotApi) -> None:
    home = tmp_path / "h"
    async with kore_there(home, "init", environ=surroundings(bot_api)) as terminal:
        await answer(terminal, "Language / ")
        await answer(terminal, "Which model provider?", "-")
        await terminal.see("What should I be called?")
        await terminal.interrupt("Nothing was written.")
        assert await terminal.ended() == 130
    assert not home.exists()


async def test_second_run_keeps_existing_files(tmp_path: Path, bot_api: BotApi) -> None:
    home, workspace = tmp_path / "h", tmp_path / "h" / "workspace"
    home.mkdir(mode=0o700)
    before = '{\n  "model_list": [ {"model_name": "default", "model": "openai/x"} ]\n}\n'
    (home / "config.json").write_text(before)
    workspace.mkdir()
    (workspace / "SOUL.md").write_text("My own voice.\n")
    (workspace / "USER.md").write_text("- Name, and how to address them: Ada\n")
    async with kore_there(home, "init", environ=at(bot_api.url)) as terminal:
        await answer(terminal, "Language / ")
        await choose(terminal, "keep openai/x", "Which model provider?")
        await answer(terminal, "What should I be called?")
        await answer(terminal, "What tone should I use?")
        await answer(terminal, "What should I call you? [Ada]")
        await answer(terminal, "Your time zone")
        await answer(terminal, "Connect a chat app now?", "n")
        assert await terminal.ended() == 0
    assert (home / "config.json").read_text() == before
    assert not (home / "secrets.json").exists()
    assert (workspace / "SOUL.md").read_text() == "My own voice.\n"
    assert "how to address them: Ada\n" in (workspace / "USER.md").read_text()


async def test_chosen_language_is_used_immediately(tmp_path: Path, bot_api: BotApi) -> None:
    async with kore_there(tmp_path / "h", "init", environ=surroundings(bot_api)) as terminal:
        await answer(terminal, "Language / ", "2")
        await answer(terminal, "使用哪个模型供应商？", "-")
        await answer(terminal, "我该叫什么名字？", "-")
        await answer(terminal, "Telegram", "-")
        assert await terminal.ended() == 0
    assert config(tmp_path / "h") == {"agent": {"language": "zh-Hans"}}


async def test_questions_are_ascii_in_a_terminal_without_chinese_characters(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    async with kore_there(tmp_path / "h", "init", environ=plain) as terminal:
        await terminal.see("Language [1]:")
        terminal.type("2\r")
        await terminal.see("Which model provider?")
    assert "\\u7b80" not in terminal.text
    assert "\\u6309" not in terminal.text


async def test_server_lists_its_models_and_needs_no_scheme(tmp_path: Path, bot_api: BotApi) -> None:
    home = tmp_path / "h"
    async with (
        ModelServer(api_key=KEY) as model,
        kore_there(home, "init", environ=surroundings(bot_api)) as terminal,
    ):
        model.models = ["llama-small", "llama-large"]
        await answer(terminal, "Language / ")
        await choose(terminal, OTHER, "Which model provider?")
        await answer(terminal, "Its URL", model.url.removeprefix("http://"))
        await answer(terminal, "API key, if it needs one (hidden while you paste; Enter: none", KEY)
        await terminal.see("another one")
        await answer(terminal, "Which model?", "llama-l")
        await terminal.see("It works.")
        await answer(terminal, "What should I be called?", "-")
        await answer(terminal, "Connect a chat app now?", "n")
        assert await terminal.ended() == 0
    entry = config(home)["model_list"][0]
    assert (entry["model"], entry["api_base"]) == ("openai/llama-large", f"{model.url}/v1")


async def test_ollama_can_be_chosen_when_it_is_not_detected(
    tmp_path: Path, bot_api: BotApi
) -> None:
    home = tmp_path / "h"
    async with (
        ModelServer() as model,
        kore_there(home, "init", environ=surroundings(bot_api)) as terminal,
    ):
        model.models = ["llama3.2"]
        await answer(terminal, "Language / ")
        await choose(terminal, "ollama", "Which model provider?")
        await answer(terminal, "Its URL", model.url.removeprefix("http://"))
        await answer(terminal, "Which model?", "1")
        await terminal.see("It works.")
        await answer(terminal, "What should I be called?", "-")
        await answer(terminal, "Connect a chat app now?", "n")
        assert await terminal.ended() == 0
    entry = config(home)["model_list"][0]
    assert (entry["model"], entry["api_base"]) == ("ollama/llama3.2", model.url)


async def test_token_is_stored_without_a_network(tmp_path: Path, unused_tcp_port: int) -> None:
    home = tmp_path / "h"
    nowhere = at(f"http://127.0.0.1:{unused_tcp_port}")
    async with kore_there(home, "init", environ=nowhere) as terminal:
        await answer(terminal, "Language / ")
        await choose(terminal, "offline stand-in", "Which model provider?")
        await answer(terminal, "What should I be called?", "-")
        await answer(terminal, "Connect a chat app now?")
        await answer(terminal, "Token (hidden while you paste", TOKEN)
        await terminal.see("could not connect to")
        await answer(terminal, "What now?", "keep")
        await terminal.see("The token is saved but not verified: Telegram could not be reached")
        await terminal.see("Ready to use:")
        await terminal.see("answer in Telegram")
        await answer(terminal, "Start it here now?", "n")
        assert await terminal.ended() == 0
        assert TOKEN not in terminal.text
    assert TOKEN in (home / "secrets.json").read_text()
    assert config(home)["telegram"]["enabled"] is True


async def test_ctrl_c_at_the_token_shows_the_summary(tmp_path: Path, bot_api: BotApi) -> None:
    async with kore_there(tmp_path / "h", "init", environ=at(bot_api.url)) as terminal:
        await answer(terminal, "Language / ")
        await choose(terminal, "offline stand-in", "Which model provider?")
        await answer(terminal, "What should I be called?", "-")
        await answer(terminal, "Connect a chat app now?")
        await terminal.see("Token (hidden while you paste")
        await terminal.interrupt("Ready to use:")
        await terminal.see("`kore agent`")
        assert await terminal.ended() == 0
