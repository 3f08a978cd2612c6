"""Command-line entry point: find the verb, run it, and map errors to messages and exit codes."""

import argparse
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from errno import EROFS
from importlib import import_module
from threading import Thread
from typing import Any, NoReturn

from agent.errors import ConfigError, KoreError, is_disk_unwritable
from agent.i18n import (
    ENGLISH,
    is_writable,
    language_of_terminal,
    mark_for_translation,
    set_locale,
    t,
)
from agent.text.display_width import wrap_paragraphs, wrapped
from agent.text.similar_names import similar_names
from agent.version import VERSION
from gateway.cli.verb_table import VERBS, Verb, all_words, find_verb
from gateway.runtime.gc_tuning import defer_gc, freeze_for_exit
from gateway.runtime.import_trimming import disable_pydantic_plugins
from gateway.runtime.process_hardening import disable_core_dumps

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

_AGENT = VERBS[0]

# EX_TEMPFAIL of sysexits.h: another process owns the data; the same command may work later.
IN_USE = 75

# Strings of argparse itself.
_WORDS = {
    "options": mark_for_translation("options"),
    "positional arguments": mark_for_translation("positional arguments"),
    "show this help message and exit": mark_for_translation("show this help message and exit"),
}
# Messages of argparse in all supported Python versions, and their translatable forms.
_SENTENCES = (
    (
        r"unrecognized arguments: (?P<words>.*)",
        mark_for_translation("unrecognized arguments: {words}"),
    ),
    (
        r"the following arguments are required: (?P<names>.*)",
        mark_for_translation("the following arguments are required: {names}"),
    ),
    (
        r"one of the arguments (?P<names>.*) is required",
        mark_for_translation("one of the arguments {names} is required"),
    ),
    (
        r"ambiguous option: (?P<option>.*) could match (?P<matches>.*)",
        mark_for_translation("ambiguous option: {option} could match {matches}"),
    ),
    (r"expected one argument", mark_for_translation("expected one argument")),
    (r"expected at most one argument", mark_for_translation("expected at most one argument")),
    (r"expected at least one argument", mark_for_translation("expected at least one argument")),
    (r"expected (?P<n>[0-9]+) arguments?", mark_for_translation("expected {n} arguments")),
    (
        r"not allowed with argument (?P<other>.*)",
        mark_for_translation("not allowed with argument {other}"),
    ),
    (
        r"invalid choice: (?P<found>.*) \(choose from (?P<known>.*)\)",
        mark_for_translation("invalid choice: {found} (choose from {known})"),
    ),
    (
        r"invalid (?P<kind>\w+) value: (?P<found>.*)",
        mark_for_translation("invalid {kind} value: {found}"),
    ),
    (
        r"ignored explicit argument (?P<found>.*)",
        mark_for_translation("ignored explicit argument {found}"),
    ),
)
_OF_ARGUMENT = re.compile(r"argument (?P<name>[^:]+): (?P<said>.*)", re.DOTALL)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter with the width of the terminal.

    argparse would import shutil and three compressors for the width. Help texts of arguments are
    translated here, so that only `--help` pays for it.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and t(heading))

    def format_help(self) -> str:
        # argparse appends the colon to a heading, and always the Latin one.
        lines = super().format_help().split("\n")
        return "\n".join(
            f"{line[:-1]}：" if line.endswith(":") and not line.isascii() else line
            for line in lines
        )

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, t("usage: ") if prefix is None else prefix)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help and t(action.help)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width)


class Parser(argparse.ArgumentParser):
    """Parser that reports an error in one line and points to the help."""

    unknown = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        # argparse creates the parsers of subcommands itself, without passing on the formatter.
        super().__init__(*args, **{"formatter_class": HelpFormatter, **options})

    def error(self, message: str) -> NoReturn:
        more = ""
        if self.unknown and message.startswith("unrecognized arguments"):
            more = t("; {hint}", hint=t(self.unknown))
        if message.startswith("the following arguments are required"):
            for action in self._actions:
                name = str(action.metavar or action.dest)
                if action.choices and not action.option_strings and message.endswith(f" {name}"):
                    subcommands = ", ".join(map(str, action.choices))
                    message = t("choose a subcommand: {known}", known=subcommands)

        usage = t("see `{command} --help`", command=self.prog)
        text = as_installed(f"{translate_argparse_error(message)}{more}\n{usage}\n")
        self.exit(USAGE, f"{self.prog}: {text}")


