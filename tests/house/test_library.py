"""Examples in the library's pages run, print the expected output, and pass mypy and pyright."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fork_server
from tests.house.pages import blocks, page, sections
from tests.house.shell_blocks import run, surroundings
from tests.house.tree import ROOT

# Page and section of each example, and its output.
PRINTED = {
    ("library", "One call, or a stream"): "What is in this folder?",
    ("library", "Sessions"): "True",
    ("library", "Sub-agents"): "poet session_start",
    ("library", "Events"): "calls list_dir {'path': '.'}",
    ("library", "A custom provider"): "HELLO",
    ("library-runs", "Model settings"): "Which files are here?",
    ("library-runs", "Dependencies"): "3",
    ("library-runs", "Earlier messages"): "3 messages",
    ("library-runs", "Many inputs"): "2 ",
    ("library-runs", "Goals"): "no verdict: the model gave no verdict on the goal",
    ("library-control", "Hooks"): "calls list_dir",
    ("library-control", "Guardrails"): "no_passwords - it holds a password",
    ("library-control", "Handoffs"): "triage -> billing",
    ("library-runs", "Pictures"): "What is this?",
    ("library-control", "Traces"): "invoke_agent main",
    ("own-tools", "Tools that you run yourself"): "price: 3 euros",
    ("own-tools", "Tools"): "Oslo: sun, 21 degrees C",
    ("own-tools", "Approvals"): "exec - ",
}
# Types of outputs as type checkers infer them for a program that uses the library.
OUTPUT_TYPES = """
from dataclasses import dataclass
from typing import assert_type

import kore


@dataclass
class City:
    name: str


def name_of(city: City) -> str:
    \"\"\"Return the name of a city.\"\"\"
    return city.name


async def main() -> None:
    agent = kore.Agent("offline/echo", tools=[name_of])
    assert_type((await agent.run("where?", output_type=City)).output, City)
    assert_type((await agent.run("where?", output_type=list[City])).output, list[City])
    assert_type((await agent.run("where?")).output, None)
    assert_type((await kore.run("where?", output_type=City)).output, City)
    assert_type(kore.run_sync("where?", output_type=City).output, City)
    for result in (await agent.parallel(["where?"], output_type=City)).all():
        assert_type(result, kore.Result[City])
"""


def examples() -> dict[tuple[str, str], str]:
    """Return the single example of each section that has any."""
    result = {}
    for name in ("library", "library-runs", "library-control", "own-tools"):
        for head, body in sections(page(name)).items():
            if snippets := blocks(body, "python"):
                (result[name, head],) = snippets
    return result


EXAMPLES = examples()


def test_every_example_has_its_expected_output() -> None:
    assert EXAMPLES.keys() == PRINTED.keys()


@pytest.mark.parametrize(("name", "head"), PRINTED)
def test_example_prints_its_expected_output(name: str, head: str, tmp_path: Path) -> None:
    snippet = EXAMPLES[name, head]
    environ = surroundings(tmp_path)
    if head == "One call, or a stream":
        printed = run([sys.executable, "-W", "error", "-c", snippet], tmp_path, environ)
    else:
        strict = f"import warnings\nwarnings.simplefilter('error')\nexec({snippet!r})"
        done = fork_server.run(["python", "-c", strict], cwd=tmp_path, env=environ)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    assert PRINTED[name, head] in printed
    if head == "Approvals":
        assert (tmp_path / "made-by-a-tool").exists()
    if head == "Sessions":
        assert (tmp_path / "chats").is_dir()


def test_provider_is_registered_in_ten_lines() -> None:
    lines = [line for line in EXAMPLES["library", "A custom provider"].splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(("import ", "from ", "print("))]
    assert len(own) <= 10


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Return the paths of all examples."""
    for (name, head), snippet in EXAMPLES.items():
        title = "".join(char if char.isalnum() else "_" for char in head.lower())
        (tmp_path / f"{name.replace('-', '_')}_{title}.py").write_text(snippet)
    (tmp_path / "output_types.py").write_text(OUTPUT_TYPES)
    return list(map(str, sorted([*tmp_path.glob("*.py"), *(ROOT / "examples").glob("*.py")])))


@pytest.mark.slow
def test_examples_are_strictly_typed(sources: list[str]) -> None:
    # The same settings as for `mypy` alone, so that both share the cache of packages.
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml"]
    done = subprocess.run(
        [*command, *sources], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_examples_pass_pyright(sources: list[str]) -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("language server pyright is not installed")
    command = [pyright, "--pythonpath", sys.executable, *sources]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
