import json
import os
import stat
from pathlib import Path

import pytest

from agent.errors import ConfigError, ToolError
from agent.sandbox import Job
from agent.security.sandbox.choice import Wishes, choose
from agent.security.sandbox.none import Unconfined
from agent.security.sandbox.probe import probe


def program(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH; empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def test_a_probe_sees_that_nothing_confines(home: Path) -> None:
    assert probe(Unconfined(), home) == "a command could read what is outside of its workspace"
    assert list(home.iterdir()) == []


def test_a_program_that_only_claims_to_confine_is_not_trusted(home: Path, programs: Path) -> None:
    # Runs what stands behind the options, and confines nothing.
    program(programs, "bwrap", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    with pytest.raises(ConfigError, match=r"bwrap.*does not work here: a command could read"):
        choose(Wishes("bwrap"), home)


def test_a_failing_program_is_named_with_what_it_said(home: Path, programs: Path) -> None:
    program(programs, "bwrap", "echo no namespaces for you >&2; exit 1")
    with pytest.raises(ConfigError, match=r"it does not start .no namespaces for you"):
        choose(Wishes("bwrap"), home)


def test_a_program_that_cannot_be_started_does_not_work_here(home: Path, programs: Path) -> None:
    program(programs, "bwrap", "").write_text("#!/nowhere/sh\n")
    with pytest.raises(ConfigError, match=r"does not work here: .*bwrap: No such file"):
        choose(Wishes("bwrap"), home)


def test_what_was_tried_is_kept_until_something_changes(home: Path, programs: Path) -> None:
    count = home / "count"
    script = f"echo x >>{count}; echo broken; exit 1"
    file = program(programs, "bwrap", script)
    for _ in range(3):
        with pytest.raises(ConfigError):
            choose(Wishes("bwrap"), home)
    tried = count.read_text()
    with pytest.raises(ConfigError):
        choose(Wishes("bwrap"), home, afresh=True)
    assert len(count.read_text()) == 2 * len(tried)
    os.utime(file, (1, 1))
    with pytest.raises(ConfigError):
        choose(Wishes("bwrap"), home)
    assert len(count.read_text()) == 3 * len(tried)
    assert stat.S_IMODE((home / "sandbox.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "[]", '{"bwrap": 7}', "{broken", '{"bwrap": {"key": 1}}'])
def test_a_damaged_record_is_tried_anew(home: Path, programs: Path, content: str) -> None:
    (home / "sandbox.json").write_text(content)
    program(programs, "bwrap", "echo broken; exit 1")
    with pytest.raises(ConfigError):
        choose(Wishes("bwrap"), home)
    assert json.loads((home / "sandbox.json").read_text())["bwrap"]["failure"]


def test_none_is_what_was_asked_for(home: Path) -> None:
    choice = choose(Wishes("none"), home)
    assert (choice.sandbox.name, choice.sandbox.confines) == ("none", False)
    assert str(choice) == "none, as configured"


def test_root_without_a_sandbox_gets_no_commands(home: Path, programs: Path) -> None:
    choice = choose(Wishes(), home)
    if os.geteuid() != 0:
        assert "bwrap" in choice.failures
        return
    assert not choice.sandbox.confines
    assert set(choice.failures) == {"bwrap", "landlock", "container"}
    with pytest.raises(ToolError, match=r"Install bubblewrap"):
        choice.sandbox.prepare(Job("true", home, home))
    with pytest.raises(ConfigError, match=r"landlock.*root"):
        choose(Wishes("landlock"), home)
