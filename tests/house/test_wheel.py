"""The wheel contains the code, prompts, SQL and the starter workspace."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.tree import PACKAGES, ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of all files in a freshly built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def source_files(folder: str, suffix: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(f"*{suffix}")}


def test_wheel_contains_every_module_prompt_and_migration(wheel: set[str]) -> None:
    expected_files = {
        name
        for package in PACKAGES
        for suffix in (".py", ".md", ".sql", ".toml", ".typed", ".jsonl")
        for name in source_files(package, suffix)
    }
    assert expected_files - wheel == set()
    assert any(name.endswith(".sql") for name in wheel)
    assert any(name.startswith("agent/prompts/") and name.endswith(".md") for name in wheel)


def test_wheel_contains_the_starter_workspace_as_gateway_data(wheel: set[str]) -> None:
    starter = ROOT / "workspace"
    expected_files = {
        str(Path("gateway/starter") / path.relative_to(starter))
        for path in starter.rglob("*")
        if path.is_file()
    }
    assert "gateway/starter/memory/MEMORY.md" in expected_files
    assert expected_files - wheel == set()


def test_wheel_is_marked_as_typed(wheel: set[str]) -> None:
    assert {"kore/py.typed", "agent/py.typed"} <= wheel


def test_wheel_has_no_other_top_level_names(wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_wheel_has_its_license_and_its_command(wheel: set[str]) -> None:
    assert any(name.endswith("/LICENSE") for name in wheel)
    assert any(name.endswith("/entry_points.txt") for name in wheel)
