import re
from pathlib import Path

from tests.gateway.cli.kore import kore


def test_a_number_that_no_job_can_have_is_answered(tmp_path: Path) -> None:
    done = kore("cron", "run", "99999999999999999999", home=tmp_path / "h")
    assert done.returncode == 1
    assert "there is no job 99999999999999999999 here" in done.stderr


def test_help_speaks_the_language_of_the_terminal(tmp_path: Path) -> None:
    environ = {"KORE_AGENT_LANGUAGE": "zh-Hans"}
    for words in (("cron",), ("config",), ("sessions",)):
        done = kore(*words, "--help", home=tmp_path / "h", environ=environ)
        told = [line.split(None, 1)[1:] for line in done.stdout.splitlines()]
        assert any("一个" in text or "对话" in text for (text,) in filter(None, told))
        plain = re.compile(r"^ {4,}[a-z]+ {2,}[ -~]+$", re.MULTILINE)
        assert plain.findall(done.stdout) == []


def test_a_reminder_that_waits_for_its_terminal_is_no_trouble_of_other_verbs(
    tmp_path: Path,
) -> None:
    home = tmp_path / "h"
    assert kore("cron", "add", "daily 09:00", "stand up", home=home).returncode == 0
    assert kore("cron", "run", "1", home=home).returncode == 0
    # Each of these opens the data, and the outbox with it.
    for words in (("sessions", "list"), ("backup", tmp_path / "b.db"), ("pair", "list")):
        done = kore(*words, home=home)
        assert (done.returncode, "not sent" in done.stderr) == (0, False), done.stderr
