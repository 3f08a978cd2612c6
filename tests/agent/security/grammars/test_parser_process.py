"""The parser process: inputs that crash it, its confinement and its shutdown."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.grammars.parser_process import ParserLimits, ParserProcess, decode_tree
from tests.house.tree import ROOT
from tests.processes import is_gone

GRAMMARS = {
    "Bash": ("tree_sitter_bash", "language"),
    "YAML": ("tree_sitter_yaml", "language"),
}
# Overflows the stack of tree-sitter-yaml 0.7.2.
DEADLY_YAML = b"- " * 300 + b"a"


@pytest.fixture
def parser() -> Iterator[ParserProcess]:
    process = ParserProcess(GRAMMARS)
    yield process
    process.close()


def faults(parser: ParserProcess, text: bytes) -> list[list[object]]:
    answer = parser.parse("YAML", text, 1.0, max_faults=5)
    return answer["faults"]


def test_text_that_ends_the_parser_is_not_parsed(parser: ParserProcess) -> None:
    with pytest.raises(ToolError, match="its parser failed"):
        faults(parser, DEADLY_YAML)
    assert faults(parser, b"a: 1\n") == []
    assert faults(parser, b"a: [1\n")


def test_text_that_takes_too_long_is_abandoned(parser: ParserProcess) -> None:
    with pytest.raises(ToolError, match="it took too long"):
        parser.parse("Bash", b"a $(" * 100_000, 0.05)
    with pytest.raises(ToolError, match="in time"):
        parser.parse("Bash", b"a;" * 200_000, 5.0, limit_s=0.001)
    assert faults(parser, b"a: 1\n") == []


def test_stopped_parser_times_out() -> None:
    parser = ParserProcess(GRAMMARS, ParserLimits(wait_s=0.3))
    faults(parser, b"a: 1\n")
    assert parser.pid is not None
    os.kill(parser.pid, signal.SIGSTOP)
    with pytest.raises(ToolError, match="it took too long"):
        faults(parser, b"a: 1\n")
    assert faults(parser, b"a: 1\n") == []
    parser.close()


def test_text_that_takes_all_memory_is_abandoned() -> None:
    parser = ParserProcess(GRAMMARS, ParserLimits(memory_bytes=30_000_000))
    with pytest.raises(ToolError, match="its parser failed"):
        parser.parse("Bash", b"a;" * 200_000, 5.0)
    parser.close()


def test_killed_parser_is_restarted(parser: ParserProcess) -> None:
    faults(parser, b"a: 1\n")
    first = parser.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert faults(parser, b"a: 1\n") == []
    assert parser.pid != first


def test_idle_parser_ends_and_is_restarted() -> None:
    parser = ParserProcess(GRAMMARS, ParserLimits(idle_s=0.01))
    for _ in range(20):
        # The process may be about to end, or have ended.
        assert faults(parser, b"a: 1\n") == []
    assert parser.pid is not None
    os.waitid(os.P_PID, parser.pid, os.WEXITED | os.WNOWAIT)
    assert faults(parser, b"a: 1\n") == []
    parser.close()


def test_threads_get_their_own_results(parser: ParserProcess) -> None:
    def echo(n: int) -> str:
        text = f"echo {n}".encode()
        tree = decode_tree(parser.parse("Bash", text, 1.0, tree=True)["tree"], text)
        (command,) = tree.root.children
        return command.children[1].text.decode()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(echo, range(200))) == [str(n) for n in range(200)]


def test_forked_process_has_its_own_parser(parser: ParserProcess) -> None:
    faults(parser, b"a: 1\n")
    mine = parser.pid
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            text = json.dumps([faults(parser, b"a: 1\n"), parser.pid != mine])
            os.write(writer, text.encode())
        finally:
            parser.close()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert json.load(file) == [[], True]
    os.wait()
    assert faults(parser, b"a: 1\n") == []
    assert parser.pid == mine


async def test_parser_ends_when_kore_is_killed() -> None:
    code = """
