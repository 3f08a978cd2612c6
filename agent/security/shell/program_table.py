"""What is known of programs: `commands.toml`, read once at first use."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agent.records import frozen


@cache
def _read() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))


@cache
def wrappers() -> Mapping[str, Mapping[str, Any]]:
    """Programs that run other programs, by name; each says how it finds them."""
    table: dict[str, Mapping[str, Any]] = {}
    for key, spec in _read()["wrappers"].items():
        for name in key.split():
            table[name] = {"kind": "prefix", **spec, "name": name}
    return table


@cache
def programs() -> Mapping[str, Mapping[str, Any]]:
    """Programs that look or work, by name, with what would make them do more."""
    return {name: spec for key, spec in _read()["programs"].items() for name in key.split()}


@frozen
class Options:
    """Options that leave a program what it is: one-letter ones, those of them that take a value,
    and longer ones with their dashes. `every` knows all."""

    letters: frozenset[str]
    valued: frozenset[str]
    words: frozenset[str]
    every: bool = False


@cache
def options(text: str) -> Options:
    """What an entry's `known` says; `@name` stands for a list of the section `options`."""
    letters, words = "", set[str]()
    for part in text.split():
        if part[0] == "@":
            more = options(_read()["options"][part[1:]])
            letters += "".join(f"{one}:" if one in more.valued else one for one in more.letters)
            words |= more.words
        elif part[0] == "-":
            words.add(part)
        else:
            letters += part
    valued = {letters[n - 1] for n, one in enumerate(letters) if one == ":"}
    return Options(frozenset(letters) - {":"}, frozenset(valued), frozenset(words), text == "*")


@cache
def interpreters() -> Mapping[str, tuple[str, ...]]:
    """Programs that run what files hold, with the files that they read without being told."""
    table = _read()["interpreters"].items()
    return {name: tuple(files) for key, files in table for name in key.split()}


@frozen
class ScriptRunner:
    """How an interpreter is told which script to run: behind `flags` stands the script, behind an
    option whose last letter is in `code` the program itself.

    With `modules`, `-m` names a module. With `every_word`, whatever a word names may be run. With
    `sub`, these sub-commands run what the interpreter reads unasked, as long as they have no other
    than these `options`.
    """

    flags: str = ""
    code: str = ""
    modules: bool = False
    every_word: bool = False
    sub: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()


@cache
def script_runners() -> Mapping[str, ScriptRunner]:
    """Interpreters whose scripts can be told from their words, by name."""
    return {
        name: ScriptRunner(
            **{**spec, "sub": frozenset(spec.get("sub", "").split())},
        )
        for name, spec in _by_name(_read()["script_runners"]).items()
    }


@frozen
class FileHandlers:
    """Programs that run no files of the workspace: `always`, `when_judged` to work inside it, or
    with some sub-commands (`sub`). Those in `passes_on` run the command behind them."""

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
class PrefixTable:
    """Commands that may be allowed with any arguments: programs `alone` or with one of their
    sub-commands, with one more word where the first two are `deeper`.

    A program may not be given its `forbid` options, nor a command its `forbid_after`; a program in
    `options` takes no others up to "--". What is `remote` gets no word with a colon and no
    repository's folder. Only to programs in `at_names` a word that begins with "@" is a name.
    Behind the `text` options of a command stands text, not a path."""

    alone: frozenset[str]
    sub: Mapping[str, frozenset[str]]
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
        frozenset(table["deeper"]),
        frozenset(table["remote"]),
        frozenset(table["at_names"]),
        {name: tuple(words) for name, words in table["options"].items()},
        {name: tuple(words) for name, words in _by_name(table["forbid"]).items()},
        {command: tuple(words) for command, words in table["forbid_after"].items()},
        {command: tuple(words) for command, words in table["text"].items()},
    )


def _by_name(table: Mapping[str, Any]) -> dict[str, Any]:
    """Each program of a table on its own, where several share an entry."""
    return {name: entry for key, entry in table.items() for name in key.split()}


@cache
def variables() -> Mapping[str, frozenset[str]]:
    """Names of variables that change what programs do (`risky`) or what a shell runs (`runs`)."""
    return {key: frozenset(names) for key, names in _read()["variables"].items()}


@cache
def private_names() -> frozenset[str]:
    """Components that no path of a command may have without a question, folded."""
    return frozenset(_read()["paths"]["private"])
