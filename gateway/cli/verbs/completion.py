"""Command `kore completion`: shell completions for verbs, subcommands and options."""

import argparse
from collections.abc import Iterator, Mapping, Sequence

from agent.i18n import t
from agent.records import frozen
from gateway.cli.verb_table import VERBS

_TAKE_FILES = ("--config", "--home")
_EVERYWHERE = (*_TAKE_FILES, "--help")
# The words before the cursor that are not options are a verb and its subcommand.
_BASH = """\
_kore() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} path= n word words= options=
    for ((n = 1; n < COMP_CWORD; n++)); do
        word=${{COMP_WORDS[n]}}
        case $word in
        --config | --home) ((n++)) ;;
        -*) ;;
        *) case " {paths} " in *" ${{path:+$path/}}$word "*) path=${{path:+$path/}}$word ;; esac ;;
        esac
    done
    case $path in
{cases}
    esac
    case $cur in -*) words=$options ;; esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _kore kore
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


@frozen
class Point:
    """Completions at a position of the command line, each with a description.

    `takes` are the options that require a value.
    """

    words: Mapping[str, str]
    options: Mapping[str, str]
    takes: frozenset[str]


def run(args: argparse.Namespace) -> int:
    points = dict(_points())
    print("\n".join(_fish(points)) if args.shell == "fish" else _shell(points, args.shell), end="")
    return 0


def _points() -> Iterator[tuple[tuple[str, ...], Point]]:
    """Yield the position without a verb, then each verb and subcommand."""
    verbs = {word: t(verb.summary) for verb in VERBS for word in (verb.name, *verb.aliases)}
    yield (), Point(verbs, dict.fromkeys((*_EVERYWHERE, "--version"), ""), frozenset(_TAKE_FILES))
    for verb in VERBS:
        parser = argparse.ArgumentParser(add_help=False)
        verb.add_arguments(parser)
        for word in (verb.name, *verb.aliases):
            yield from _points_of(parser, (word,))


def _points_of(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Point]]:
    words: dict[str, str] = {}
    options, takes = dict.fromkeys(_EVERYWHERE, ""), {*_TAKE_FILES}
    for action in parser._actions:
        description = "" if action.help in (None, argparse.SUPPRESS) else t(str(action.help))
        if isinstance(action, argparse._SubParsersAction):
            helps = {
                choice.dest: t(choice.help) if choice.help else ""
                for choice in action._choices_actions
            }
            words |= {word: helps.get(word, "") for word in action.choices}
            for word, part in action.choices.items():
                yield from _points_of(part, (*path, word))
        elif action.option_strings:
            name = max(action.option_strings, key=len)
            options[name] = description
            takes |= {name} if action.nargs != 0 else set()
        elif action.choices:
            words |= dict.fromkeys(map(str, action.choices), "")
    yield path, Point(words, options, frozenset(takes))


def _shell(points: Mapping[tuple[str, ...], Point], shell: str) -> str:
    cases = "\n".join(
        f'    "{"/".join(path)}") words="{" ".join(point.words)}"\n'
        f'        options="{" ".join(point.options)}" ;;'
        for path, point in points.items()
    )
    paths = " ".join("/".join(path) for path in points if path)
    return (_ZSH if shell == "zsh" else "") + _BASH.format(cases=cases, paths=paths)


def _fish(points: Mapping[tuple[str, ...], Point]) -> Iterator[str]:
    for path, point in points.items():
        parts = [] if path else ["__fish_use_subcommand"]
        parts += [f"__fish_seen_subcommand_from {word}" for word in path]
        if path and (further := _parts(points, path)):
            parts.append(f"not __fish_seen_subcommand_from {' '.join(further)}")
        when = f"complete -c kore -n '{'; and '.join(parts)}'"
        for word, description in point.words.items():
            yield f"{when} -f -a {word} -d {_quote(description)}"
        for option, description in point.options.items():
            value = " -r" * (option in point.takes)
            yield f"{when} -l {option.removeprefix('--')}{value} -d {_quote(description)}"
    yield ""


def _parts(points: Mapping[tuple[str, ...], Point], path: Sequence[str]) -> list[str]:
    """Return the subcommands at this position."""
    return [other[-1] for other in points if other[:-1] == tuple(path)]


def _quote(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
