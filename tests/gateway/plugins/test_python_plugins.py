"""Python packages as plugins, enabled by their name in config.json."""

import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from gateway.access.roles import RoleRegistry
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.registry import open_channels
from gateway.channels.table import allowed_senders
from gateway.config import Settings
from gateway.config.diff import update
from gateway.config.load import Sources, load_settings
from gateway.config.python_plugins import python_store, python_tools
from gateway.config.secret_keys import STARS
from gateway.ops.config_editor import ConfigEditor
from gateway.runtime.paths import DataDir
from gateway.runtime.secrets import describe, redactor_of, secret_values
from gateway.store.sqlite.engine import SqliteStore
from tests import fork_server
from tests.gateway.cli.kore import kore

MODULE = '''
import kore
from pydantic import SecretStr
from gateway.channels.spec import ChannelSpec
from gateway.config.channel_section import ChannelSection
from agent.providers.scripted import ScriptedProvider

@kore.tool
def umbrella(city: str) -> str:
    """Say whether one is needed."""
    return f"yes, in {city}"

def tools(options):
    @kore.tool
    def forecast() -> str:
        """The weather of the configured city."""
        return options["city"]
    return [umbrella, forecast]

def provider(config):
    return ScriptedProvider([f"I am {config.model_id} of a package."])

class Section(ChannelSection):
    token: str = ""
    key_phrase: SecretStr = SecretStr("")
    city: str = ""

class Channel:
    name, account = "weather", "main"
    def __init__(self, section):
        self.section = section
    async def run(self, accept): ...
    def render(self, markdown): return []
    async def send(self, message): return "1"

async def open_channel(context):
    return [Channel(context.section)]

SPEC = ChannelSpec(name="weather", title="Weather", section=Section, open=open_channel)

def store(options):
    from pathlib import Path
    from gateway.store.sqlite.engine import SqliteStore
    return SqliteStore.open(Path(options["file"]))

class Broken:
    def __init__(self, options):
        raise ValueError("no city")
'''
ENTRIES = """
[kore.tools]
weather = weather_of_kore:tools
single = weather_of_kore:umbrella
broken = weather_of_kore:Broken
gone = weather_of_kore:missing
text = weather_of_kore:MODULE_NAME
[kore.providers]
weather = weather_of_kore:provider
[kore.channels]
weather = weather_of_kore:SPEC
other_name = weather_of_kore:SPEC
no_channel = weather_of_kore:tools
[kore.stores]
cellar = weather_of_kore:store
attic = weather_of_kore:store
no_store = weather_of_kore:MODULE_NAME
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a distribution in its own folder, laid out as pip does."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "weather_of_kore-1.0.dist-info"
    info.mkdir()
    (folder / "weather_of_kore.py").write_text(f"{MODULE}\nMODULE_NAME = lambda options: 'text'\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-of-kore\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    return folder


@pytest.fixture
def on_path(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))


def kore_with(site: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `kore` in a process that finds the packages of `site`."""
    program = (
        "import sys; from gateway.__main__ import main\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "sys.exit(main(sys.argv[2:]))"
    )
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home.parent), "KORE_HOME": str(home)}
    return fork_server.run(["python", "-c", program, site, *words], cwd=home.parent, env=environ)


def settings(**plugins: dict[str, Any]) -> Settings:
    return Settings().model_copy(update={"python_plugins": plugins})


def test_only_configured_packages_are_imported(on_path: None) -> None:
    sys.modules.pop("weather_of_kore", None)
    assert python_tools(Settings()) == ()
    assert "weather_of_kore" not in sys.modules
    names = [tool.name for tool in python_tools(settings(weather={"city": "Oslo"}))]
    assert names == ["umbrella", "forecast"]
    assert [tool.name for tool in python_tools(settings(single={}))] == ["umbrella"]


