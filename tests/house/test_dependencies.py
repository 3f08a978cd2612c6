"""Imports of the three packages match their declared dependencies."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from tests.house.tree import PACKAGES, ROOT, parse, python_files, statements


def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return loaded


def test_extras_are_installed_by_the_project_name() -> None:
    """The project `kore` on PyPI is a different one."""
    name, extras = project()["name"], project()["optional-dependencies"]
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "agent" / "languages").glob("*.jsonl")]
    for package in PACKAGES:
        texts += (ROOT / package).rglob("*.py")
    results = [
        (str(path.relative_to(ROOT)), requirement)
        for path in texts
        for requirement in re.findall(r"pip install '([\w-]+\[\w+\])'", path.read_text("utf-8"))
    ]
    assert len(results) > 10
    assert [
        item for item in results if item[1] not in {f"{name}[{extra}]" for extra in extras}
    ] == []


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name, maxsplit=1)[0]).lower()


def imports(path: Path) -> set[str]:
    """Return the top-level packages that a module imports, including imports in functions."""
    results = set()
    for node in statements(parse(path)):
        if isinstance(node, ast.Import):
            results |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            results.add(node.module.split(".")[0])
    return results - sys.stdlib_module_names - set(PACKAGES)


@cache
def imported_distributions() -> dict[str, str]:
    """Return each imported distribution with a module that imports it."""
    owners = packages_distributions()
    extras = project()["optional-dependencies"].values()
    declared = {normal(item) for group in (project()["dependencies"], *extras) for item in group}
    result = {}
    for path in python_files(*PACKAGES):
        for name in imports(path):
            candidates = [normal(owner) for owner in owners.get(name, [name])]
            # Several distributions may share a namespace.
            for owner in [
                candidate for candidate in candidates if candidate in declared
            ] or candidates:
                result[owner] = str(path.relative_to(ROOT))
    return result


def test_imported_packages_are_declared() -> None:
    declared = {normal(dependency) for dependency in project()["dependencies"]}
    extras = project()["optional-dependencies"]
    declared |= {
        normal(item) for name in extras if name not in ("dev", "docs") for item in extras[name]
    }
    assert {
        name: path for name, path in imported_distributions().items() if name not in declared
    } == {}


def test_declared_packages_are_imported() -> None:
    declared = {normal(dependency) for dependency in project()["dependencies"]}
    # The parser's process imports its grammars by name.
    assert declared - imported_distributions().keys() == {"tree-sitter-bash"}


def test_pinned_list_has_every_dependency_but_no_registry() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line)] == []
    pinned = {line.split("==")[0] for line in lines}
    extras = project()["optional-dependencies"].values()
    declared = [*project()["dependencies"], *(item for extra in extras for item in extra)]
    assert {normal(item) for item in declared} - pinned == {project()["name"]}


def test_development_installs_every_extra_of_the_product() -> None:
    extras = project()["optional-dependencies"]
    (own,) = [item for item in extras["dev"] if normal(item) == project()["name"]]
    names = set(own.partition("[")[2].rstrip("]").split(","))
    assert names == extras.keys() - {"dev", "docs"}
