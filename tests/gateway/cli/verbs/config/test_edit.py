import json
import os
import stat
from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.server.listener import ListenAddress
from tests.gateway.cli.kore import kore, kore_here

KEPT = """\
{
    "telegram": {
        "allow_from": [5],   "enabled": false
    },

    "agent": {"model": "offline/echo"}
}
"""


def write_config(home: Path, text: str) -> Path:
    home.mkdir(exist_ok=True)
    file = home / "config.json"
    file.write_text(text)
    return file


def test_set_changes_one_value_and_keeps_the_rest_of_the_text(tmp_path: Path) -> None:
    file = write_config(tmp_path / "h", KEPT)
    assert kore("config", "set", "telegram.allow_from", "[7, 8]", home=file.parent).returncode == 0
    assert file.read_text() == KEPT.replace("[5]", "[7, 8]")
    kore("config", "set", "http.port", "0", home=file.parent)
    result = kore("config", "get", "http.port", "--json", home=file.parent)
    assert json.loads(result.stdout) == {"key": "http.port", "value": 0, "from": str(file)}


@pytest.mark.parametrize(
    "key", ["model_list.7", "agent.model.x", "http.port.0", "telegram.allow_from.9"]
)
def test_get_reports_a_missing_entry(tmp_path: Path, key: str) -> None:
    file = write_config(tmp_path / "h", KEPT)
    result = kore_here("config", "get", key, home=file.parent)
    assert result.returncode == 2
    assert f"{key}: no such entry in {key.rpartition('.')[0]}" in result.stderr


def test_first_set_creates_a_private_file(tmp_path: Path) -> None:
    home = tmp_path / "h"
    assert kore("config", "set", "logging.level", "debug", home=home).returncode == 0
    assert json.loads((home / "config.json").read_text()) == {"logging": {"level": "debug"}}
    assert stat.S_IMODE((home / "config.json").stat().st_mode) == 0o600


def test_links_and_modes_are_kept(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    (tmp_path / "dotfiles").mkdir()
    target = tmp_path / "dotfiles" / "kore.json"
    target.write_text("{}")
    target.chmod(0o640)
    (home / "config.json").symlink_to(target)
    kore("config", "set", "http.port", "0", home=home)
    assert (home / "config.json").is_symlink()
    assert json.loads(target.read_text()) == {"http": {"port": 0}}
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(target.parent) == ["kore.json"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("http.port", "many", 'http.port: found "many", expected a whole number'),
        ("agent.modl", "x", 'agent.modl: unknown key; did you mean "model"?'),
        ("agnt.model", "x", 'agnt: unknown section; did you mean "agent"?'),
        ("language", "zh", 'language: unknown section; did you mean "agent.language"?'),
        ("agent", "x", "agent: which key? one of model, "),
        ("model_list.local.model", "x", 'model_list: no entry named "local"'),
        ("profiles.quick", "lokal", 'profiles.quick: found "lokal", expected a model_name'),
    ],
)
def test_invalid_value_is_not_written(tmp_path: Path, key: str, value: str, expected: str) -> None:
    text = '{"model_list": [{"model_name": "x", "model": "ollama/x"}]}'
    file = write_config(tmp_path / "h", text)
    result = kore_here("config", "set", key, value, home=file.parent)
    assert result.returncode == 2
    assert expected in result.stderr
    assert file.read_text() == text