def test_policy_file_may_name_tools_of_packages(on_path: None, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("roles: {mine: {tools: {umbrella: {ask: true}, forecast: false}}}")
    with_package = settings(weather={"city": "Oslo"})
    security = with_package.security.model_copy(update={"policy_file": policy})
    role = RoleRegistry.of(with_package.model_copy(update={"security": security})).role("mine")
    assert role is not None
    assert set(role.tools) == {"umbrella", "forecast"}
    without = Settings().model_copy(update={"security": security})
    with pytest.raises(ConfigError, match='unknown tool "umbrella"'):
        RoleRegistry.of(without)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody", "no installed package offers 'nobody'"),
        ("gone", "'gone' cannot be loaded"),
        ("broken", "'broken' cannot be loaded: no city"),
        ("text", "offers a str, expected a tool"),
    ],
)
def test_unusable_plugin_is_reported_in_one_sentence(on_path: None, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        python_tools(settings(**{name: {}}))


async def test_channel_is_opened_under_its_name(on_path: None, tmp_path: Path) -> None:
    database = SqliteStore.open(tmp_path / "kore.db")
    home, places = DataDir(tmp_path), ChatSettingsIndex({}, {})
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)

        async def channels(**plugins: dict[str, Any]) -> list[Any]:
            base_settings = settings(**plugins)
            return await open_channels(base_settings, home, database, stack, places, menu=())

        assert await channels() == []
        (channel,) = await channels(weather={"allow_from": ["7"], "token": "t"})
        assert channel.section.token == "t"
        assert await channels(weather={"enabled": False}) == []
        for plugins in ({"other_name": {}}, {"no_channel": {}}, {"weather": {"tokn": "t"}}):
            with pytest.raises(ConfigError, match=r"channel|weather\.tokn"):
                await channels(**plugins)
    route = ("weather", "main")
    assert allowed_senders(settings(weather={"allow_from": ["7"]}), [route])[route] == ("7",)
    assert allowed_senders(settings(weather={}), [route])[route] == ()


def test_role_accepts_a_person_id_with_a_colon(on_path: None, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "python_plugins": {"weather": {}},
                "access": {"roles": {"weather:@ann:example.org": "plan"}},
            }
        )
    )
    loaded = load_settings(config=None, home=tmp_path, cwd=tmp_path, environ={}, overrides={})
    assert loaded.access.roles == {"weather:@ann:example.org": "plan"}


def test_people_of_a_package_reload_and_other_keys_need_a_restart(on_path: None) -> None:
    running = settings(weather={"allow_from": ["7"], "city": "Oslo"}, cellar={"file": "a"})
    loaded = settings(weather={"allow_from": ["8"], "city": "Rome"}, attic={"file": "a"})
    diff = update(running, loaded)
    assert diff.changed_keys == ("python_plugins.weather.allow_from",)
    assert diff.restart_keys == (
        "python_plugins.attic",
        "python_plugins.cellar",
        "python_plugins.weather.city",
    )
    route = ("weather", "main")
    assert allowed_senders(diff.settings, [route])[route] == ("8",)
    assert diff.settings.python_plugins["weather"]["city"] == "Oslo"
    assert diff.settings.python_plugins.keys() == {"weather", "cellar"}
    assert update(diff.settings, loaded).restart_keys == diff.restart_keys


def test_people_of_a_second_account_reload(on_path: None) -> None:
    def account(person: str) -> Settings:
        return settings(weather={"accounts": [{"name": "b", "allow_from": [person]}]})

    diff = update(account("7"), account("8"))
    assert diff.changed_keys == ("python_plugins.weather.accounts",)
    route = ("weather", "b")
    assert allowed_senders(diff.settings, [route])[route] == ("8",)


def test_removed_key_of_a_package_needs_a_restart(on_path: None) -> None:
    diff = update(settings(weather={"city": "Oslo"}), settings(weather={}))
    assert diff.restart_keys == ("python_plugins.weather.city",)
    assert diff.settings.python_plugins == {"weather": {"city": "Oslo"}}


def test_settings_of_a_tool_package_need_a_restart(on_path: None) -> None:
    diff = update(settings(single={"city": "Oslo"}), settings(single={}))
    assert (diff.changed_keys, diff.restart_keys) == ((), ("python_plugins.single",))
    assert diff.settings.python_plugins == {"single": {"city": "Oslo"}}


