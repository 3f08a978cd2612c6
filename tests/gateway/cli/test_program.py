import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.security.redaction import MARK
from agent.text.display_width import display_width
from gateway.cli.program import complain, run
from gateway.cli.verb_table import VERBS
from tests import postgres_server
from tests.gateway.cli.console.terminal import kore_there
from tests.gateway.cli.kore import ROOT, kore, kore_here

HEAVY = {
    "argparse",
    "typing",
    "shutil",
    "asyncio",
    "logging",
    "wcwidth",
    "pydantic",
    "dataclasses",
    "aiohttp",
    "openai",
    "sqlite3",
    "rich",
}


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (["--version"], HEAVY),
        (["-V"], HEAVY),
        (["--help"], HEAVY - {"argparse", "typing"}),
        (["agnet"], HEAVY - {"argparse", "typing"}),
    ],
)
def test_quick_answers_import_nothing_heavy(words: list[str], forbidden: set[str]) -> None:
    code = (
        "import sys; from gateway.__main__ import main; main(sys.argv[1:]);"
        "print(*sorted(sys.modules), sep=chr(10), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "gateway.__main__" in result.stderr.split()
    assert not forbidden & set(result.stderr.split())


def test_message_without_a_command_starts_no_parser(tmp_path: Path) -> None:
    code = (
        "import sys; from gateway.__main__ import main; code = main(sys.argv[1:]);"
        "print(code, 'agent.security.grammars.parser_process' in sys.modules)"
    )
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "KORE_HOME": str(tmp_path / "home"),
        "KORE_AGENT_MODEL": "offline/echo",
    }
    words = ["agent", "-m", "hi"]
    result = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.splitlines()[-1] == "0 False"


def test_help_uses_the_width_of_the_terminal(tmp_path: Path) -> None:
    narrow = kore("--help", home=tmp_path / "h", environ={"COLUMNS": "50"})
    assert max(map(len, narrow.stdout.splitlines())) <= 50
    wide = kore("--help", home=tmp_path / "h", environ={"COLUMNS": "200"})
    assert len(wide.stdout.splitlines()) < len(narrow.stdout.splitlines())


# Print the help of every verb in a single process, to pay the startup cost only once.
_HELP = """
import contextlib, io, json, sys
from gateway.__main__ import main
texts = {}
for words in json.loads(sys.argv[1]):
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code
    out.flush()
    texts[words[0]] = [code, out.buffer.getvalue().decode()]
print(json.dumps(texts))
"""


def help_of_all(home: Path, **environ: str) -> dict[str, tuple[int, str]]:
    """Return the exit code and the text of `kore --help` and of each verb's help."""
    orders = [["--help"], *([verb.name, "--help"] for verb in VERBS)]
    result = subprocess.run(
        [sys.executable, "-c", _HELP, json.dumps(orders)],
        env={"PATH": os.environ["PATH"], "HOME": str(home.parent), "KORE_HOME": str(home)}
        | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **environ},
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not home.exists()
    return {verb: (code, text) for verb, (code, text) in json.loads(result.stdout).items()}


@pytest.mark.parametrize("tag", ["zh_CN.UTF-8", "zh_TW.UTF-8"])
def test_chinese_help_fits_the_terminal(tmp_path: Path, tag: str) -> None:
    for verb, (_, text) in help_of_all(tmp_path / "h", COLUMNS="60", LANG=tag).items():
        lines = text.splitlines()
        examples = next(lines.index(word) for word in ("示例：", "範例：") if word in lines)
        help_lines = lines[next(n for n, line in enumerate(lines) if not line) : examples]
        options = [line for line in help_lines if line.startswith("    ") or line.startswith("  -")]
        assert any("显示" in line or "顯示" in line for line in options), verb
        assert max(map(display_width, options)) <= 60, verb
        assert not [line for line in lines if line.endswith(":") and not line.isascii()], verb


def test_machine_readable_output_is_english(tmp_path: Path) -> None:
    chinese = {"LANG": "zh_CN.UTF-8"}
    words = ("tools", "list", "--json")
    english = kore(*words, home=tmp_path / "a")
    assert kore(*words, home=tmp_path / "a", environ=chinese).stdout == english.stdout != ""
    assert "verb" not in kore("statsu", home=tmp_path / "a", environ=chinese).stderr


def test_version_and_help_answer_on_stdout(tmp_path: Path) -> None:
    version = kore("--version", home=tmp_path / "h")
    assert (version.returncode, version.stdout.split()[0]) == (0, "kore")
    listing = kore("--help", home=tmp_path / "h")
    assert listing.returncode == 0
    assert all(f"  {verb.name}" in listing.stdout for verb in VERBS)


