"""The command line of `kore agent`: what it takes, and what it refuses in one sentence."""

import io
import sys
from pathlib import Path

import pytest

from gateway.__main__ import main


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KORE_HOME", str(tmp_path / "home"))


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    return content


@pytest.mark.parametrize(
    "words",
    [("-r", "-m", "hi"), ("hi", "-m", "ho"), ("-m", "  "), ("-m", "hi", "--cwd", "/no/such/dir")],
)
def test_a_wrong_use_is_one_sentence_and_exit_2(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kore: ")
    assert "Traceback" not in told.err


def test_an_empty_stdin_says_what_to_do(
    stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent"]) == 2
    assert "-m TEXT" in capsys.readouterr().err


def test_stdin_that_never_ends_is_refused(
    stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin.write(b"x" * 1_000_001)
    stdin.seek(0)
    assert main(["agent", "-"]) == 2
    assert "1,000,000" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--max-iter", "0"), ("--max-iter", "x"), ("-c", "-s", "1")])
def test_the_parser_refuses(words: tuple[str, ...]) -> None:
    assert main(["agent", *words, "-m", "hi"]) == 2


def test_a_broken_config_is_one_sentence_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"agent": {"modle": "x"}}')
    assert main(["agent", "-m", "hi", "--config", str(config)]) == 2
    assert "modle" in capsys.readouterr().err
