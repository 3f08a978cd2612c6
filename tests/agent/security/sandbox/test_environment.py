"""Toolchains of version managers in a sandbox."""

import shutil
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.environment import command_environment, find_toolchains
from agent.tools.shell.process_group import run
from tests.agent.tools.bubblewrap import installed_bubblewrap


async def test_toolchain_runs_and_its_login_is_hidden(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cargo" / "credentials.toml").write_text("token")
    (home / ".rustup").mkdir()
    (home / ".rustup" / "settings.toml").write_text("version")
    program = home / ".cargo" / "bin" / "hello"
    program.write_text('#!/bin/sh\ncat "$RUSTUP_HOME/settings.toml"; ls "$HOME_HERE/.cargo"')
    program.chmod(0o755)
    box = replace(installed_bubblewrap(), toolchains=find_toolchains(home))
    line = f"HOME_HERE={home} {program}; echo x > {program}"
    output = bytearray()
    with box.prepare(SandboxCommand(line, workspace, workspace)) as spawn:
        await run(spawn, 20, output.extend)
    text = output.decode()
    assert "versionbin\n" in text
    assert "Read-only file system" in text


def test_home_without_toolchains_has_none(tmp_path: Path) -> None:
    toolchains = find_toolchains(tmp_path)
    assert toolchains.folders == ()
    assert toolchains.variables == {}


def test_missing_folder_of_a_toolchain_has_no_variable(tmp_path: Path) -> None:
    program = tmp_path / ".local/bin/uvx"
    program.parent.mkdir(parents=True)
    program.touch()
    toolchains = find_toolchains(tmp_path)
    assert toolchains.folders == (program,)
    assert toolchains.variables == {}
    pythons = tmp_path / ".local/share/uv/python"
    pythons.mkdir(parents=True)
    assert find_toolchains(tmp_path).variables == {"UV_PYTHON_INSTALL_DIR": str(pythons)}


async def test_uvx_runs_a_package(tmp_path: Path) -> None:
    """With a folder of the tools that were installed outside, which the sandbox shows read-only."""
    uvx = shutil.which("uvx")
    if uvx is None:
        pytest.skip("uvx is not installed")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    (home / ".local/share/uv/tools").mkdir(parents=True)
    (home / ".local/bin").mkdir()
    for program in ("uv", "uvx"):
        shutil.copy(Path(uvx).with_name(program), home / ".local/bin" / program)
    package = workspace / "package"
    package.mkdir(parents=True)
    wheel = package / "greeter-1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        metadata = "greeter-1.0.dist-info"
        archive.writestr("greeter.py", "def main():\n    print('good', 'morning')\n")
        archive.writestr(
            f"{metadata}/METADATA", "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(
            f"{metadata}/entry_points.txt", "[console_scripts]\ngreeter = greeter:main\n"
        )
        archive.writestr(f"{metadata}/RECORD", "")
    box = replace(installed_bubblewrap(), toolchains=find_toolchains(home))
    line = f"{home}/.local/bin/uvx --offline --python /usr/bin/python3 --from {wheel} greeter"
    output = bytearray()
    with box.prepare(SandboxCommand(line, workspace, workspace)) as spawn:
        await run(spawn, 60, output.extend)
    assert "good morning" in output.decode()


def test_variables_for_certificates_lead_to_visible_files(tmp_path: Path) -> None:
    hidden = tmp_path / "company.pem"
    hidden.touch()
    shown = tmp_path / "shown"
    shown.mkdir()
    environ = {
        "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
        "SSL_CERT_DIR": "certificates",
        "NODE_EXTRA_CA_CERTS": str(hidden),
        "REQUESTS_CA_BUNDLE": str(shown / "company.pem"),
    }
    variables = command_environment(environ, "/tmp/home", [shown])
    assert variables["SSL_CERT_FILE"] == environ["SSL_CERT_FILE"]
    assert variables["REQUESTS_CA_BUNDLE"] == environ["REQUESTS_CA_BUNDLE"]
    assert "SSL_CERT_DIR" not in variables
    assert "NODE_EXTRA_CA_CERTS" not in variables
