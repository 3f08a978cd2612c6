"""Variables for commands: `security.exec_env`."""

import json
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.exec import Exec
from agent.types import ToolCall
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.gateway.config.loading import load

# Has no token format, but is not an ordinary word either.
PASSPHRASE = "Qx7!vT2m$Lr6"
TOKEN = "ghp_Zq8vT2mXw4Lr6Kd1Bn5Yc7Hj3Fs9Pa0Ue"


async def test_variable_reaches_commands(tmp_path: Path) -> None:
    config = {"security": {"exec_env": {"JAVA_HOME": "${JAVA_HOME}", "MODE": "test"}}}
    settings = load(tmp_path, config, environ={"JAVA_HOME": "/opt/jdk-21"})
    assert settings.security.exec_env == {"JAVA_HOME": "/opt/jdk-21", "MODE": "test"}
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    tools = ToolSettings(sandbox=installed_bubblewrap(), exec_env=settings.security.exec_env)
    call = CallContext(
        ToolCall("c1", "exec", {}, "{}"),
        ToolEnvironment("s1", workspace, workspace / "MEMORY.md", owner=True),
        lambda *_: None,
    )
    tool = Exec(tools)
    result = await tool.run({"command": "echo $JAVA_HOME $MODE"}, call)
    assert result.for_model == "/opt/jdk-21 test\n[exit code 0]"
    without = Exec(ToolSettings(sandbox=tools.sandbox))
    bound = [
        await exec_tool.bind(await exec_tool.plan({"command": "x"}, call), {"command": "x"}, call)
        for exec_tool in (tool, without)
    ]
    assert bound[0].confinement != bound[1].confinement


@pytest.mark.parametrize(
    ("variables", "environ"),
    [
        ({"MY_TOKEN": "word"}, {}),
        ({"MODE": TOKEN}, {}),
        ({"PROXY": "http://ann:canary@proxy.example:8080"}, {}),
        ({"MODE": "${GITHUB_TOKEN}"}, {"GITHUB_TOKEN": "canary"}),
        ({"MODE": "Bearer ${GITHUB_TOKEN}"}, {"GITHUB_TOKEN": "canary"}),
    ],
)
def test_secret_is_refused(
    tmp_path: Path, variables: dict[str, str], environ: dict[str, str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {"security": {"exec_env": variables}}, environ=environ)
    assert "secret" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_secret_of_the_secrets_file_is_refused(tmp_path: Path) -> None:
    secrets = tmp_path / "home" / "secrets.json"
    secrets.parent.mkdir()
    secrets.write_text('{"PLAIN": "canary"}')
    secrets.chmod(0o600)
    with pytest.raises(ConfigError, match="holds a secret"):
        load(tmp_path, {"security": {"exec_env": {"MODE": "${PLAIN}"}}})


def model_with_key(key: str) -> dict[str, str]:
    return {"model_name": "m", "model": "openai/gpt-5", "api_key": key}


@pytest.mark.parametrize("text", ["${PLAIN}", "x ${PLAIN}"])
def test_variable_that_a_key_also_uses_is_refused(tmp_path: Path, text: str) -> None:
    config = {"security": {"exec_env": {"MODE": text}}, "model_list": [model_with_key("${PLAIN}")]}
    with pytest.raises(ConfigError, match=r"security\.exec_env\.MODE: holds a secret") as caught:
        load(tmp_path, config, environ={"PLAIN": "canary"})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("text", [PASSPHRASE, f"a={PASSPHRASE};"])
def test_copy_of_a_secret_is_refused(tmp_path: Path, text: str) -> None:
    secrets = tmp_path / "home" / "secrets.json"
    secrets.parent.mkdir()
    secrets.write_text(json.dumps({"PLAIN": PASSPHRASE}))
    secrets.chmod(0o600)
    with pytest.raises(ConfigError, match="holds a secret"):
        load(tmp_path, {"security": {"exec_env": {"MODE": text}}})


def test_word_that_is_also_a_placeholder_for_a_key_is_allowed(tmp_path: Path) -> None:
    config = {"security": {"exec_env": {"MODE": "test"}}, "model_list": [model_with_key("test")]}
    assert load(tmp_path, config).security.exec_env == {"MODE": "test"}


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "BASH_ENV", "https_proxy", "a-b", "1", ""])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="Kore does not set itself"):
        load(tmp_path, {"security": {"exec_env": {name: "x"}}})


def test_project_cannot_set_variables(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot set this"):
        load(tmp_path, project={"security": {"exec_env": {"MODE": "x"}}})
