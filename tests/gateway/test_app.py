import asyncio
from collections.abc import Mapping
from pathlib import Path

from gateway.app import open_app
from gateway.config import Settings, load_settings
from gateway.core.records import Delivered
from gateway.runtime.paths import DataDir
from tests.fakes.bot_api import TOKEN, BotApi
from tests.gateway.parts import console_message


def settings_for(home: Path, bot_api: BotApi, token: str) -> Settings:
    return load_settings(
        config=None,
        home=home,
        cwd=home,
        environ={},
        overrides={
            "agent.model": "offline/echo",
            "http.port": 0,
            "telegram.enabled": True,
            "telegram.token": token,
            "telegram.base_url": bot_api.base_url,
            "telegram.allow_from": ["7"],
        },
    )


async def test_wrong_token_is_reported_in_the_status_and_the_rest_works(
    tmp_path: Path, bot_api: BotApi
) -> None:
    settings = settings_for(tmp_path, bot_api, "1:" + "x" * 35)
    async with open_app(settings, DataDir(tmp_path), channels=True) as app:
        async with asyncio.timeout(30):
            status: Mapping[str, object] = {}
            while status.get("state") != "refused":
                await asyncio.sleep(0.01)
                ((_, status),) = (await app.service.status())["channels"].items()
        assert "telegram.token" in status["last_error"]
        assert "x" * 35 not in str(status)
        message = console_message("hello")
        async with asyncio.timeout(30), app.service.watch(message.session_key) as events:
            await app.service.submit(message)
            async for event in events:
                if isinstance(event, Delivered):
                    break
        assert "hello" in event.text  # type: ignore[union-attr]


async def test_valid_token_polls(tmp_path: Path, bot_api: BotApi) -> None:
    async with open_app(
        settings_for(tmp_path, bot_api, TOKEN), DataDir(tmp_path), channels=True
    ) as app:
        async with asyncio.timeout(30):
            while not any(
                status["state"] == "polling"
                for status in (await app.service.status())["channels"].values()
            ):
                await asyncio.sleep(0.01)
        assert not app.supervisor.failures


async def test_unrestricted_tools_cannot_reach_files_of_kore(
    tmp_path: Path,
) -> None:
    (tmp_path / "secrets.json").write_text("{}")
    (tmp_path / "secrets.json").chmod(0o600)
    (tmp_path / "notes.md").write_text("anybody may read this")
    overrides = {"agent.model": "offline/echo", "security.restrict_to_workspace": False}
    settings = load_settings(
        config=None, home=tmp_path, cwd=tmp_path, environ={}, overrides=overrides
    )
    own_files = ("secrets.json", "kore.db", "kore.db-wal", "kore.lock", "notes.md")
    calls = (f'!tool read_file {{"path": "{tmp_path / name}"}}' for name in own_files)
    message = console_message("\n".join(calls))
    async with (
        asyncio.timeout(30),
        open_app(settings, DataDir(tmp_path), channels=False) as app,
        app.service.watch(message.session_key) as events,
    ):
        await app.service.submit(message)
        async for event in events:
            if isinstance(event, Delivered):
                break
    assert event.text.count("is blocked") == 4  # type: ignore[union-attr]
    assert "anybody may read this" in event.text  # type: ignore[union-attr]
