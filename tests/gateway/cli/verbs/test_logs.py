import json
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue

import pytest

from tests.gateway.cli.kore import ROOT, kore


def line(text: str, level: str = "info", **more: object) -> str:
    entry = {"ts": 1.0, "level": level, "logger": "gateway.x", "text": text, **more}
    return json.dumps(entry) + "\n"


def write_log(home: Path, name: str, *lines: str) -> Path:
    file = home / "logs" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines))
    return file


def test_old_files_come_first_and_only_the_newest_lines_are_shown(tmp_path: Path) -> None:
    home = tmp_path / "h"
    write_log(home, "kore.log.2", line("one"), line("two"))
    write_log(home, "kore.log.1", line("three"))
    write_log(home, "kore.log", line("four", lane="a"), "half a li")
    result = kore("logs", "-n", "3", home=home)
    assert [text.split(" ", 2)[2] for text in result.stdout.splitlines()] == [
        "info    two",
        "info    three",
        "info    four lane=a",
    ]


def test_level_hides_lower_levels(tmp_path: Path) -> None:
    home = tmp_path / "h"
    lines = (line("a", "debug"), line("b"), line("c", "warning"), line("d", "error"))
    write_log(home, "kore.log", *lines)
    result = kore("logs", "--level", "warning", "--json", home=home)
    assert [json.loads(text)["text"] for text in result.stdout.splitlines()] == ["c", "d"]


def test_secrets_and_control_characters_are_not_shown(tmp_path: Path) -> None:
    home = tmp_path / "h"
    write_log(home, "kore.log", line("key sk-canary-4f9Qx2z7 and \x1b[2J"))
    result = kore("logs", home=home, environ={"OPENAI_API_KEY": "sk-canary-4f9Qx2z7"})
    assert "canary" not in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("stamp", ["yesterday", 1e300, [1], None])
def test_line_with_an_odd_time_is_shown(tmp_path: Path, stamp: object) -> None:
    home = tmp_path / "h"
    write_log(home, "kore.log", line("odd", ts=stamp))
    result = kore("logs", home=home)
    assert (result.returncode, result.stdout) == (0, "? info    odd\n")


def test_missing_log_names_the_journal(tmp_path: Path) -> None:
    result = kore("logs", home=tmp_path / "h")
    assert result.returncode == 1
    assert "journalctl" in result.stderr


def test_follow_continues_after_rotation(tmp_path: Path) -> None:
    home = tmp_path / "h"
    file = write_log(home, "kore.log", line("old"))
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "KORE_HOME": str(home)}
    lines: Queue[str] = Queue()
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "logs", "-f"],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        out = following.stdout
        reader = threading.Thread(target=lambda: [lines.put(text) for text in out])
        reader.start()
        try:
            assert "old" in lines.get(timeout=60)
            with file.open("a") as more:
                more.write(line("new"))
            assert "new" in lines.get(timeout=60)
            file.rename(file.with_name("kore.log.1"))
            file.write_text(line("newest"))
            assert "newest" in lines.get(timeout=60)
        finally:
            following.kill()
            reader.join()


def test_invalid_configuration_hides_no_log(tmp_path: Path) -> None:
    """The log explains the broken configuration."""
    home = tmp_path / "h"
    write_log(home, "kore.log", line("still using the last valid configuration", "error"))
    (home / "config.json").write_text('{"agent": {"modl": "x"}}')
    result = kore("logs", home=home)
    assert result.returncode == 0
    assert "still using the last valid configuration" in result.stdout
    assert "agent.modl: unknown key" in result.stderr
