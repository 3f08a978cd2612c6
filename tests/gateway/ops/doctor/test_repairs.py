"""Repairs of `kore doctor --fix` in real folders, and their limits."""

import json
import socket
from pathlib import Path

import pytest

from gateway.ops.doctor.repairs import find_repairs
from gateway.runtime.paths import DataDir
from tests.gateway.cli.console.terminal import kore_there
from tests.gateway.cli.kore import kore


def repair(home: DataDir) -> list[str]:
    results = []
    for remedy in find_repairs(home, home.config, home.workspace):
        remedy.act()
        results.append(remedy.sentence)
    return results


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    home = DataDir(tmp_path / "h")
    repair(home)
    return home


def test_missing_folders_are_created_once(home: DataDir) -> None:
    assert home.logs.is_dir()
    assert (home.workspace / "SOUL.md").is_file()
    assert repair(home) == []


def test_modes_are_tightened_except_for_links_and_the_workspace(
    home: DataDir, tmp_path: Path
) -> None:
    home.secrets.write_text("{}")
    for path, mode in ((home.root, 0o755), (home.secrets, 0o644), (home.workspace, 0o755)):
        path.chmod(mode)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(0o644)
    (home.root / "link").symlink_to(elsewhere)
    assert len(repair(home)) == 2
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert home.secrets.stat().st_mode & 0o777 == 0o600
    assert home.workspace.stat().st_mode & 0o777 == 0o755
    assert elsewhere.stat().st_mode & 0o777 == 0o644


def test_misspelt_key_is_corrected_if_the_right_one_is_free(home: DataDir) -> None:
    text = '{\n  "agnet": {"model": "offline/echo"},\n  "http": {"prot": 1, "port": 2},'
    home.config.write_text(text + '\n  "telegram": {"enabeld": false, "zzz": 1}\n}\n')
    home.config.chmod(0o600)
    texts = repair(home)
    assert len(texts) == 2
    assert json.loads(home.config.read_text()) == {
        "agent": {"model": "offline/echo"},
        "http": {"prot": 1, "port": 2},
        "telegram": {"enabled": False, "zzz": 1},
    }


def test_only_an_unused_socket_is_removed(home: DataDir) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
        listener.listen()
        home.socket.chmod(0o600)
        assert repair(home) == []
    assert len(repair(home)) == 1
    assert not home.socket.exists()


def test_repair_without_a_terminal_needs_yes(home: DataDir) -> None:
    home.root.chmod(0o755)
    assert kore("doctor", "--fix", home=home.root).returncode == 2
    assert home.root.stat().st_mode & 0o777 == 0o755
    done = kore("doctor", "--fix", "--yes", "--json", home=home.root)
    states = {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}
    assert states["home"] == "ok"
    assert "fixed" in done.stderr


async def test_person_is_asked_about_each_repair(home: DataDir) -> None:
    home.root.chmod(0o755)
    home.logs.chmod(0o755)
    async with kore_there(home.root, "doctor", "--fix") as terminal:
        await terminal.see("[Y/n]")
        terminal.type("n\r")
        await terminal.see("[Y/n]")
        terminal.type("\r")
        await terminal.see("fixed")
        await terminal.ended()
    assert home.root.stat().st_mode & 0o777 == 0o755
    assert home.logs.stat().st_mode & 0o777 == 0o700
