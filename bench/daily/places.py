"""The project in four places: a main checkout, a linked worktree, a submodule and a subfolder."""

import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from bench.daily.lines import Project

_MODULE = "example.org/kore-daily"
_VERSION = "v1.0.0"
_TIMEOUT_S = 300


def make_places(folder: Path, project: Project, env: Mapping[str, str]) -> dict[str, Path]:
    """Create the places in a folder; return the project's folder in each place by name."""
    origin = folder / "origin"
    _write(origin, project.files)
    _git(env, origin, "init", "-q", "-b", "main")
    _git(env, origin, "add", "-A")
    _git(env, origin, "commit", "-q", "-m", "Add the shop")
    (origin / "NOTES.md").write_text("Prices are in cents.\n")
    _git(env, origin, "add", "-A")
    _git(env, origin, "commit", "-q", "-m", "Add notes")
    _git(env, folder, "clone", "-q", origin, "main")
    _git(env, folder, "clone", "-q", origin, "elsewhere")
    _git(env, folder / "elsewhere", "worktree", "add", "-q", "../worktree", "-b", "work")
    outer = folder / "outer"
    _git(env, folder, "init", "-q", "-b", "main", outer)
    local = ("-c", "protocol.file.allow=always")
    _git(env, outer, *local, "submodule", "add", "-q", origin, "shop")
    _git(env, outer, "commit", "-q", "-m", "Add the shop as a submodule")
    whole = folder / "whole"
    _write(whole / "services/shop", project.files)
    _git(env, folder, "init", "-q", "-b", "main", whole)
    _git(env, whole, "add", "-A")
    _git(env, whole, "commit", "-q", "-m", "Add the services")
    (whole / "NOTES.md").write_text("One folder for each service.\n")
    _git(env, whole, "add", "-A")
    _git(env, whole, "commit", "-q", "-m", "Add notes")
    return {
        "main checkout": folder / "main",
        "linked worktree": folder / "worktree",
        "submodule": outer / "shop",
        "subfolder": whole / "services/shop",
    }


def make_go_proxy(folder: Path) -> None:
    """Create a folder that Go can download the module of the project from."""
    versions = folder / _MODULE / "@v"
    versions.mkdir(parents=True)
    manifest = f"module {_MODULE}\n\ngo 1.18\n"
    (versions / "list").write_text(f"{_VERSION}\n")
    (versions / f"{_VERSION}.mod").write_text(manifest)
    (versions / f"{_VERSION}.info").write_text(f'{{"Version":"{_VERSION}"}}')
    with zipfile.ZipFile(versions / f"{_VERSION}.zip", "w") as archive:
        archive.writestr(f"{_MODULE}@{_VERSION}/go.mod", manifest)
        archive.writestr(f"{_MODULE}@{_VERSION}/money.go", "package money\n\nconst Rate = 119\n")


def forget_go_module(home: Path) -> None:
    """Remove the module of the project from the caches in a home folder."""
    owner, _, name = _MODULE.partition("/")
    cache = home / "go/pkg/mod"
    for folder in (cache / "cache/download" / _MODULE, cache / owner / f"{name}@{_VERSION}"):
        # Go makes its modules read-only.
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


def run_line(line: str, folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a line in bash; return its exit code and its output."""
    try:
        ran = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"not done within {_TIMEOUT_S} s"
    return ran.returncode, ran.stdout.decode("utf-8", "replace")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _git(env: Mapping[str, str], folder: Path, *words: str | Path) -> None:
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
