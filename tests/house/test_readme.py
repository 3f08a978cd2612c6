"""Examples in the pages run: commands as people type them, Python code unchanged."""

import re
import sys
from pathlib import Path

from tests.house.pages import README, blocks, page
from tests.house.shell_blocks import run, surroundings
from tests.house.tree import ROOT

# Commands that run until they are stopped, or ask questions.
LASTING = {
    *("kore agent", "kore gateway", "kore init", "kore channel add telegram"),
    *("kore web", "kore serve"),
}
_KORE = re.compile(r"(?:^|\| )(?:[A-Z_]+=\S+ )*kore\b")
TEXT = README.read_text(encoding="utf-8")


def shell_lines(text: str) -> list[str]:
    """Return the lines of a page's shell blocks, without comments."""
    lines = "".join(blocks(text, "sh")).splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def offline(text: str) -> list[str]:
    """Return the commands that end on their own and need no network."""
    return [line for line in shell_lines(text) if _KORE.search(line) and line not in LASTING]


def test_first_commands_start_a_chat_and_the_tests() -> None:
    assert shell_lines(TEXT)[:2] == ["make chat", "make test"]


def test_commands_in_the_readme_run(tmp_path: Path) -> None:
    commands = offline(TEXT)
    assert len(commands) > 3
    environ = surroundings(tmp_path)
    for command in commands:
        assert run(["sh", "-c", command], ROOT, environ), f"{command} printed nothing"


def test_python_in_the_readme_runs(tmp_path: Path) -> None:
    snippets = blocks(TEXT, "python")
    assert snippets
    environ = surroundings(tmp_path)
    for snippet in snippets:
        assert run([sys.executable, "-W", "error", "-c", snippet], tmp_path, environ)


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) - {"help"}
    described = set(re.findall(r"^\| `make ([a-z-]+)`", page("development"), re.MULTILINE))
    assert described == targets
    shown = set(re.findall(r"(?:`|^)make ([a-z-]+)", TEXT, re.MULTILINE))
    assert shown <= targets