def test_every_verb_has_examples_in_its_help(tmp_path: Path) -> None:
    for verb, (code, text) in help_of_all(tmp_path / "h", LANG="C.UTF-8").items():
        assert (code, "examples:" in text) == (0, True), verb


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sesions"], 'kore: Unknown command "sesions"; did you mean "sessions"?'),
        (["--nonsense", "status"], "kore: unknown option --nonsense"),
        (["statsu"], 'kore: Unknown command "statsu"; did you mean "status"?'),
        (["statsu", "--json"], 'kore: Unknown command "statsu"; did you mean "status"?'),
        (
            ["what", "is", "this"],
            'kore: Unknown command "what"; put a message in quotes: kore "what is this", or kore',
        ),
        (["hello"], 'kore: Unknown command "hello"; put a message in quotes: kore -p "hello"'),
        (
            ["replay", "x"],
            "kore replay: argument SEQ: found 'x', expected a whole number of at least 1",
        ),
        (["sessions", "list", "-n", "-1"], "kore sessions list: argument -n/--limit: found '-1'"),
        (
            ["config"],
            "kore config: choose a subcommand: validate, show, list, get, set, ",
        ),
        (["models"], "kore models: choose a subcommand: list, test\n"),
        (["sessions", "show"], "kore sessions show: the following arguments are required: ID\n"),
    ],
)
def test_usage_error_is_one_line_with_code_2(
    tmp_path: Path, words: list[str], expected: str
) -> None:
    result = kore(*words, home=tmp_path / "h")
    assert result.returncode == 2
    assert result.stderr.startswith(expected)
    assert "Traceback" not in result.stderr


def test_missing_verb_shows_the_help_as_an_error(tmp_path: Path) -> None:
    result = kore(home=tmp_path / "h")
    assert result.returncode == 2
    assert "usage: kore" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["hello there"],
        ["hello there", "--model", "offline/echo"],
        ["-p", "hello there"],
        ["-m", "hello there"],
        ["--model", "offline/echo", "hello there"],
        ["--model=offline/echo", "-y", "hello there"],
        ["-c", "hello there"],
    ],
)
def test_text_without_a_verb_is_a_message(tmp_path: Path, words: list[str]) -> None:
    result = kore(*words, home=tmp_path / "h")
    assert (result.returncode, result.stdout.splitlines()[-1:]) == (0, ["hello there"]), (
        result.stderr
    )


