"""Remote changes of settings: validated first, and limited to editable settings."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from agent.security.redaction import Redactor
from gateway.app import open_app
from gateway.config import load_settings
from gateway.config.key_catalog import widens_access
from gateway.config.load import Sources
from gateway.ops.config_editor import ConfigEditor
from gateway.ops.config_reload import WatchedConfig
from gateway.runtime.paths import DataDir
from gateway.runtime.secrets import redactor_of

MODEL = {"model_name": "local", "model": "openai/gpt-x", "api_base": "http://127.0.0.1:9/v1"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    content = {"agent": {"model": "local"}, "model_list": [{**MODEL, "api_key": "${MY_KEY}"}]}
    (tmp_path / "config.json").write_text(json.dumps(content, indent=4) + "\n")
    (tmp_path / "secrets.json").write_text('{"MY_KEY": "first-secret-value"}')
    (tmp_path / "secrets.json").chmod(0o600)
    return tmp_path


@pytest.fixture
def editor(home: Path) -> Callable[..., ConfigEditor]:
    def make(**environ: str) -> ConfigEditor:
        sources = Sources(None, home, home, environ)
        settings = sources.load()
        return ConfigEditor(sources, settings, redactor_of(settings, environ), None)

    return make


async def change(editor: ConfigEditor, key: str, value: str | None) -> dict[str, Any]:
    proposal = editor.check(key, value)["proposal"]
    return dict(await editor.change(key, value, proposal, is_confirmed=True))


def rows(editor: ConfigEditor) -> dict[str, Any]:
    return {row["key"]: row for row in editor.list_settings()["settings"]}


async def test_rest_of_the_file_is_kept(editor: Callable[..., ConfigEditor], home: Path) -> None:
    file = home / "config.json"
    before = file.read_text()
    await change(editor(), "agent.max_iterations", "7")
    lines = file.read_text().splitlines()
    assert [line for line in before.splitlines() if line not in lines] == [
        '        "model": "local"'
    ]
    assert json.loads(file.read_text())["agent"] == {"model": "local", "max_iterations": 7}
    await change(editor(), "agent.max_iterations", None)
    assert json.loads(file.read_text()) == json.loads(before)


async def test_unknown_key_of_the_file_is_kept(
    editor: Callable[..., ConfigEditor], home: Path
) -> None:
    own_editor = editor()
    file = home / "config.json"
    content = json.loads(file.read_text())
    content["agent"]["from_the_future"] = 1
    file.write_text(json.dumps(content))
    assert "from_the_future" in own_editor.list_settings()["problem"]
    await change(own_editor, "agent.max_iterations", "7")
    assert json.loads(file.read_text())["agent"]["from_the_future"] == 1


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("agent.max_iteration", "7", "did you mean"),
        ("nothing.at_all", "7", "unknown section"),
        ("agent.max_iterations", "many", "agent.max_iterations"),
        ("agent.model", "elsewhere", "expected a model_name"),
        ("model_list", "[]", "expected a model_name"),
        ("model_list", "[{", "not valid JSON"),
        ("model_list.other.api_key", "x", "no entry named"),
        ("security.sandbox", "maybe", "security.sandbox"),
        ("access.roles.telegram:5", "nobody", "unknown role"),
        ("access.roles.somebody", "guest", "telegram:123"),
        ("telegram.enabled", "true", "telegram.token is required"),
        ("model_list.local.api_key", "**********", "stand for a secret"),
        ("agent", "{}", "which key"),
        ("", "x", "unknown section"),
        ("agent.max_tokens", None, "is not set there"),
        ("agent.model", "x" * 300_000, "too long"),
    ],
)
async def test_invalid_change_is_reported_and_not_written(
    editor: Callable[..., ConfigEditor], home: Path, key: str, value: str | None, words: str
) -> None:
    before = (home / "config.json").read_bytes()
    with pytest.raises(ConfigError, match=words):
        editor().check(key, value)
    with pytest.raises(ConfigError, match=words):
        await editor().change(key, value, "", is_confirmed=True)
    assert (home / "config.json").read_bytes() == before


async def test_file_changed_meanwhile_is_not_overwritten(
    editor: Callable[..., ConfigEditor], home: Path
) -> None:
    own_editor = editor()
    checked = own_editor.check("agent.max_iterations", "7")
    # Another value than the checked one, and another file.
    with pytest.raises(ConfigError, match="changed meanwhile"):
        await own_editor.change("agent.max_iterations", "8", checked["proposal"], is_confirmed=True)
    await change(editor(), "agent.temperature", "0.5")
    theirs = (home / "config.json").read_bytes()
    with pytest.raises(ConfigError, match="changed meanwhile"):
        await own_editor.change("agent.max_iterations", "7", checked["proposal"], is_confirmed=True)
    assert (home / "config.json").read_bytes() == theirs


async def test_only_the_first_of_concurrent_changes_is_written(
    editor: Callable[..., ConfigEditor], home: Path
) -> None:
    editors = [editor() for _ in range(8)]
    proposals = [
        concurrent.check("agent.max_iterations", str(n + 1))["proposal"]
        for n, concurrent in enumerate(editors)
    ]
    results = await asyncio.gather(
        *(
            concurrent.change("agent.max_iterations", str(n + 1), proposals[n], is_confirmed=True)
            for n, concurrent in enumerate(editors)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(result, ConfigError) for result in results) == 7
    assert json.loads((home / "config.json").read_text())["agent"]["max_iterations"] in range(1, 9)


async def test_secret_is_set_and_never_shown(
    editor: Callable[..., ConfigEditor], home: Path
) -> None:
    facts = await change(editor(), "model_list.local.api_key", "second-secret-value")
    assert json.loads((home / "secrets.json").read_text())["MY_KEY"] == "second-secret-value"
    assert "second-secret-value" not in (home / "config.json").read_text()
    # A secret of digits only is redacted, too.
    digits = await change(editor(), "transcription.api_key", "1234567890123")
    assert digits["secrets"] == ["KORE_SECRET_TRANSCRIPTION_API_KEY"]
    shown = json.dumps([facts, digits, editor().list_settings()])
    for secret in ("first-secret", "second-secret", "1234567890123"):
        assert secret not in shown
    row = rows(editor())["transcription.api_key"]
    assert row["is_secret"]
    await change(editor(), "transcription.api_key", None)
    assert "1234567890123" not in (home / "secrets.json").read_text()


def test_secret_variable_cannot_be_read_by_a_reference(
    editor: Callable[..., ConfigEditor],
) -> None:
    facts = editor(AWS_SECRET_KEY="hunter2-hunter2").check("tts.voice", "${AWS_SECRET_KEY}")
    assert "hunter2" not in json.dumps(facts)


def test_setting_from_the_environment_is_locked(
    editor: Callable[..., ConfigEditor],
) -> None:
    own_editor = editor(KORE_AGENT_MAX_ITERATIONS="9")
    row = rows(own_editor)["agent.max_iterations"]
    assert row["value"] == 9
    assert "KORE_AGENT_MAX_ITERATIONS" in row["locked"]
    for value in ("7", None):
        with pytest.raises(ConfigError, match="KORE_AGENT_MAX_ITERATIONS"):
            own_editor.check("agent.max_iterations", value)
    assert rows(own_editor)["agent.model"]["locked"] == ""


async def test_wider_permission_needs_confirmation(
    editor: Callable[..., ConfigEditor], home: Path
) -> None:
    before = (home / "config.json").read_bytes()
    checked = editor().check("security.sandbox", "none")
    assert (checked["widens"], checked["old"], checked["new"]) == (True, "auto", "none")
    with pytest.raises(ConfigError, match="confirm"):
        await editor().change("security.sandbox", "none", checked["proposal"], is_confirmed=False)
    assert (home / "config.json").read_bytes() == before
    await editor().change("security.sandbox", "none", checked["proposal"], is_confirmed=True)
    for key in (
        "hooks",
        "mcp_servers.x",
        "server.listen",
        "access.roles.telegram:1",
        "store.files",
    ):
        assert widens_access(tuple(key.split(".")))
    for key in ("agent.max_iterations", "model_list.local.temperature", "tts.voice", "profiles"):
        assert not widens_access(tuple(key.split(".")))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("limits.cost_per_day_usd", "500"),
        ("limits.cost_per_day_usd", None),
        ("limits.tokens_per_turn", "9000000"),
        ("subagents.max_cost_usd", "50"),
        ("model_list.mine.api_base", "https://collector.example/v1"),
        ("model_list.mine.price_output_usd", "0"),
        ("model_list", '[{"model_name": "local", "model": "offline/echo"}]'),
        ("transcription.api_base", "https://collector.example/v1"),
        ("tts.api_base", "https://collector.example/v1"),
        ("images.api_base", "https://collector.example/v1"),
        ("images.price_usd", "0"),
        ("store.url", "sqlite:////tmp/other.db"),
    ],
)
async def test_spending_and_addresses_need_confirmation(
    editor: Callable[..., ConfigEditor], home: Path, key: str, value: str | None
) -> None:
    content = json.loads((home / "config.json").read_text())
    entry = {"model_name": "mine", "model": "openai/x", "api_base": "https://mine.example/v1"}
    content |= {"limits": {"cost_per_day_usd": 5}, "model_list": [*content["model_list"], entry]}
    (home / "config.json").write_text(json.dumps(content))
    before = (home / "config.json").read_bytes()
    checked = editor().check(key, value)
    assert checked["widens"]
    with pytest.raises(ConfigError, match="confirm"):
        await editor().change(key, value, checked["proposal"], is_confirmed=False)
    assert (home / "config.json").read_bytes() == before
    await editor().change(key, value, checked["proposal"], is_confirmed=True)
    assert (home / "config.json").read_bytes() != before


def test_rows_describe_their_effect(editor: Callable[..., ConfigEditor]) -> None:
    result = rows(editor())
    assert result["security.sandbox"]["choices"] == [
        *("auto", "bwrap", "landlock", "container", "none")
    ]
    assert result["telegram.enabled"]["choices"] == ["true", "false"]
    assert result["security.modes"]["choices"] == []
    assert result["agent.max_iterations"]["at_once"]
    assert (result["agent.model"]["own"], result["agent.model"]["is_set"]) == ("local", True)
    assert not result["agent.max_iterations"]["is_set"]


@asynccontextmanager
async def watched_app(home: Path) -> AsyncIterator[Any]:
    sources = Sources(None, home, home, {})
    async with open_app(
        load_settings(config=None, home=home, cwd=home, environ={}, overrides={}),
        DataDir(home),
        channels=False,
        config=WatchedConfig(sources),
    ) as app:
        yield app


async def test_running_gateway_applies_the_change_or_reports_the_needed_restart(home: Path) -> None:
    async with watched_app(home) as app:
        service = app.service
        for key, value, effect in [
            ("agent.max_iterations", "7", "now"),
            ("http.port", "0", "restart"),
            ("agent.max_tokens", "500", "now"),
            ("agent.max_tokens", "500", "none"),
        ]:
            checked = await service.check_setting(key, value)
            assert (key, checked["effect"]) == (key, effect)
            facts = await service.change_setting(key, value, checked["proposal"], True)
            assert (key, facts["effect"], facts["notes"]) == (key, effect, [])
        assert app.reloader.settings.agent.max_iterations == 7
        assert app.reloader.settings.http.port != 0
        role = "access.roles.telegram:77"
        proposal = (await service.check_setting(role, "guest"))["proposal"]
        await service.change_setting(role, "guest", proposal, True)
        assert app.access.roles == {"telegram:77": "guest"}
        assert (await service.list_roles())["assigned"] == {"telegram:77": "guest"}


def test_redactor_hides_values_without_a_secret_name(home: Path) -> None:
    """Examples are a password in an address and a text registered as secret in this process."""
    file = home / "config.json"
    content = json.loads(file.read_text())
    content["images"] = {"api_base": "https://me:hunter2@example.org/v1", "model": "known-4f9Qx2z7"}
    file.write_text(json.dumps(content))
    sources = Sources(None, home, home, {})
    editor = ConfigEditor(sources, sources.load(), Redactor({"known-4f9Qx2z7"}), None)
    shown = json.dumps(editor.list_settings())
    assert "hunter2" not in shown
    assert "known-4f9Qx2z7" not in shown
    assert os.stat(home / "secrets.json").st_mode & 0o077 == 0
