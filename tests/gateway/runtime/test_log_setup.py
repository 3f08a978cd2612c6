import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.security.redaction import MARK, Redactor
from gateway.runtime.log_setup import open_logs
from gateway.runtime.secrets import redactor_of
from tests.gateway.config.loading import load

CANARY = "123456:canary-4f9Qx2z7"


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:], root.level = handlers, level


def test_secrets_reach_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "logs" / "kore.log"
    settings = load(tmp_path, {"telegram": {"token": CANARY}})
    redactor = redactor_of(settings, {})
    open_logs(settings, redactor, terminal=True, default_file=file)
    log = logging.getLogger("gateway.test")
    try:
        raise ValueError(f"https://host/bot{CANARY}/getMe")
    except ValueError:
        log.exception("asked %s", CANARY, extra={"url": CANARY, "chat_id": 5})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    shown = capsys.readouterr().err
    assert [line["text"] for line in lines] == [f"asked {MARK}"]
    assert lines[0]["chat_id"] == 5
    assert "ValueError" in lines[0]["traceback"]
    assert f"asked {MARK}" in shown
    assert "canary" not in file.read_text() + shown
    assert file.stat().st_mode & 0o777 == 0o600


def test_level_applies_to_kore_and_other_libraries_are_quiet(tmp_path: Path) -> None:
    file = tmp_path / "k.log"
    settings = load(tmp_path, {"logging": {"level": "info", "file": str(file)}})
    open_logs(settings, Redactor(), terminal=False)
    logging.getLogger("gateway.x").info("ours")
    logging.getLogger("gateway.x").debug("too much")
    logging.getLogger("somebody.else").info("theirs")
    assert [json.loads(line)["text"] for line in file.read_text().splitlines()] == ["ours"]


def test_rotated_files_are_private_and_limited(tmp_path: Path) -> None:
    settings = load(tmp_path, {"logging": {"file_mb": 1, "files_kept": 2}})
    open_logs(settings, Redactor(), terminal=False, default_file=tmp_path / "k.log")
    for n in range(10):
        logging.getLogger("gateway.x").info("line %d %s", n, "x" * 600_000)
    files = list(tmp_path.glob("k.log*"))
    assert len(files) == 3
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
