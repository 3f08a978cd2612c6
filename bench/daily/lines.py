"""Definitions in lines.toml and project.toml."""

import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LINES = Path(__file__).with_name("lines.toml")
PROJECT = Path(__file__).with_name("project.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Command line, with the text that it prints and a command that succeeds afterwards."""

    ecosystem: str
    run: str
    output: str = ""
    check: str = "true"
    programs: tuple[str, ...] = ()
    background: bool = False

    @property
    def title(self) -> str:
        """The first line of the command, shortened."""
        first = self.run.splitlines()[0]
        return first if len(first) <= 60 else f"{first[:59]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecosystem:
    """Programs that its lines need, and the command that prepares a project."""

    programs: tuple[str, ...]
    prepare: str = "true"


@dataclass(frozen=True, slots=True)
class Project:
    """Files by their path, and ecosystems by their name."""

    files: Mapping[str, str]
    ecosystems: Mapping[str, Ecosystem]


def read_lines(environment: Path) -> list[Line]:
    """Return the lines; `environment` is the virtual environment outside of the project."""
    text = LINES.read_text("utf-8").replace("{environment}", str(environment))
    entries = tomllib.loads(text)["lines"]
    return [Line(**{**entry, "programs": tuple(entry.get("programs", ()))}) for entry in entries]


def read_project() -> Project:
    content = tomllib.loads(PROJECT.read_text("utf-8"))
    ecosystems = {
        name: Ecosystem(**{**entry, "programs": tuple(entry["programs"])})
        for name, entry in content["ecosystems"].items()
    }
    return Project(content["files"], ecosystems)


def missing_programs(programs: Iterable[str]) -> list[str]:
    return [program for program in programs if shutil.which(program) is None]
