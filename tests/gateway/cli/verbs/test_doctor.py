import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

from gateway.store.sqlite.engine import connect
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.outbound_proxy import HttpProxy
from tests.gateway.cli.console.terminal import kore_there
from tests.gateway.cli.kore import kore
from tests.postgres_server import only_sqlite


def states(stdout: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in json.loads(stdout)["checks"]}


def test_fresh_home_passes_without_a_network(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    result = kore("doctor", "--json", home=home)
    assert result.returncode == 0, result.stderr
    states_by_name = states(result.stdout)
    assert states_by_name.pop("model") == "warn"
    if shutil.which("bwrap") is None:
        del states_by_name["sandbox"]
    assert set(states_by_name.values()) == {"ok"}, result.stdout
    lines = kore("doctor", home=home).stdout.splitlines()
    assert all(line[23] == " " and line[24] != " " for line in lines), lines


def test_invalid_config_is_a_finding(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    (home / "config.json").write_text('{"agnet": {}}')
    result = kore("doctor", home=home)
    assert result.returncode == 1
    assert 'agnet: unknown section; did you mean "agent"?' in result.stdout
    assert "python" in result.stdout


def test_encryption_without_a_key_names_the_imported_file(tmp_path: Path) -> None:
    home, file = tmp_path / "h", tmp_path / ".config" / "kore" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("session_db: {encryption: true, path: x.db}\n")
    result = kore("doctor", "--json", home=home, environ={"HOME": str(tmp_path), "KORE_ODD": "1"})
    assert result.returncode == 1
    details = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert details["encryption"]["state"] == "fail"
    for words in (str(file), "KORE_STORE_KEY, which is not set"):
        assert words in details["encryption"]["detail"]
    assert "session_db.path: no equivalent in Kore" in result.stdout
    assert "environment variable KORE_ODD: unknown" in result.stdout
    refused = kore("agent", "-m", "hello", home=home, environ={"HOME": str(tmp_path)})
    assert refused.returncode != 0
    assert str(file) in refused.stderr


async def test_long_finding_is_indented(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    (home / "config.json").write_text('{"telegram": {"nonsense_there": 1}}')
    async with kore_there(home, "doctor") as terminal:
        assert await terminal.ended() == 1
        await terminal.see("clock")
    states_by_name = terminal.text.split("FAIL")[1].split("\nok")[0].splitlines()
    assert len(states_by_name) > 2
    assert all(line.startswith(" " * 24) and line[24] != " " for line in states_by_name[1:])
    assert max(map(len, states_by_name[1:])) <= 80


@only_sqlite
def test_corrupt_database_is_reported_and_unchanged(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    content = b"SQLite format 3\0" + b"nonsense" * 1000
    (home / "kore.db").write_bytes(content)
    (home / "kore.db").chmod(0o600)
    result = kore("doctor", "--json", home=home)
    assert states(result.stdout)["database"] == "fail"
    assert "backup" in result.stdout
    assert (home / "kore.db").read_bytes() == content


def test_intact_database_is_ok(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    connect(home / "kore.db").close()
    (home / "kore.db").chmod(0o644)
    states_by_name = states(kore("doctor", "--json", home=home).stdout)
    assert (states_by_name["database"], states_by_name["home"]) == ("ok", "warn")


@only_sqlite
def test_database_in_use_is_not_a_finding(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    owner = connect(home / "kore.db")
    try:
        result = kore("doctor", home=home)
    finally:
        owner.close()
    assert result.returncode == 0, result.stdout
    assert "kore.db, in use" in result.stdout
    assert "backup" not in result.stdout


def test_missing_key_is_found(tmp_path: Path) -> None:
    result = kore(
        "doctor", "--json", home=tmp_path / "h", environ={"KORE_AGENT_MODEL": "openai/gpt-5"}
    )
    assert states(result.stdout)["model"] == "fail"
    assert "OPENAI_API_KEY" in result.stdout


async def test_live_check_covers_the_bot_and_never_shows_the_token(
    tmp_path: Path, bot_api: BotApi
) -> None:
    for token, state in ((bot_api.token, "ok"), ("999:wrong-canary", "fail")):
        environ = {
            "KORE_TELEGRAM_ENABLED": "true",
            "KORE_TELEGRAM_TOKEN": token,
            "KORE_TELEGRAM_BASE_URL": bot_api.base_url,
            "KORE_AGENT_MODEL": "offline/echo",
        }
        result = await asyncio.to_thread(
            kore, "doctor", "--live", "--json", home=tmp_path / "h", environ=environ
        )
        assert states(result.stdout)["telegram call"] == state, result.stdout
        # The allow list may be empty, because pairing starts that way.
        assert states(result.stdout)["telegram"] == "ok"
        assert token not in result.stdout + result.stderr


async def test_live_check_names_the_proxies_without_their_passwords(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    async with (
        HttpProxy(bot_api.port, "me:hidden-word") as bot_proxy,
        HttpProxy(model_server.port, "me:hidden-word") as model_proxy,
    ):
        environ = {
            "KORE_TELEGRAM_ENABLED": "true",
            "KORE_TELEGRAM_TOKEN": bot_api.token,
            "KORE_TELEGRAM_BASE_URL": "http://bots.example",
            "KORE_TELEGRAM_PROXY": bot_proxy.url,
            "KORE_AGENT_MODEL": "openai/fake",
            "OPENAI_API_KEY": "k-canary",
            "OPENAI_BASE_URL": "http://models.example/v1",
            "HTTP_PROXY": model_proxy.url,
        }
        result = await asyncio.to_thread(
            kore, "doctor", "--live", "--json", home=tmp_path / "h", environ=environ
        )
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert f"http://127.0.0.1:{model_proxy.port}" in checks["model call"]["detail"]
    assert f"http://127.0.0.1:{bot_proxy.port}" in checks["telegram call"]["detail"]
    assert "hidden-word" not in result.stdout + result.stderr


def test_readable_files_are_named_with_the_command_that_fixes_them(
    tmp_path: Path,
) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    kore("agent", "-m", "hi", home=home)
    log = tmp_path / "elsewhere.log"
    log.touch(0o640)
    for path, mode in ((home, 0o755), (home / "logs" / "agent.log", 0o644), (log, 0o640)):
        path.chmod(mode)
    environ = {"KORE_LOGGING_FILE": str(log)}
    result = kore("doctor", "--json", home=home, environ=environ)
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["home"]["detail"] == f"readable by other users: {home} and 1 more"
    assert checks["files"]["detail"] == f"readable by other users: {log}"
    for name in ("home", "files"):
        subprocess.run(["sh", "-c", checks[name]["fix"]], check=True)
    repaired_states = states(kore("doctor", "--json", home=home, environ=environ).stdout)
    assert (repaired_states["home"], repaired_states["files"]) == ("ok", "ok")


def test_policy_file_is_named(tmp_path: Path) -> None:
    home = tmp_path / "h"
    kore("init", "--yes", home=home)
    file = tmp_path / "policy.yaml"
    file.write_text("roles: {build: {tools: {read_file: {}}}}\n")
    environ = {"KORE_SECURITY_POLICY_FILE": str(file)}
    assert str(file) in kore("doctor", home=home, environ=environ).stdout
    file.write_text("roles: {build: {tools: {read_file: {pahts: [x]}}}}\n")
    result = kore("doctor", "--json", home=home, environ=environ)
    assert states(result.stdout)["policy"] == "fail"


def test_check_names_are_separated_from_their_results(tmp_path: Path) -> None:
    result = kore("doctor", "--live", home=tmp_path / "kore")
    # The checks, and so the width of the column, depend on the programs installed here.
    assert re.search(r"model call {2,}not needed offline", result.stdout), result.stdout
    names = [line[6:] for line in result.stdout.splitlines() if line[:6].strip()]
    assert all("  " in name for name in names), result.stdout
