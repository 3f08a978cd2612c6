"""Hints name existing commands: verb, action and options match the parsers."""

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache

from gateway.cli.program import _parser_of
from gateway.cli.verb_table import VERBS, find_verb
from tests.house.tree import PACKAGES, parse, place, python_files

_AGENT = VERBS[0]
# Commands as they are written for people: in backticks, or as the entire hint.
_QUOTED = re.compile(r"`kore(?P<words>(?: [^`]*)?)`")
_BARE = re.compile(r"(?:^|: )kore(?P<words> (?:-\w|--\w+|[a-z]+ (?:-|[A-Z…]|$)).*)")
_TOP = ("--version", "--help")
_parser = cache(_parser_of)


def _texts(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Yield every string literal, with {} for interpolated values."""
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner.update(id(part) for part in node.values)
            yield node, "".join(str(getattr(part, "value", "{}")) if isinstance(part, ast.Constant)
                                else "{}" for part in node.values)  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node, node.value


def _complaint(words: list[str]) -> str:
    """Return the reason why the command is invalid, or an empty string."""
    words = [word.strip("[](),.") for word in words]
    verb = _AGENT
    if words and not _is_placeholder(words[0]) and not words[0].startswith("-"):
        result = find_verb(words[0])
        if result is None:
            return f"no verb {words[0]}"
        verb, words = result, words[1:]
    parser: argparse.ArgumentParser = _parser(verb)
    for word in words:
        if word.startswith("-") and word.strip("-…"):
            name = word.partition("=")[0]
            if name not in parser._option_string_actions and name not in _TOP:
                return f"{parser.prog} has no {name}"
            continue
        actions = next(
            (
                action
                for action in parser._actions
                if isinstance(action, argparse._SubParsersAction)
            ),
            None,
        )
        if actions is not None and not _is_placeholder(word):
            if word not in actions.choices:
                return f"{parser.prog} has no action {word}"
            parser = actions.choices[word]
    return ""


def _is_placeholder(word: str) -> bool:
    return not word or not word[0].isalpha() or word.isupper() or not word.isascii()


def _commands(text: str) -> Iterator[list[str]]:
    for form in (_QUOTED, _BARE):
        for found in form.finditer(text):
            words = re.split(r"\s[#|>]|[;)]", found["words"])[0]
            yield re.sub(r"""(["']).*?\1""", "TEXT", words).split()


def test_commands_named_in_texts_exist() -> None:
    wrong = [
        f"{place(path, node)}: kore {' '.join(words)}: {why}"
        for path in python_files(*PACKAGES)
        for node, text in _texts(parse(path))
        for words in _commands(text)
        if (why := _complaint(words))
    ]
    assert wrong == []


def test_unknown_commands_in_texts_are_noticed() -> None:
    assert _complaint(["frobnicate"]) == "no verb frobnicate"
    assert _complaint(["-r", "ID"]) == ""
    assert _complaint(["agent", "--no-such"]) == "kore agent has no --no-such"
    assert _complaint(["sessions", "frob"]) == "kore sessions has no action frob"
    assert _complaint(["cron", "add", "--ask"]) == ""
    assert list(_commands("`kore user list` shows them")) == [["user", "list"]]
    assert list(_commands("Session 1: kore agent -r 1")) == [["agent", "-r", "1"]]
