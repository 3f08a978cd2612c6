"""The example channel package can be installed, checked and used without changes to Kore."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.gateway.cli.kore import kore
from tests.gateway.parts import wait_until
from tests.house.tree import ROOT

EXAMPLE = ROOT / "examples" / "echo_channel"
INFO = {
    "METADATA": "Metadata-Version: 2.1\nName: kore-channel-echo\nVersion: 1.0\n",
    "entry_points.txt": "[kore.channels]\necho = kore_channel_echo:SPEC\n",
}


PROGRAM = """
import sys
from gateway.__main__ import main
sys.path[:0] = sys.argv[1].split(":")
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def site(tmp_path: Path) -> str:
    """Return the search path on which the package is installed."""
    info = tmp_path / "site" / "kore_channel_echo-1.0.dist-info"
    info.mkdir(parents=True)
    for name, text in INFO.items():
        (info / name).write_text(text)
    return f"{tmp_path / 'site'}:{EXAMPLE}"


@asynccontextmanager
async def echo_server() -> AsyncIterator[tuple[Any, Any, dict[str, Any]]]:
    """Yield the fake from the package's own test, its address, and an update."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        stand_ins = import_module("test_kore_channel_echo")
    finally:
        sys.path.remove(str(EXAMPLE))
    async with stand_ins.server() as (server, section):
        yield server, section.address, stand_ins.UPDATE


async def run(
    home: Path, site: str, *words: str, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "KORE_HOME": str(home)}
    return await asyncio.to_thread(
        fork_server.run,
        ["python", "-c", PROGRAM, site, *words],
        cwd=home.parent,
        env=environ,
        stdin=stdin,
    )


def test_example_has_at_most_150_lines() -> None:
    assert len((EXAMPLE / "kore_channel_echo.py").read_text().splitlines()) <= 150


async def test_channel_of_a_package_is_set_up_and_answers(tmp_path: Path, site: str) -> None:
    home = tmp_path / "kore"
    async with echo_server() as (server, address, update):
        wrong = await run(home, site, "channel", "add", "echo", stdin=f"{address}\nno\n")
        assert wrong.returncode == 1
        assert "Echo refused this token" in wrong.stderr
        added = await run(
            home, site, "channel", "add", "echo", "--no-wait", stdin=f"{address}\nright\n"
        )
        assert added.returncode == 0, added.stderr
        assert "Write this to kore in Echo:\n  /start " in added.stdout
        config = json.loads((home / "config.json").read_text())
        assert config["python_plugins"]["echo"]["token"] == "${ECHO_TOKEN}"
        assert json.loads((home / "secrets.json").read_text()) == {"ECHO_TOKEN": "right"}

        config["agent"] = {"model": "offline/echo"}
        config["python_plugins"]["echo"]["allow_from"] = ["7"]
        config["python_plugins"]["echo"]["chats"] = {"c1": {"persona": "Brief."}}
        (home / "config.json").write_text(json.dumps(config))
        checked = await run(home, site, "doctor", "--live", "--json")
        checks = {
            (check["name"], check["detail"]) for check in json.loads(checked.stdout)["checks"]
        }
        assert ("echo", f"plain text to {address}") in checks
        assert ("echo call", "kore") in checks

        server.updates.append(update)
        gateway = await fork_server.start_piped(
            ["python", "-c", PROGRAM, site, "gateway"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "KORE_HOME": str(home)}
            | {"KORE_HTTP_PORT": "0", "KORE_SECURITY_SANDBOX": "none"},
        )
        try:
            await wait_until(lambda: server.received)
            assert server.received[0]["chat"] == "c1"
            listed = await run(home, site, "channel", "list", "--json")
            assert json.loads(listed.stdout) == [
                {"channel": "echo", "account": "main", "state": "polling", "trouble": None}
            ]
        finally:
            gateway.terminate()
            await asyncio.wait_for(gateway.communicate(), 30)


async def test_settings_of_a_package_are_listed_checked_and_changed_like_built_in_ones(
    tmp_path: Path, site: str
) -> None:
    home = tmp_path / "kore"
    home.mkdir()
    file = home / "config.json"
    file.write_text(json.dumps({"python_plugins": {"echo": {"queue": "steer"}}}))

    listed = await run(home, site, "config", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    rows = {row["key"]: row for row in json.loads(listed.stdout)}
    assert rows["python_plugins.echo.queue"]["value"] == "steer"
    assert rows["python_plugins.echo.queue"]["from"] == str(file)
    assert rows["python_plugins.echo.address"] == {
        "key": "python_plugins.echo.address",
        "value": "127.0.0.1:7007",
        "from": "default",
        "help": "`HOST:PORT` of the server",
    }
    got = await run(home, site, "config", "get", "python_plugins.echo.trace")
    assert got.stdout == "off\n"

    misspelt = await run(home, site, "config", "set", "python_plugins.echo.adress", "x:1")
    assert misspelt.returncode == 2
    assert 'python_plugins.echo.adress: unknown key; did you mean "address"?' in misspelt.stderr
    wrong = await run(home, site, "config", "set", "python_plugins.echo.queue", "later")
    assert wrong.returncode == 2
    assert '"join", "queue" or "steer"' in wrong.stderr
    changed = await run(home, site, "config", "set", "python_plugins.echo.address", "7008")
    assert changed.returncode == 0, changed.stderr
    secret = await run(
        home, site, "config", "set", "python_plugins.echo.token", stdin="secret-word\n"
    )
    assert secret.returncode == 0, secret.stderr
    written = json.loads(file.read_text())["python_plugins"]["echo"]
    assert written["address"] == "7008"
    assert written["token"].startswith("${")
    hidden = await run(home, site, "config", "get", "python_plugins.echo.token")
    assert "secret-word" not in hidden.stdout


async def test_misspelt_key_of_a_package_is_reported_and_repaired(
    tmp_path: Path, site: str
) -> None:
    home = tmp_path / "kore"
    home.mkdir()
    file = home / "config.json"
    file.write_text(json.dumps({"python_plugins": {"echo": {"adress": "127.0.0.1:7"}}}))
    sentence = f'{file}: python_plugins.echo.adress: unknown key; did you mean "address"?'
    checked = await run(home, site, "config", "validate")
    assert checked.returncode == 2
    assert sentence in checked.stderr
    examined = await run(home, site, "doctor", "--json")
    assert sentence in {check["detail"] for check in json.loads(examined.stdout)["checks"]}
    await run(home, site, "doctor", "--fix", "--yes")
    assert json.loads(file.read_text())["python_plugins"] == {"echo": {"address": "127.0.0.1:7"}}


async def test_package_is_not_imported_while_its_channel_is_disabled(
    tmp_path: Path, site: str
) -> None:
    home = tmp_path / "kore"
    home.mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "kore_channel_echo.py").write_text("raise SystemExit('imported')\n")
    site = f"{broken}:{site}"
    options = {"enabled": False, "adress": "127.0.0.1:7"}
    (home / "config.json").write_text(json.dumps({"python_plugins": {"echo": options}}))
    checked = await run(home, site, "config", "validate")
    assert checked.returncode == 0, checked.stderr
    listed = await run(home, site, "config", "list", "--json")
    rows = {row["key"]: row["value"] for row in json.loads(listed.stdout)}
    assert rows["python_plugins"] == {"echo": options}


def test_skeleton_is_a_package_with_tests_that_pass(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    done = kore(
        "channel", "new", "my_chat", "--folder", str(folder), home=tmp_path / "kore", environ={}
    )
    assert done.returncode == 0, done.stderr
    assert "kore_channel_my_chat.py" in done.stdout
    texts = [path.read_text() for path in folder.iterdir()]
    assert not any("echo" in text.lower() for text in texts)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": f"{folder}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    again = kore(
        "channel", "new", "my_chat", "--folder", str(folder), home=tmp_path / "kore", environ={}
    )
    assert again.returncode == 1
    assert "cannot be written" in again.stderr