def run(words: Sequence[str]) -> int:
    """Run `words` (without the program's name) and return the exit code."""
    disable_core_dumps()
    defer_gc()
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show becomes an escape instead of an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    set_locale(_language())
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else FAILED
    except BrokenPipeError:
        # The reader closed the pipe.
        _drop_output()
        return FAILED
    except OSError as exc:
        if not is_disk_unwritable(exc):
            raise
        _drop_output()
        if exc.errno == EROFS:
            return complain(KoreError(t("the disk cannot be written to: {reason}", reason=exc)))
        return complain(KoreError(t("disk full: {reason}", reason=exc)))
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            # The shell's next line would follow the "^C".
            print(file=sys.stderr)
        return INTERRUPTED
    return code


def run_process(words: Sequence[str]) -> int:
    """Run `words` like `run` in a process that exits afterwards."""
    code = run(words)
    freeze_for_exit()
    return code


def _open_closed() -> None:
    """Open closed standard streams on /dev/null, so that no file gets their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _drop_output() -> None:
    """Discard buffered output; otherwise, the interpreter reports an error on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def program_name() -> str:
    """Return `kore` if PATH finds this program, else the path with which it was started."""
    started = sys.argv[0]
    if os.path.basename(started) != "kore":
        return "kore"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder or os.curdir, "kore")
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return "kore" if os.path.samefile(path, started) else shlex.quote(started)
    return shlex.quote(started)


def as_installed(text: str) -> str:
    """Return the text with commands (`` `kore …` ``) that work on this installation."""
    if "`kore " not in text and "`kore`" not in text:
        return text
    name = program_name()
    return text.replace("`kore ", f"`{name} ").replace("`kore`", f"`{name}`")


def complain(error: KoreError, clean: Callable[[str], str] = str) -> int:
    """Print an error to stderr without control characters and return its exit code."""
    from agent.text.visible import escape_invisible

    message = escape_invisible(clean(str(error)))
    lines = [f"kore: {line}" for line in message.splitlines() or [""]]
    lines += [f"      {escape_invisible(clean(error.hint))}"] if error.hint else []
    text = as_installed("\n".join(lines))
    print(wrap_paragraphs(text, _columns(2)) if sys.stderr.isatty() else text, file=sys.stderr)
    if error.code == "locked":
        return IN_USE
    return USAGE if isinstance(error, ConfigError) else FAILED


def _language() -> str:
    """Return the terminal's language if it can display it, else English."""
    preferred = language_of_terminal(os.environ)
    return preferred if is_writable(preferred, sys.stdout.encoding) else ENGLISH


def is_for_programs(args: argparse.Namespace) -> bool:
    """Return whether a program reads the output, which is then in English."""
    return getattr(args, "json", False) or getattr(args, "output_format", "text") != "text"


def _dispatch(words: Sequence[str]) -> int:
    top = _top_parser()
    args, rest = top.parse_known_args(_options_before_verb(words))
    after = list(words[len(_options_before_verb(words)) :])
    is_conversation = not after and sys.stdin.isatty() and sys.stdout.isatty()
    if args.help or not (words or is_conversation):
        top.print_help(sys.stdout if args.help else sys.stderr)
        return DONE if args.help else USAGE
    if args.version:
        print(f"kore {VERSION}")
        return DONE
    if rest and not _is_option_of_agent(rest[0]):
        top.error(t("unknown option {name}", name=rest[0]))
    if rest or is_conversation or (after and _is_text(after[0])):
        return _run_verb(_AGENT, [*rest, *after], args)
    if not after:
        top.error(t("no command given"))
    verb = find_verb(after[0])
    if verb is None:
        top.error(_unknown(after))
    return _run_verb(verb, after[1:], args)


def _is_text(word: str) -> bool:
    """Return whether a first word is a message: verbs are ASCII without spaces."""
    return not word.isascii() or any(map(str.isspace, word))


def _is_option_of_agent(word: str) -> bool:
    name = word.partition("=")[0]
    options = _parser_of(_AGENT)._option_string_actions
    return name in options or (not name.startswith("--") and name[:2] in options)


def _run_verb(verb: Verb, words: Sequence[str], top: argparse.Namespace) -> int:
    disable_pydantic_plugins()
    parser = _parser_of(verb)
    args = parser.parse_args(words, argparse.Namespace(config=top.config, home=top.home))
    from pathlib import Path

    from gateway.cli.crash_report import CrashReport

    args.config = Path(args.config) if args.config else None
    args.home = Path(args.home) if args.home else None
    if is_for_programs(args):
        set_locale(ENGLISH)
    args.crash = CrashReport.install(args.home)
    try:
        return verb.run(args)
    except KoreError as exc:
        return complain(exc, args.crash.redactor.clean)
    except BaseExceptionGroup as group:
        if not _is_expected(group):
            raise
        first = _leaves(group)[0]
        if isinstance(first, OSError):
            raise first from None
        if isinstance(first, KoreError):
            return complain(first, args.crash.redactor.clean)
        return INTERRUPTED


