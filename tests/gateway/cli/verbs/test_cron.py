import re
from pathlib import Path

from tests.gateway.cli.kore import kore


def test_impossible_job_number_is_explained(tmp_path: Path) -> None:
    result = kore("cron", "run", "99999999999999999999", home=tmp_path / "h")
    assert result.returncode == 1
    assert "there is no job 99999999999999999999 here" in result.stderr


def test_help_is_in_the_language_of_the_terminal(tmp_path: Path) -> None:
    environ = {"KORE_AGENT_LANGUAGE": "zh-Hans"}
    for words in (("cron",), ("config",), ("sessions",)):
        result = kore(*words, "--help", home=tmp_path / "h", environ=environ)
        columns = [line.split(None, 1)[1:] for line in result.stdout.splitlines()]
        assert any("一个" in text or "对话" in text for (text,) in filter(None, columns))
        plain = re.compile(r"^ {4,}[a-z]+ {2,}[ -~]+$", re.MULTILINE)
        assert plain.findall(result.stdout) == []


def test_pending_reminder_does_not_disturb_other_verbs(
    tmp_path: Path,
) -> None:
    home = tmp_path / "h"
    assert kore("cron", "add", "daily 09:00", "stand up", home=home).returncode == 0
    assert kore("cron", "run", "1", home=home).returncode == 0
    # Each of these opens the data, and the outbox with it.
    for words in (("sessions", "list"), ("backup", tmp_path / "b.db"), ("pair", "list")):
        result = kore(*words, home=home)
        assert (result.returncode, "not sent" in result.stderr) == (0, False), result.stderr