def test_secrets_are_stored_separately_and_never_printed(tmp_path: Path) -> None:
    home = tmp_path / "h"
    bot = "123:canary-token-one"
    results = [kore("config", "set", "telegram.token", bot, home=home)]
    models = '[{"model_name": "a", "model": "openai/a", "api_key": "canary-key-two"}]'
    results += [kore("config", "set", "model_list", models, home=home)]
    results += [kore("config", "set", "model_list.a.api_key", home=home, stdin="canary-key-3\n")]
    results += [kore("config", what, home=home) for what in ("list", "show")]
    results += [kore("config", "get", "telegram.token", home=home)]
    assert [result.returncode for result in results] == [0] * len(results)
    assert "canary" not in "".join(result.stdout + result.stderr for result in results)
    assert "canary" not in (home / "config.json").read_text()
    path = home / "secrets.json"
    assert sorted(json.loads(path.read_text()).values()) == [bot, "canary-key-3"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_of_two_mistakes_can_be_fixed(tmp_path: Path) -> None:
    file = write_config(tmp_path / "h", '{"http": {"port": "x"}, "logging": {"level": "loud"}}')
    result = kore("config", "set", "http.port", "0", home=file.parent)
    assert result.returncode == 0
    assert "logging.level" in result.stderr
    assert json.loads(file.read_text())["http"] == {"port": 0}


def test_overriding_environment_variable_is_reported(tmp_path: Path) -> None:
    result = kore(
        *("config", "set", "http.port", "1"), home=tmp_path / "h", environ={"KORE_HTTP_PORT": "2"}
    )
    assert "environment variable KORE_HTTP_PORT also sets it and takes precedence" in result.stderr


def test_reference_to_a_variable_is_not_reported_as_overridden(tmp_path: Path) -> None:
    url = "postgresql://kore:${KORE_DB_PASSWORD}@127.0.0.1/kore"
    result = kore(
        *("config", "set", "store.url", url),
        home=tmp_path / "h",
        environ={"KORE_DB_PASSWORD": "sesame"},
    )
    assert result.returncode == 0
    assert result.stderr == ""


@pytest.mark.parametrize("address", ["12", "unix:here", "127.0.0.1:99999", "127.0.0.1:"])
def test_invalid_listen_address_is_rejected(tmp_path: Path, address: str) -> None:
    result = kore("config", "set", "server.listen", address, home=tmp_path / "h")
    assert result.returncode == 2
    assert "expected 127.0.0.1:PORT, unix:/PATH or auto" in result.stderr
    with pytest.raises(ConfigError, match=r"expected .*:PORT, unix:/PATH or auto"):
        ListenAddress.parse(address)


def test_unset_removes_a_value(tmp_path: Path) -> None:
    file = write_config(tmp_path / "h", KEPT)
    assert kore("config", "unset", "telegram.enabled", home=file.parent).returncode == 0
    assert json.loads(file.read_text())["telegram"] == {"allow_from": [5]}
    result = kore("config", "unset", "telegram.enabled", home=file.parent)
    assert (result.returncode, "is not set there" in result.stderr) == (2, True)


def test_other_file_is_changed_on_request(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    result = kore("config", "set", "--file", other, "http.port", "1", home=tmp_path / "h")
    assert result.returncode == 0
    assert json.loads(other.read_text()) == {"http": {"port": 1}}
    assert not (tmp_path / "h" / "config.json").exists()


def test_list_names_the_source_of_a_value(tmp_path: Path) -> None:
    file = write_config(tmp_path / "h", KEPT)
    result = kore("config", "list", "--json", home=file.parent, environ={"KORE_HTTP_PORT": "2"})
    places = {row["key"]: row["from"] for row in json.loads(result.stdout)}
    assert places["agent.model"] == str(file)
    assert places["http.port"] == "environment variable KORE_HTTP_PORT"
    assert places["http.host"] == "default"


def test_list_shows_only_set_fields_of_an_entry(tmp_path: Path) -> None:
    entry = '{"model_name": "m", "model": "offline/echo", "max_tokens": 5}'
    file = write_config(tmp_path / "h", f'{{"model_list": [{entry}]}}')
    trust_output = kore("config", "list", "--set", home=file.parent).stdout
    assert "max_tokens" in trust_output
    assert "null" not in trust_output


def test_valid_edit_takes_effect(tmp_path: Path) -> None:
    file = write_config(tmp_path / "h", KEPT)
    editor = {"EDITOR": "sed -i s/5/6/"}
    assert kore("config", "edit", home=file.parent, environ=editor).returncode == 0
    assert file.read_text() == KEPT.replace("5", "6")
    assert sorted(os.listdir(file.parent)) == ["audit-pending.jsonl", "config.json"]


def test_invalid_edit_is_saved_as_a_draft_and_resumed(tmp_path: Path) -> None:
    file = write_config(tmp_path / "h", KEPT)
    wrong = {"EDITOR": "sed -i s/allow_from/alow_from/"}
    result = kore("config", "edit", home=file.parent, environ=wrong)
    assert result.returncode == 2
    assert f'{file}: telegram.alow_from: unknown key; did you mean "allow_from"?' in result.stderr
    assert file.read_text() == KEPT
    assert "alow_from" in (aside := file.with_name("config.edit.json")).read_text()
    fixing_editor = {"EDITOR": "sed -i -e s/alow_from/allow_from/ -e s/5/9/"}
    result = kore("config", "edit", home=file.parent, environ=fixing_editor)
    assert (result.returncode, str(aside) in result.stderr) == (0, True)
    assert file.read_text() == KEPT.replace("5", "9")
    assert not aside.exists()


def test_failing_editor_leaves_only_written_changes(
    tmp_path: Path,
) -> None:
    file = write_config(tmp_path / "h", KEPT)
    result = kore("config", "edit", home=file.parent, environ={"EDITOR": "false"})
    assert (result.returncode, "nothing was changed" in result.stderr) == (1, True)
    assert os.listdir(file.parent) == ["config.json"]
    failing = {"EDITOR": "sh -c 'echo {} >\"$0\"; false'"}
    result = kore("config", "edit", home=file.parent, environ=failing)
    aside = file.with_name("config.edit.json")
    assert f"your changes are in {aside}" in result.stderr
    assert (aside.read_text(), file.read_text()) == ("{}\n", KEPT)


def test_editor_with_an_open_quote_is_reported(tmp_path: Path) -> None:
    result = kore("config", "edit", home=tmp_path / "h", environ={"EDITOR": "'vi"})
    assert (result.returncode, result.stderr) == (
        1,
        "kore: the editor 'vi cannot be started: unclosed quote\n",
    )


def test_keys_in_server_arguments_are_never_printed(tmp_path: Path) -> None:
    home, work = tmp_path / "h", tmp_path / "work"
    args = ["--token", "canary-one", "--dsn=postgres://me:canary-two@db/x", "KEY=canary-three"]
    server = json.dumps({"command": "npx", "args": [*args, "canary-4f9Qx2z7"]})
    home.mkdir()
    (home / "secrets.json").write_text('{"MINE": "canary-4f9Qx2z7"}')
    (home / "secrets.json").chmod(0o600)
    results = [
        kore("config", "set", "mcp_servers", json.dumps({"a": json.loads(server)}), home=home)
    ]
    results += [kore("config", "set", "mcp_servers.a.args", json.dumps(args), home=home)]
    results += [kore("config", "set", "mcp_servers.a.args.1", "canary-four", home=home)]
    results += [kore("config", what, home=home) for what in ("list", "show")]
    results += [kore("config", "list", "--json", home=home)]
    results += [kore("config", "get", "mcp_servers.a.args", home=home)]
    assert [result.returncode for result in results] == [0] * len(results)
    work.mkdir()
    theirs = work / ".mcp.json"
    theirs.write_text(f'{{"mcpServers": {{"a": {server}}}}}')
    trust = kore("trust", work, home=home)
    key = "mcpServers.a.args.1"
    results += [kore("config", "set", key, "canary-five", "--file", theirs, home=home)]
    assert results[-1].returncode == 0
    expected = "".join(result.stdout + result.stderr for result in results)
    assert "--token" in expected
    assert "canary" not in expected
    # A stranger's configuration is shown as it would run, but the person's own secrets are not.
    trust_output = trust.stdout + trust.stderr
    assert "canary-one" in trust_output
    assert "canary-4f9Qx2z7" not in trust_output


def test_secret_is_removed_with_its_last_reference(tmp_path: Path) -> None:
    home, outcome = tmp_path / "h", tmp_path / "h" / "secrets.json"
    models = [
        {"model_name": name, "model": "openai/a", "api_key": f"canary-{name}"}
        for name in ("a", "b", "c")
    ]
    kore("config", "set", "model_list", json.dumps(models), home=home)
    names = {value: name for name, value in json.loads(outcome.read_text()).items()}
    outcome.write_text(json.dumps({**json.loads(outcome.read_text()), "MINE": "canary-mine"}))
    # A further key refers to the second secret, and the third entry now uses a secret of the
    # user's.
    headers = f'{{"x": "${{{names["canary-b"]}}}"}}'
    kore("config", "set", "model_list.c.headers", headers, home=home)
    kore("config", "set", "model_list.c.api_key", "${MINE}", home=home)
    for name in ("a", "b"):
        result = kore("config", "unset", f"model_list.{name}.api_key", home=home)
        assert result.returncode == 0, result.stderr
        assert (names["canary-a"] in result.stdout) == (name == "a")
    assert set(json.loads(outcome.read_text()).values()) == {"canary-b", "canary-c", "canary-mine"}
    assert kore("config", "unset", "model_list.c", home=home).returncode == 0
    assert set(json.loads(outcome.read_text()).values()) == {"canary-c", "canary-mine"}
    assert stat.S_IMODE(outcome.stat().st_mode) == 0o600
