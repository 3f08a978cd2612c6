import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.errors import ConfigError, ToolError
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.probe import probe
from agent.security.sandbox.selector import SandboxOptions, select_sandbox
from agent.security.sandbox.unconfined import Unconfined

ROOT = Path(__file__).parents[4]


def program(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder in PATH, empty and accessible to all: commands of root run as another
    user."""
    with tempfile.TemporaryDirectory(prefix="kore-programs-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv("PATH", name)
        yield folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def test_probe_detects_missing_confinement(home: Path) -> None:
    assert probe(Unconfined(), home) == "a command could read files outside its workspace"
    assert list(home.iterdir()) == []


def test_ineffective_sandbox_program_is_rejected(home: Path, programs: Path) -> None:
    # Runs the command after the options without confining it.
    program(programs, "bwrap", 'while [ "$1" != -- ]; do shift; done; shift; "$@"')
    # Even so, root's commands can do little, because they do not run as root.
    why = "a command could reach the network" if os.geteuid() == 0 else "a command could read"
    with pytest.raises(ConfigError, match=rf"bwrap.*does not work here: {why}"):
        select_sandbox(SandboxOptions("bwrap"), home)


def test_failing_program_is_reported_with_its_output(home: Path, programs: Path) -> None:
    program(programs, "bwrap", "echo no namespaces for you >&2; exit 1")
    with pytest.raises(ConfigError, match=r"it failed to start .no namespaces for you"):
        select_sandbox(SandboxOptions("bwrap"), home)


def test_unstartable_program_is_reported(home: Path, programs: Path) -> None:
    program(programs, "bwrap", "").write_text("#!/nowhere/sh\n")
    with pytest.raises(ConfigError, match=r"does not work here: .*bwrap: No such file"):
        select_sandbox(SandboxOptions("bwrap"), home)


def test_program_in_a_workspace_is_ignored(
    home: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = home / "ran"
    scripts = programs / "project" / ".venv" / "bin"
    scripts.mkdir(parents=True)
    for name in ("bwrap", "docker", "podman"):
        program(scripts, name, f"echo x >>{ran}")
    monkeypatch.setenv("PATH", f"{scripts}:.")
    with pytest.raises(ConfigError, match=r"bubblewrap is not installed"):
        select_sandbox(SandboxOptions("bwrap", workspaces=(programs / "project",)), home)
    with pytest.raises(ConfigError, match=r"neither docker nor podman"):
        select_sandbox(SandboxOptions("container", workspaces=(programs / "project",)), home)
    assert not ran.exists()


def test_probe_result_is_cached_until_something_changes(home: Path, programs: Path) -> None:
    count = home / "count"
    script = f"echo x >>{count}; echo broken; exit 1"
    file = program(programs, "bwrap", script)
    for _ in range(3):
        with pytest.raises(ConfigError):
            select_sandbox(SandboxOptions("bwrap"), home)
    tried = count.read_text()
    with pytest.raises(ConfigError):
        select_sandbox(SandboxOptions("bwrap"), home, afresh=True)
    assert len(count.read_text()) == 2 * len(tried)
    os.utime(file, (1, 1))
    with pytest.raises(ConfigError):
        select_sandbox(SandboxOptions("bwrap"), home)
    assert len(count.read_text()) == 3 * len(tried)
    assert stat.S_IMODE((home / "sandbox.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "[]", '{"bwrap": 7}', "{broken", '{"bwrap": {"key": 1}}'])
def test_damaged_cache_is_ignored(home: Path, programs: Path, content: str) -> None:
    (home / "sandbox.json").write_text(content)
    program(programs, "bwrap", "echo broken; exit 1")
    with pytest.raises(ConfigError):
        select_sandbox(SandboxOptions("bwrap"), home)
    assert json.loads((home / "sandbox.json").read_text())["bwrap"]["failure"]


def test_configured_none_is_used(home: Path) -> None:
    choice = select_sandbox(SandboxOptions("none"), home)
    assert (choice.sandbox.name, choice.sandbox.confines) == ("none", False)
    assert str(choice) == "none, as configured"


def test_root_without_a_sandbox_cannot_run_commands(home: Path, programs: Path) -> None:
    choice = select_sandbox(SandboxOptions(), home)
    if os.geteuid() != 0:
        assert "bwrap" in choice.failures
        return
    assert not choice.sandbox.confines
    assert set(choice.failures) == {"bwrap", "landlock", "container"}
    with pytest.raises(ToolError, match=r"Install bubblewrap"):
        choice.sandbox.prepare(SandboxCommand("true", home, home))
    with pytest.raises(ConfigError, match=r"landlock.*root"):
        select_sandbox(SandboxOptions("landlock"), home)


_AS_ROOT_IN_A_CONTAINER = """
import sys
from pathlib import Path
from agent.errors import ConfigError
from agent.security.sandbox.selector import SandboxOptions, select_sandbox
try:
    select_sandbox(SandboxOptions("bwrap"), Path(sys.argv[1]))
except ConfigError as exc:
    print(exc, exc.hint, sep="\\n")
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("bwrap"),
    reason="takes root, setpriv and bubblewrap",
)
def test_root_without_mount_permission_gets_advice(home: Path) -> None:
    words = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    words += [sys.executable, "-c", _AS_ROOT_IN_A_CONTAINER, str(home)]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    message, hint = ran.stdout.splitlines()
    assert "root cannot show the workspace to another user here" in message
    assert "file system" not in message
    assert "Run Kore as another user" in message
    assert "run Kore as another user" in hint
    assert "install" not in hint
