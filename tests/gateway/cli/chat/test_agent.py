"""Command line of `kore agent`: accepted options, and errors in one sentence."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from pathlib import Path
from pstats import Stats

import pytest

from gateway.__main__ import main
from gateway.cli.chat.agent import appended_input
from tests import fork_server


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
def test_usage_error_is_one_sentence_with_exit_2(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("kore: ")
    assert "Traceback" not in output.err


def test_empty_stdin_is_explained(stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent"]) == 2
    assert "-m TEXT" in capsys.readouterr().err


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the write end of a pipe to stdin."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as stdin, open(writer, "wb", buffering=0) as file:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield file.fileno()


def test_open_silent_stdin_does_not_block(pipe: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert appended_input(0.05, 0.1) == ""
    assert "nothing has come on stdin yet" in capsys.readouterr().err


def test_input_during_the_notice_is_read(pipe: int, capsys: pytest.CaptureFixture[str]) -> None:
    def write_late() -> None:
        while "nothing has come" not in sys.stderr.getvalue():  # type: ignore[attr-defined]
            pass
        os.write(pipe, b"late")
        os.dup2(os.open(os.devnull, os.O_WRONLY), pipe)

    with redirect_stderr(io.StringIO()), ThreadPoolExecutor() as pool:
        writing = pool.submit(write_late)
        assert appended_input(0.05, 60) == "late"
        writing.result()


def test_pipe_with_content_is_read_to_its_end(
    pipe: int, capsys: pytest.CaptureFixture[str]
) -> None:
    os.write(pipe, b"content")
    os.dup2(os.open(os.devnull, os.O_WRONLY), pipe)
    assert appended_input(60, 60) == "content"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stdin", [None, "content", ""], ids=["null", "content", "empty"])
def test_closed_stdin_is_read_without_a_notice(tmp_path: Path, stdin: str | None) -> None:
    words = [sys.executable, "-m", "gateway", "agent", "--model", "offline/echo", "-p", "hi"]
    environ = {"PATH": os.environ["PATH"], "KORE_HOME": str(tmp_path / "home")}
    source = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    result = subprocess.run(words, env=environ, capture_output=True, text=True, **source)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stderr
    assert ("content" in result.stdout) == (stdin == "content")
    assert "stdin" not in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--output-schema", "none.json"), "no such file"),
        (("--output-schema", "schema.json", "--output-format", "stream-json"), "--output-schema"),
        (("--output-schema", "schema.json", "--init"), "--output-schema"),
        (("--fail-on-denied", "--auto-continue"), "--fail-on-denied"),
    ],
)
def test_invalid_flags_of_a_single_turn_are_rejected(
    tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "schema.json").write_text("{}")
    result = kore(tmp_path / "home", *words, "-m", "hi")
    assert result.returncode == 2
    assert expected in result.stderr


def test_schema_with_an_unknown_type_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"properties": {"risk": {"type": "strin"}}}')
    result = kore(tmp_path / "home", "--output-schema", "schema.json", "-m", "hi")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--output-schema schema.json: properties.risk.type must be one of" in result.stderr
    assert 'found "strin"' in result.stderr


def test_answer_that_violates_the_schema_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "integer"}')
    result = kore(tmp_path / "home", "--output-schema", "schema.json", "-m", "hi")
    assert (result.returncode, result.stdout) == (1, "")
    assert "(bad-output)" in result.stderr


def test_denied_call_of_a_real_turn_is_listed(tmp_path: Path) -> None:
    text = '!tool exec {"command": "echo it-ran > proof"}'
    words = ("--fail-on-denied", "--output-format", "json")
    result = kore(tmp_path / "home", *words, "-m", text)
    assert result.returncode == 6
    (denied,) = json.loads(result.stdout)["denied"]
    assert denied["tool"] == "exec"
    assert denied["arguments"] == {"command": "echo it-ran > proof"}
    assert "nobody can be asked" in denied["reason"]
    assert kore(tmp_path / "home", "-y", *words, "-m", text).returncode == 0


def test_endless_stdin_is_rejected(stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    stdin.write(b"x" * 1_000_001)
    stdin.seek(0)
    assert main(["agent", "-"]) == 2
    assert "1,000,000" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--max-iter", "0"), ("--max-iter", "x"), ("-c", "-s", "1")])
def test_invalid_arguments_are_rejected(words: tuple[str, ...]) -> None:
    assert main(["agent", *words, "-m", "hi"]) == 2


def test_invalid_config_is_one_sentence_with_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"agent": {"modle": "x"}}')
    assert main(["agent", "-m", "hi", "--config", str(config)]) == 2
    assert "modle" in capsys.readouterr().err


def kore(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return fork_server.run(
        ["agent", "--model", "offline/echo", *words],
        cwd=home.parent,
        env={"PATH": os.environ["PATH"], "KORE_HOME": str(home), "KORE_SECURITY_SANDBOX": "none"},
    )


def test_real_turn_answers_only_on_stdout(tmp_path: Path) -> None:
    result = kore(tmp_path / "home", "-m", "hello there")
    assert (result.returncode, "hello there" in result.stdout) == (0, True)
    assert "kore:" not in result.stderr


def test_stand_in_is_not_announced_for_another_model(tmp_path: Path) -> None:
    result = kore(tmp_path / "home", "-m", "hi", "--model", "openai/gpt-5")
    assert (result.returncode, result.stdout) == (2, "")
    assert "OPENAI_API_KEY" in result.stderr
    assert "stand-in" not in result.stderr


def test_real_command_needs_approval_or_auto(tmp_path: Path) -> None:
    text = '!tool exec {"command": "echo it-ran > proof"}'
    denied = kore(tmp_path / "home", "-m", text)
    assert "nobody can be asked" in denied.stdout
    assert "`-y`" in denied.stderr
    proof = tmp_path / "home" / "workspace" / "proof"
    assert not proof.exists()
    assert kore(tmp_path / "home", "-y", "-m", text).returncode == 0
    assert proof.read_text() == "it-ran\n"


def test_interrupt_ends_a_real_turn_with_130(tmp_path: Path) -> None:
    text = '!tool exec {"command": "sleep 60"}'
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", "agent", "--model", "offline/echo", "-y", "-m", text],
        env={"PATH": os.environ["PATH"], "KORE_HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        while "sleep 60" not in (line := process.stderr.readline()):
            assert line, "the turn ended before its tool had begun"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Stopped" in err
    assert "Traceback" not in err


def test_question_of_the_model_prints_its_options_and_exits_with_4(
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = '!tool ask_user {"questions": [{"question": "Which?", "options": ["red", "blue"]}]}'
    assert main(["agent", "--model", "offline/echo", "-m", question]) == 4
    assert capsys.readouterr().out == "Which?\n\n1. red\n2. blue\n"


def test_run_profile_is_written(tmp_path: Path) -> None:
    file = tmp_path / "run.prof"
    result = kore(tmp_path / "h", "--profile", str(file), "-m", "hi")
    assert result.returncode == 0, result.stderr
    functions = {name for _, _, name in Stats(str(file)).stats}  # type: ignore[attr-defined]
    assert "_once" in functions
