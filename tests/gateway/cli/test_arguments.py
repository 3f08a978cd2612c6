"""Table of verbs and the arguments that are declared separately from their implementation."""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import get_args

import pytest

from agent.security.sandbox.selector import SandboxName
from gateway.cli import arguments
from gateway.cli.verb_table import VERBS, Verb
from tests.gateway.cli.kore import ROOT


def functions_of(verb: Verb) -> Iterator[str]:
    """Yield the dotted paths of the verb and of the subcommands that have their own."""
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    yield verb.function
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield subparser.get_default("function") or verb.function


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_functions_of_a_verb_exist(verb: Verb) -> None:
    for path in functions_of(verb):
        module, _, name = path.partition(":")
        assert callable(getattr(import_module(module), name))


def test_choices_match_their_definitions() -> None:
    assert get_args(SandboxName) == arguments.SANDBOXES


@pytest.mark.parametrize(
    "words", [["completion", "bash"], ["gateway", "--help"], ["sessions", "list", "--help"]]
)
def test_help_and_completion_import_no_implementation(words: list[str]) -> None:
    code = (
        "import sys; from gateway.__main__ import main; main(sys.argv[1:]);"
        "print(*sorted(sys.modules), sep=chr(10), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = set(result.stderr.split())
    assert "gateway.cli.arguments" in modules
    assert not modules & {"pydantic", "aiohttp", "sqlite3", "rich", "gateway.config.load"}


def test_single_turn_imports_no_line_editor() -> None:
    code = "import gateway.cli.chat.one_shot, sys; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"prompt_toolkit", "rich", "pygments"} & set(result.stdout.split())