import sys, signal
from agent.security.grammars.parser_process import ParserProcess
parser = ParserProcess({"Bash": ("tree_sitter_bash", "language")})
parser.parse("Bash", b"ls", 1.0)
print(parser.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as kore:
        assert kore.stdout is not None
        pid = int(kore.stdout.readline())
        kore.kill()
    assert await is_gone(pid)


def test_missing_grammar_is_named() -> None:
    parser = ParserProcess({"Cobol": ("tree_sitter_cobol", "language")})
    with pytest.raises(ToolError, match="Cobol needs the extra code"):
        parser.parse("Cobol", b"", 1.0)
    parser.close()


# A hostile grammar: on import it replaces the encoder of answers, which runs for each text.
_TAKEN_OVER = """
import ctypes, json, os, socket

libc = ctypes.CDLL(None, use_errno=True)
encode = json.dumps

def attempt(work):
    try:
        return repr(work())
    except OSError as exc:
        return "refused"

def dumps(answer):
    if "missing" in answer:
        return encode(answer)
    return encode({
        "open": attempt(lambda: os.open("/etc/passwd", os.O_RDONLY)),
        "create": attempt(lambda: os.open("/tmp/taken-over", os.O_CREAT | os.O_WRONLY)),
        "socket": attempt(socket.socket),
        "fork": attempt(os.fork),
        "list": attempt(lambda: os.listdir("/")),
        "kill": attempt(lambda: os.kill(os.getppid(), 0)),
        "execute": attempt(lambda: os.execv("/bin/true", ["true"])),
        "descriptors": attempt(lambda: os.dup(0)),
    })

json.dumps = dumps
from tree_sitter_bash import language
"""


def test_compromised_parser_cannot_reach_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken_over").mkdir()
    (tmp_path / "taken_over" / "__init__.py").write_text(_TAKEN_OVER)
    monkeypatch.syspath_prepend(tmp_path)
    parser = ParserProcess({"Bash": ("taken_over", "language")})
    attempts = parser.parse("Bash", b"ls", 1.0)
    parser.close()
    assert len(attempts) == 8
    assert set(attempts.values()) == {"refused"}
    assert not Path("/tmp/taken-over").exists()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"names": [None, "word"], "nodes": [1, 0, 9, 1, 0, 0], "has_error": False},
        {"names": [None, "word"], "nodes": [1, 2, 1, 1, 0, 0], "has_error": False},
        {"names": [None, "word"], "nodes": [1, 0, 2, 1, 0, 7], "has_error": False},
        {"names": [None, "word"], "nodes": [1, 0, 2, 1, 0, -1], "has_error": False},
        {"names": [None, "word"], "nodes": [8, 0, 2, 1, 0, 0], "has_error": False},
        {"names": [None, "word"], "nodes": [1, 0, 2, 1, 0, 0] * 2, "has_error": False},
        {"names": [None, "word"], "nodes": ["x", 0, 2, 1, 0, 0], "has_error": False},
        {"names": None, "nodes": 7},
    ],
)
def test_invalid_tree_is_rejected(data: dict[str, object]) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        decode_tree(data, b"ls")


def test_parser_inherits_nothing_from_kore(parser: ParserProcess) -> None:
    faults(parser, b"a: 1\n")
    folder = Path(f"/proc/{parser.pid}")
    assert (folder / "environ").read_bytes().split(b"\0")[:-1] == [
        b"PATH=/usr/bin:/bin", b"LANG=C.UTF-8"
    ]  # fmt: skip
    assert sorted(os.listdir(folder / "fd")) == ["0", "1", "2"]
    status = (folder / "status").read_text()
    assert "Seccomp:\t2\n" in status
    assert "NoNewPrivs:\t1\n" in status


def test_grammars_are_not_loaded_in_the_main_process(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from agent.code.symbols.outline import outline
from agent.code.symbols.tags import tags_of
from agent.security.shell.parser import parse_script
assert outline("class A: ...\\n", Path("a.py")) == "1 class A: ..."
assert tags_of(b"class A: ...\\n", Path("a.py")).definitions
assert parse_script("ls | cat").opaque_reason is None
loaded = [name for name in sys.modules if name.startswith("tree_sitter")]
mapped = [line for line in open("/proc/self/maps") if "tree_sitter" in line]
assert not loaded and not mapped, (loaded, mapped)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True)
