"""Table of known programs from `commands.toml`, read on first use."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agent.records import frozen


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))


@cache
def wrappers() -> Mapping[str, Mapping[str, Any]]:
    """Return the programs that run other programs, with the rules for finding the latter."""
    table: dict[str, Mapping[str, Any]] = {}
    for key, spec in _read()["wrappers"].items():
        for name in key.split():
            table[name] = {"kind": "prefix", **spec, "name": name}
    return table


@cache
def programs() -> Mapping[str, Mapping[str, Any]]:
    """Return the programs that only read or work, by name, with the arguments that make them do
    more.
    """
    return {name: spec for key, spec in _read()["programs"].items() for name in key.split()}


@frozen
class Options:
    """Harmless options: `letters`, the subset `valued` that take a value, and `words` with dashes.

    With `every`, all options are harmless.
    """

    letters: frozenset[str]
    valued: frozenset[str]
    words: frozenset[str]
    every: bool = False


@cache
def options(text: str) -> Options:
    """Return the options in an entry's `known`.

    `@name` refers to a list in the section `options`.
    """
    letters, words = "", set[str]()
    for part in text.split():
        if part[0] == "@":
            more = options(_read()["options"][part[1:]])
            letters += "".join(
                f"{letter}:" if letter in more.valued else letter for letter in more.letters
            )
            words |= more.words
        elif part[0] == "-":
            words.add(part)
        else:
            letters += part
    valued = {letters[n - 1] for n, character in enumerate(letters) if character == ":"}
    return Options(frozenset(letters) - {":"}, frozenset(valued), frozenset(words), text == "*")


@cache
def interpreters() -> Mapping[str, tuple[str, ...]]:
    """Return the programs that run file contents, with the files they read by default."""
    table = _read()["interpreters"].items()
    return {name: tuple(files) for key, files in table for name in key.split()}


@frozen
class ScriptRunner:
    """Rules for finding the script that an interpreter runs.

    Only option characters in `flags` may precede the script. After an option whose last character
    is in `code`, the argument is the program itself. With `modules`, `-m` names a module; with
    `reads_input`, `-` stands for the standard input. With
    `every_word`, the interpreter may run anything that a word names. The subcommands in `sub` run
    what the interpreter reads by default, unless they have options other than `options`.
    """

    flags: str = ""
    code: str = ""
    modules: bool = False
    reads_input: bool = False
    every_word: bool = False
    sub: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()


@cache
def script_runners() -> Mapping[str, ScriptRunner]:
    """Return the interpreters whose scripts can be found from their words, by name."""
    return {
        name: ScriptRunner(
            **{**spec, "sub": frozenset(spec.get("sub", "").split())},
        )
        for name, spec in _by_name(_read()["script_runners"]).items()
    }


@frozen
class FileHandlers:
    """Programs that run no files of the workspace.

    They qualify `always`, only if classified as working inside it (`when_judged`), or with some
    subcommands (`sub`). Programs in `passes_on` run the command in their arguments.
    """

    passes_on: frozenset[str]
    always: frozenset[str]
    when_judged: frozenset[str]
    sub: Mapping[str, frozenset[str]]


@cache
def file_handlers() -> FileHandlers:
    table = _read()["file_handlers"]
    return FileHandlers(
        frozenset(table["passes_on"].split()),
        frozenset(table["always"].split()),
        frozenset(table["when_judged"].split()),
        {name: frozenset(words.split()) for name, words in table["sub"].items()},
    )


@frozen
class NameFilter:
    """A filter that prints some lines of its input, with exactly `arguments` arguments.

    Its options are `letters`; with `takes_count`, also a number of lines (`-5`, `-n 5`).
    """

    letters: frozenset[str]
    arguments: int = 0
    takes_count: bool = False


@frozen
class NameLists:
    """Commands that print file names, and filters by name.

    `lists` maps the first words of a command to the options that it may have.
    """

    lists: Mapping[tuple[str, ...], tuple[str, ...]]
    filters: Mapping[str, NameFilter]


@cache
def name_lists() -> NameLists:
    table = _read()["name_lists"]
    filters = _by_name(table["filters"]).items()
    return NameLists(
        {tuple(words.split()): tuple(names.split()) for words, names in table["lists"].items()},
        {
            name: NameFilter(**{**rule, "letters": frozenset(rule.get("letters", ""))})
            for name, rule in filters
        },
    )


@frozen
class PrefixTable:
    """Commands that may be allowed with any arguments.

    A prefix is a program in `alone`, or a program with one of its subcommands in `sub`, plus
    another word if the first two are in `deeper`. A program in `unasked` needs no prefix if it only
    reads. A program must not have its `forbid` options, nor
    a command its `forbid_after`; a program in `options` accepts no others before "--". A command in
    `remote` accepts no word with a colon and no repository folder. A word that begins with "@" is a
    name only for programs in `at_names`. The `text` options of a command take text, not a path.
    """

    alone: frozenset[str]
    sub: Mapping[str, frozenset[str]]
    unasked: frozenset[str]
    deeper: frozenset[str]
    remote: frozenset[str]
    at_names: frozenset[str]
    options: Mapping[str, tuple[str, ...]]
    forbid: Mapping[str, tuple[str, ...]]
    forbid_after: Mapping[str, tuple[str, ...]]
    text: Mapping[str, tuple[str, ...]]


@cache
def prefixes() -> PrefixTable:
    table = _read()["prefixes"]
    sub = _by_name(table["sub"])
    return PrefixTable(
        frozenset(table["alone"].split()),
        {name: frozenset(words.split()) for name, words in sub.items()},
        frozenset(table["unasked"].split()),
        frozenset(table["deeper"]),
        frozenset(table["remote"]),
        frozenset(table["at_names"]),
        {name: tuple(words) for name, words in table["options"].items()},
        {name: tuple(words) for name, words in _by_name(table["forbid"]).items()},
        {command: tuple(words) for command, words in table["forbid_after"].items()},
        {command: tuple(words) for command, words in table["text"].items()},
    )


def _by_name(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with a separate key for each program of a shared entry."""
    return {name: entry for key, entry in table.items() for name in key.split()}


@cache
def variables() -> Mapping[str, frozenset[str]]:
    """Return the variables that change what programs do (`risky`) or what a shell runs (`runs`)."""
    return {key: frozenset(names) for key, names in _read()["variables"].items()}