def _parser_of(verb: Verb) -> Parser:
    parser = Parser(
        prog=f"kore {verb.name}",
        description=_sentence(t(verb.summary)),
        epilog=_examples(verb.examples),
        formatter_class=HelpFormatter,
        conflict_handler="resolve",
    )
    parser.unknown = verb.unknown
    _add_places(parser, default=argparse.SUPPRESS)
    verb.add_arguments(parser)
    _accept_global_options(parser)
    return parser


def _top_parser() -> Parser:
    width = max(len(verb.name) for verb in VERBS) + 2
    room, margin = max(_columns() - 2 - width - 2, 20), " " * (width + 2)
    lines = [
        f"  {verb.name:<{width}}" + f"\n{margin}".join(wrapped(t(verb.summary), room))
        for verb in VERBS
    ]
    synopsis = "kore [--config FILE] [--home FOLDER] [COMMAND … | TEXT | OPTIONS of agent]"
    parser = Parser(
        prog="kore",
        usage=f"\n{' ' * 7}".join(wrapped(synopsis, max(_columns() - 2 - 7, 20))),
        description="\n".join([t("A self-hosted assistant."), "", t("commands:"), *lines]),
        epilog=t("Run `kore COMMAND --help` for details.")
        + "\n\n"
        + _examples(
            ("kore init", "kore", 'kore "what is in this folder?"', "kore -c", "kore gateway")
        ),
        formatter_class=HelpFormatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this help and exit")
    parser.add_argument("-V", "--version", action="store_true", help="show the version and exit")
    _add_places(parser, default=None)
    return parser


def _add_places(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=default,
        help="configuration file (default: KORE_CONFIG, or config.json in Kore's folder)",
    )
    parser.add_argument(
        "--home",
        metavar="FOLDER",
        default=default,
        help="Kore's folder (default: KORE_HOME, or ~/.kore)",
    )


def _accept_global_options(parser: argparse.ArgumentParser) -> None:
    """Accept `kore config show --config FILE` as well, without a line in each help text."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                for flag in ("--config", "--home"):
                    if flag not in part._option_string_actions:
                        part.add_argument(flag, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
                _accept_global_options(part)


def _columns(stream: int = 1) -> int:
    """Return the width of stdout or another stream, like `shutil.get_terminal_size`."""
    configured = os.environ.get("COLUMNS", "")
    if configured.isdecimal() and int(configured) > 0:
        return int(configured)
    try:
        return os.get_terminal_size(stream).columns or 80
    except OSError:
        return 80


def _options_before_verb(words: Sequence[str]) -> Sequence[str]:
    """Return the options before the verb."""
    n = 0
    while n < len(words) and words[n].startswith("-"):
        n += 2 if words[n] in ("--config", "--home") else 1
    return words[:n]


def _unknown(words: Sequence[str]) -> str:
    word = words[0]
    # With several words, "what is this" must not match "chat".
    close = similar_names(word, all_words(), cutoff=0.78 if words[1:] else 0.6)
    if close:
        return t('Unknown command "{word}"; did you mean "{close}"?', word=word, close=close[0])
    text = " ".join(words)
    command = f'kore "{text}", or kore -p "{text}"' if words[1:] else f'kore -p "{text}"'
    return t('Unknown command "{word}"; put a message in quotes: {how}', word=word, how=command)


def _examples(lines: Sequence[str]) -> str:
    return "\n".join([t("examples:"), *(f"  {line}" for line in lines)])


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" + ("." if text.isascii() else "。")


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for inner in group.exceptions:
        leaves += _leaves(inner) if isinstance(inner, BaseExceptionGroup) else [inner]
    return leaves


def _is_expected(group: BaseExceptionGroup[BaseException]) -> bool:
    """Return whether `run` or `complain` handles every error of the group."""
    kinds = KoreError | KeyboardInterrupt | BrokenPipeError
    return all(isinstance(leaf, kinds) or is_disk_unwritable(leaf) for leaf in _leaves(group))


def preload(*modules: str) -> None:
    """Import `modules` in a thread; an error is raised again by the regular import."""
    missing = [module for module in modules if module not in sys.modules]
    if missing:
        Thread(target=_import_all, args=(missing,), name="import-ahead").start()


def _import_all(modules: list[str]) -> None:
    for module in modules:
        try:
            import_module(module)
        except ImportError:
            return


def translate_argparse_error(message: str) -> str:
    """Return the translated message of argparse; an unknown message is unchanged."""
    if of := _OF_ARGUMENT.fullmatch(message):
        return t(
            "argument {name}: {said}", name=of["name"], said=translate_argparse_error(of["said"])
        )
    for pattern, text in _SENTENCES:
        if match := re.fullmatch(pattern, message, re.DOTALL):
            return t(text, **match.groupdict())
    return message
