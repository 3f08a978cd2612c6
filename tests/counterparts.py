"""Other programs that tests run Kore with: the marker `counterpart` and docs/compatibility.md.

`@pytest.mark.counterpart("gopls")` says which of `COUNTERPARTS` a test meets; its name says what is
tried. `make compatibility` runs these tests and writes the page with the installed versions.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.known_servers import KNOWN_SERVERS
from agent.code.lsp.programs import find_server_program

PAGE = Path(__file__).parents[1] / "docs/compatibility.md"
_INTRODUCTION = """\
# Compatibility

Programs and services of others that the test suite runs Kore with. `make compatibility` writes this
page: it runs these tests and asks each program for its version. A stand-in is a server of our own
that speaks the format of the service, because the service itself cannot run on a test machine.
"""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Another program or a format on the wire.

    Attributes:
        kind: Section of the page.
        program: Name on PATH of the program whose npm or Python package, or whose output for
            `version_args`, has the version; empty for a stand-in or a library.
        library: Python distribution that the tests import.
        speaks: For a stand-in, the version of the format.
    """

    kind: str
    program: str = ""
    version_args: tuple[str, ...] = ()
    library: str = ""
    speaks: str = ""

    def version(self) -> str:
        """Return the version that is installed, or what a stand-in speaks.

        Raises:
            LookupError: The program or library is missing.
        """
        if self.speaks:
            return f"stand-in, {self.speaks}"
        if self.library:
            try:
                return metadata.version(self.library)
            except metadata.PackageNotFoundError:
                raise LookupError(f"the library {self.library} is not installed") from None
        if self.kind == _LSP:
            # The program that Kore would start: several may have the same name.
            (server,) = (item for item in KNOWN_SERVERS if item.command[0] == self.program)
            path = find_server_program(server, ())
        else:
            path = shutil.which(self.program)
        if path is None:
            raise LookupError(f"{self.program} is not on PATH")
        if self.version_args:
            command = [path, *self.version_args]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            number = re.search(r"\d+(\.\d+)+", done.stdout)
            # Debian's gopls has a word instead of a number.
            return number[0] if number else done.stdout.split()[1]
        return _package_version(Path(path).resolve())


def _package_version(program: Path) -> str:
    """Return the version of the npm or Python package that contains `program`."""
    for folder in program.parents:
        if (folder / "package.json").is_file():
            return str(json.loads((folder / "package.json").read_bytes())["version"])
    for site in program.parent.parent.glob("lib/python*/site-packages"):
        for distribution in metadata.distributions(path=[str(site)]):
            scripts = distribution.entry_points.select(group="console_scripts")
            if program.name in {script.name for script in scripts}:
                return distribution.version
    raise LookupError(f"no package contains {program}")


_MCP, _LSP, _MODELS = "MCP servers", "Language servers", "Model servers"
_CLIENTS, _SERVICES = "Editors and clients", "Services"
COUNTERPARTS = {
    "server-everything": Counterpart(_MCP, "mcp-server-everything"),
    "server-filesystem": Counterpart(_MCP, "mcp-server-filesystem"),
    "server-memory": Counterpart(_MCP, "mcp-server-memory"),
    "mcp-server-time": Counterpart(_MCP, "mcp-server-time"),
    "mcp-server-git": Counterpart(_MCP, "mcp-server-git"),
    "pyright": Counterpart(_LSP, "pyright-langserver"),
    "ty": Counterpart(_LSP, "ty", ("--version",)),
    "typescript": Counterpart(_LSP, "typescript-language-server"),
    "tsc": Counterpart(_LSP, "tsc", ("--version",)),
    "clangd": Counterpart(_LSP, "clangd", ("--version",)),
    "gopls": Counterpart(_LSP, "gopls", ("version",)),
    "aimock": Counterpart(_MODELS, "llmock"),
    "LM Studio": Counterpart(_MODELS, speaks="OpenAI's chat completions, REST API v0"),
    "Ollama": Counterpart(_MODELS, speaks="Ollama's API"),
    "llama.cpp": Counterpart(_MODELS, speaks="OpenAI's chat completions"),
    "vLLM": Counterpart(_MODELS, speaks="OpenAI's chat completions"),
    "acpx": Counterpart(_CLIENTS, "acpx"),
    "openai": Counterpart(_CLIENTS, library="openai"),
    "PostgreSQL": Counterpart(_SERVICES, "psql", ("--version",)),
    "nats-server": Counterpart(_SERVICES, "nats-server", ("--version",)),
    "Telegram": Counterpart("Chat platforms", speaks="Bot API 10"),
}


def each_counterpart(names: Iterable[str]) -> list[Any]:
    """Return parameters, each with the marker of its counterpart."""
    return [pytest.param(name, marks=pytest.mark.counterpart(name)) for name in names]


def sentence_of(item: pytest.Item) -> str:
    """Return what a test tries: its name as words."""
    name = getattr(item, "originalname", item.name)
    return str(name).removeprefix("test_").replace("_", " ")


def names_of(item: pytest.Item) -> list[str]:
    """Return the names of an item's counterparts.

    Raises:
        pytest.UsageError: `COUNTERPARTS` has no such name.
    """
    names = [name for marker in item.iter_markers("counterpart") for name in marker.args]
    if unknown := sorted(set(names) - set(COUNTERPARTS)):
        raise pytest.UsageError(f"{item.nodeid}: no counterpart {unknown[0]} in {__name__}")
    return names


@dataclass(slots=True)
class CompatibilityPage:
    """Pytest plugin that writes the page after a run in which nothing failed or was skipped.

    Attributes:
        tried: Sentences by name of the counterpart.
        problems: Tests that did not pass, which keep the page from being written.
    """

    tried: dict[str, set[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if report.when == "call" and report.passed:
            for name in str(properties.get("counterparts", "")).splitlines():
                self.tried.setdefault(name, set()).add(str(properties["tries"]))
        elif not report.passed:
            self.problems.append(f"{report.nodeid}: {report.outcome}")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.problems:
            terminalreporter.write_line(f"{PAGE.name} is not written. Every test must pass:")
            for problem in self.problems:
                terminalreporter.write_line(f"  {problem}")
            return
        PAGE.write_text("\n".join(self._lines()) + "\n")

    def _lines(self) -> Iterator[str]:
        yield f"{_INTRODUCTION}\nLast run: {date.today().isoformat()}."
        for kind in sorted({COUNTERPARTS[name].kind for name in self.tried}):
            names = [name for name in sorted(self.tried) if COUNTERPARTS[name].kind == kind]
            yield f"\n## {kind}\n\n| Counterpart | Version |\n|---|---|"
            for name in names:
                yield f"| {name} | {COUNTERPARTS[name].version()} |"
            yield "\nSeen working:\n"
            for sentence in sorted(set().union(*(self.tried[name] for name in names))):
                with_it = [name for name in names if sentence in self.tried[name]]
                yield f"- {sentence} ({', '.join(with_it)})"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compatibility", action="store_true", help=f"write docs/{PAGE.name}")


def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist reports to the process that started it.
    if config.getoption("compatibility") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CompatibilityPage(), "compatibility-page")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if names := names_of(item):
            item.user_properties += [
                ("counterparts", "\n".join(names)),
                ("tries", sentence_of(item)),
            ]