def test_hints_name_the_running_command(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "kore"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\nimport sys\nfrom gateway.__main__ import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}

    def last_words(command: str, path: str) -> str:
        return subprocess.run(
            [command, "sessions", "resume", "x"],
            cwd=tmp_path,
            env={**environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        ).stderr

    assert "`bin/kore sessions list`" in last_words("bin/kore", environ["PATH"])
    assert "`kore sessions list`" in last_words("bin/kore", f"{script.parent}:{environ['PATH']}")


def test_chinese_text_without_blanks_is_a_message(tmp_path: Path) -> None:
    result = kore("今天怎么样？", home=tmp_path / "h")
    assert (result.returncode, result.stdout.splitlines()[-1:]) == (0, ["今天怎么样？"]), (
        result.stderr
    )


async def test_kore_opens_a_chat_and_c_continues_it(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with kore_there(home) as terminal:
        await terminal.see("quits.")
        terminal.type("the first\r")
        await terminal.see("repeat what you write")
        terminal.type("/exit\r")
        await terminal.see("To resume later: ")
        assert await terminal.ended() == 0
    assert "To resume later: kore -r" in " ".join(terminal.text.split())
    async with kore_there(home, "-c") as terminal:
        await terminal.see("the first")
        await terminal.see("repeat what you write")
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
    result = kore("-c", "and then?", home=home)
    assert result.returncode == 0, result.stderr
    listing = kore("sessions", "list", "--json", home=home)
    assert [load["messages"] for load in json.loads(listing.stdout)] == [4]


def test_global_options_work_before_and_after_the_verb(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"http": {"port": 99}}')
    for words in (["--config", file, "config", "show"], ["config", "show", "--config", file]):
        assert '"port": 99' in kore(*words, home=tmp_path / "h").stdout


def test_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "gateway", "config", "show"],
        env={**os.environ, "KORE_HOME": str(tmp_path / "h"), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert result.stderr == ""


def test_bug_is_reported_in_one_sentence_with_a_private_traceback(tmp_path: Path) -> None:
    home = tmp_path / "h"
    code = (
        "import sys; from pathlib import Path; from gateway.cli.crash_report import CrashReport;"
        "from agent.security.redaction import Redactor;"
        f"r = CrashReport.install(Path({str(home)!r})); r.redactor = Redactor(['hush-4f9Qx2z7']);"
        "raise RuntimeError('wires crossed hush-4f9Qx2z7')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    (log,) = (home / "logs").iterdir()
    assert result.returncode == 1
    assert (
        result.stderr == f"kore: this is a bug in Kore (RuntimeError); the details are in {log}\n"
    )
    assert f"wires crossed {MARK}" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_kore_errors_keep_their_hint_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    from agent.errors import ConfigError, KoreError

    assert complain(KoreError("a is b", hint="do c")) == 1
    assert complain(ConfigError("x\ny")) == 2
    assert capsys.readouterr().err == "kore: a is b\n      do c\nkore: x\nkore: y\n"


def test_run_returns_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "validate", "--nonsense"]) == 2
    assert "unrecognized arguments: --nonsense" in capsys.readouterr().err


def test_closed_pipe_with_open_data_is_not_a_bug(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    assert kore("agent", "-m", "hello", home=home).returncode == 0
    reading, writing = os.pipe()
    os.close(reading)
    own = {"HOME": str(tmp_path), "KORE_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    own |= postgres_server.environ_of(home)
    process = subprocess.run(
        [sys.executable, "-m", "gateway", "sessions", "list"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **own},
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert process.returncode == 1
    assert process.stderr == b""
    assert not list((home / "logs").glob("crash*"))


@pytest.mark.parametrize("words", ["config set agent.model", "agent", "init", "trust", "status"])
def test_closed_streams_cause_no_crash(tmp_path: Path, words: str) -> None:
    home = tmp_path / "h"
    result = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m gateway {words} <&- >&-', sys.executable],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KORE_HOME": str(home)}
        | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode in (0, 1, 2)
    assert "Traceback" not in result.stderr
    assert "bug in Kore" not in result.stderr


@pytest.mark.parametrize("words", [("config", "list"), ("agent", "-m", "hi")])
def test_full_disk_is_reported_in_one_sentence(tmp_path: Path, words: Sequence[str]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "gateway", *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "PYTHONPATH": str(ROOT),
                "KORE_AGENT_MODEL": "offline/echo",
            },
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr.endswith("kore: disk full: [Errno 28] No space left on device\n")
    assert "bug in Kore" not in result.stderr


def test_missing_current_folder_is_reported_in_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    result = subprocess.run(
        ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$0" -m gateway agent -m hi', sys.executable],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("kore: the current folder no longer exists")


def test_windows_is_rejected_with_a_hint() -> None:
    script = (
        "import sys; sys.platform = 'win32'; from gateway.__main__ import main;"
        " sys.exit(main(['agent']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "install it in WSL" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_error_cannot_control_the_terminal(tmp_path: Path) -> None:
    """The error may contain the name of a stranger's file."""
    result = kore("trust", f"{tmp_path}/a\x1b]0;title\x07\u202e", home=tmp_path / "h")
    assert result.returncode != 0
    assert "no such folder" in result.stderr
    assert "a\\u{1b}]0;title\\u{7}\\u{202e}" in result.stderr


@pytest.mark.parametrize("words", [["serve"], ["web"]])
def test_invalid_configuration_stops_long_running_commands(
    tmp_path: Path, words: list[str]
) -> None:
    home = tmp_path / "kore"
    home.mkdir()
    (home / "config.json").write_text('{"agent": {"speed": 3}}')
    result = kore_here(*words, home=home)
    assert result.returncode == 2
    assert "agent.speed" in result.stderr
    assert not (home / "logs").exists()


def test_standby_requires_a_shared_database(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    home.mkdir()
    (home / "config.json").write_text('{"agent": {"model": "offline/echo"}}')
    result = kore_here("gateway", "--standby", home=home)
    assert result.returncode == 2
    assert "store.url" in result.stderr


_READ_ONLY = """
"$0" -m gateway serve --listen-addr auto & pid=$!
until [ -e "$KORE_HOME/server.json" ]; do sleep 0.05; done
mount --bind "$KORE_HOME" "$KORE_HOME" && mount -o remount,ro,bind "$KORE_HOME" || exit 77
kill -TERM $pid
wait $pid
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_file_system_that_became_read_only_causes_no_crash(tmp_path: Path) -> None:
    home = tmp_path / "h"
    result = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", _READ_ONLY, sys.executable],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KORE_HOME": str(home)}
        | {"PYTHONPATH": str(ROOT), "KORE_AGENT_MODEL": "offline/echo"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if result.returncode == 77:
        pytest.skip(f"nothing can be mounted here: {result.stderr}")
    assert "Traceback" not in result.stderr
    assert "bug in Kore" not in result.stderr
    assert result.returncode in (0, 1)