def write_config(home: Path, **options: Any) -> Path:
    file = home / "config.json"
    file.write_text(json.dumps({"python_plugins": {"weather": options}}))
    return file


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ctiy": "Oslo"}, 'weather.ctiy: unknown key; did you mean "city"?'),
        ({"queue": "later"}, 'weather.queue: found "later", expected "join", "queue" or "steer"'),
        (
            {"accounts": [{"nme": "b", "name": "a"}]},
            'weather.accounts[0].nme: unknown key; did you mean "name"?',
        ),
        (
            {"chats": {"c1": {"model": "elsewhere"}}},
            'weather.chats: found "elsewhere", expected a model_name of model_list or vendor/model',
        ),
    ],
)
def test_invalid_package_settings_are_errors_of_the_file(
    on_path: None, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    file = write_config(tmp_path, **options)
    with pytest.raises(ConfigError) as failure:
        load_settings(config=None, home=tmp_path, cwd=tmp_path, environ={}, overrides={})
    assert str(failure.value) == f"{file}: python_plugins.{sentence}"


@pytest.mark.parametrize(
    ("key", "value", "effect"), [("city", "Rome", "restart"), ("trace", "off", "none")]
)
def test_settings_editor_reports_the_effect_of_changed_package_settings(
    on_path: None, tmp_path: Path, key: str, value: str, effect: str
) -> None:
    write_config(tmp_path, city="Oslo")
    sources = Sources(None, tmp_path, tmp_path, {})
    loaded = sources.load()
    editor = ConfigEditor(sources, loaded, redactor_of(loaded, {}), None)
    rows = {row["key"]: row for row in editor.list_settings()["settings"]}
    assert rows["python_plugins.weather.allow_from"]["at_once"]
    assert editor.check(f"python_plugins.weather.{key}", value)["effect"] == effect


def test_package_settings_are_described_and_their_secrets_registered(
    on_path: None, tmp_path: Path
) -> None:
    write_config(tmp_path, key_phrase="hB7xQ2mVz9LkT4wR")
    loaded = load_settings(config=None, home=tmp_path, cwd=tmp_path, environ={}, overrides={})
    described = describe(loaded)["python_plugins"]["weather"]
    assert described["trace"] == "off"
    assert described["key_phrase"] == STARS
    assert "hB7xQ2mVz9LkT4wR" in secret_values(loaded, {})


def test_program_uses_a_model_and_a_tool_of_a_package(site: Path, tmp_path: Path) -> None:
    home = tmp_path / "kore"
    home.mkdir()
    config = {
        "agent": {"model": "weather/sunny", "workspace": str(tmp_path / "w")},
        "python_plugins": {"weather": {"city": "Oslo"}},
    }
    (home / "config.json").write_text(json.dumps(config))
    done = kore_with(site, home, "agent", "-m", "Hello")
    assert "I am sunny of a package." in done.stdout, done.stderr
    missing = kore("agent", "-m", "Hello", home=home)
    assert missing.returncode != 0
    assert "no installed package offers 'weather'" in missing.stderr


def test_program_uses_the_store_of_a_package(site: Path, tmp_path: Path) -> None:
    home, file = tmp_path / "kore", tmp_path / "cellar" / "all.db"
    home.mkdir()
    file.parent.mkdir()
    config = {
        "agent": {"model": "offline/echo", "workspace": str(tmp_path / "w")},
        "python_plugins": {"cellar": {"file": str(file)}},
    }
    (home / "config.json").write_text(json.dumps(config))
    for _ in range(2):
        done = kore_with(site, home, "agent", "-c", "-m", "Hello")
        assert "Hello" in done.stdout, done.stderr
    assert not (home / "kore.db").exists()
    assert b"Hello" in b"".join(path.read_bytes() for path in file.parent.iterdir())


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["no_store"], "offers a str, expected a store"),
        (["cellar", "attic"], "cellar, attic each offer a store; name one"),
    ],
)
async def test_invalid_store_is_reported_in_one_sentence(
    on_path: None, tmp_path: Path, names: list[str], words: str
) -> None:
    options = {"file": str(tmp_path / "x.db")}
    with pytest.raises(ConfigError, match=words):
        python_store(settings(**dict.fromkeys(names, options)))


def test_project_cannot_configure_packages(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    (project / ".kore").mkdir(parents=True)
    home.mkdir()
    path = project / ".kore" / "config.json"
    path.write_text(json.dumps({"python_plugins": {"evil": {}}}))
    (home / "trust.json").write_text("{}")
    with pytest.raises(ConfigError, match="a project's own file cannot set this"):
        load_settings(config=None, home=home, cwd=project, environ={}, overrides={})
