"""`kore service` with a fake systemd; the real systemd checks the unit too."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.cli.program import IN_USE, USAGE
from tests.gateway.cli.kore import kore

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
  *is-active*) echo active;;
  *is-enabled*) echo enabled;;
esac
"""


@pytest.fixture
def systemd(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment whose systemctl records its arguments, with lingering disabled."""
    # Outside of the folder where kore runs, because programs are not looked up there.
    programs = tmp_path_factory.mktemp("bin")
    for name, text in (("systemctl", SYSTEMCTL), ("loginctl", "#!/bin/sh\necho no\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls")}


def unit(tmp_path: Path) -> Path:
    return tmp_path / ".config" / "systemd" / "user" / "kore.service"


def test_service_is_installed_started_and_removed(tmp_path: Path, systemd: dict[str, str]) -> None:
    home = tmp_path / "h"
    result = kore("service", "install", home=home, environ=systemd | {"OPENAI_API_KEY": "sk-7"})
    assert result.returncode == 0, result.stderr
    assert "OPENAI_API_KEY is only exported in this shell" in result.stdout
    assert "sk-7" not in result.stdout + unit(tmp_path).read_text()
    assert "loginctl enable-linger" in result.stdout
    assert f'"--home" "{home}" "gateway"' in unit(tmp_path).read_text()
    calls = Path(systemd["CALLS"]).read_text()
    assert "daemon-reload" in calls
    assert "enable kore.service" in calls
    assert "restart kore.service" in calls
    status = kore("service", "status", "--json", home=home, environ=systemd)
    facts = json.loads(status.stdout)
    assert (facts["installed"], facts["active"], facts["lingers"]) == (True, "active", False)
    gone = kore("service", "uninstall", home=home, environ=systemd)
    assert gone.returncode == 0
    assert not unit(tmp_path).exists()
    assert "disable --now kore.service" in Path(systemd["CALLS"]).read_text()
    assert kore("service", "uninstall", home=home, environ=systemd).returncode == 1


def test_files_named_by_the_environment_are_part_of_the_service(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    environ = {"KORE_CONFIG": str(tmp_path / "mine.json")}
    result = kore("service", "install", "--print", home=tmp_path / "h", environ=environ)
    assert f'"--config" "{tmp_path}/mine.json"' in result.stdout


def test_broken_configuration_is_reported_and_not_installed(
    tmp_path: Path, systemd: dict[str, str]
) -> None:
    home = tmp_path / "h"
    home.mkdir()
    (home / "config.json").write_text('{"agnet": {}}')
    result = kore("service", "install", home=home, environ=systemd)
    assert result.returncode == 2
    assert not unit(tmp_path).exists()


def test_missing_systemd_is_reported_and_print_works(tmp_path: Path) -> None:
    nowhere = {"PATH": str(tmp_path)}
    result = kore("service", "install", home=tmp_path / "h", environ=nowhere)
    assert result.returncode == 1
    assert "systemd not found" in result.stderr
    printed_unit = kore("service", "install", "--print", home=tmp_path / "h", environ=nowhere)
    assert printed_unit.stdout.startswith("[Unit]")
    assert not (tmp_path / "h").exists()


def test_service_restarts_for_data_in_use_but_not_for_usage_errors(
    tmp_path: Path, systemd: dict[str, str]
) -> None:
    kore("service", "install", home=tmp_path / "h", environ=systemd)
    lines = unit(tmp_path).read_text().splitlines()
    assert "Restart=on-failure" in lines
    (never,) = [line for line in lines if line.startswith("RestartPreventExitStatus=")]
    codes = never.partition("=")[2].split()
    assert str(USAGE) in codes
    assert str(IN_USE) not in codes


def test_odd_folder_names_are_escaped(tmp_path: Path) -> None:
    home = tmp_path / 'a %h "b" $HOME'
    printed_unit = kore("service", "install", "--print", home=home)
    assert r"a %%h \"b\" $$HOME" in printed_unit.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    printed_unit = kore("service", "install", "--print", home=tmp_path / "a % b")
    file = tmp_path / "kore.service"
    file.write_text(printed_unit.stdout)
    (tmp_path / "a % b").mkdir()
    result = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    complaints = [line for line in result.stderr.splitlines() if "kore.service" in line]
    assert complaints == []
