"""Classification of a program's arguments by its entry in the program table."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from agent.security.shell.ast import ADDED_WORD, Command, Script
from agent.security.shell.name_lists import prints_names
from agent.security.shell.own_network import is_own_address
from agent.security.shell.path_scope import PathScope, is_looped_text, loop_values
from agent.security.shell.program_table import options
from agent.security.shell.words import TEXT_START, is_pattern, is_single

CommandClass = Literal["reads", "works", "unknown"]
Spec = Mapping[str, Any]

NO_LIMIT = 1_000_000
MAX_PATTERN_CHARS = 500
WILDCARDS = "*?["


def classify_arguments(
    command: Command, script: Script, place: PathScope, spec: Spec, first: int
) -> CommandClass:
    """Return the class of the program with its arguments from index `first` on."""
    return _Arguments(command, script, place, spec).judge(first)


class _Arguments:
    """Single pass over a program's arguments."""

    def __init__(self, command: Command, script: Script, place: PathScope, spec: Spec) -> None:
        self._command, self._script, self._place, self._spec = command, script, place, spec
        self._kind: CommandClass = spec["class"]
        self._positionals = 0
        self._needed: frozenset[str] = frozenset(spec.get("needs", ()))
        self._texts: int = spec.get("text_args", 0)

    def judge(self, first: int) -> CommandClass:
        argv, spec = self._command.argv, self._spec
        if "no_text_with" in spec and any(
            names_option(word, spec["no_text_with"]) for word in argv if word and word[0] == "-"
        ):
            self._texts = 0
        at, ended = first, False
        while at < len(argv) and self._kind != "unknown":
            word = argv[at]
            takes = 1
            if word is not None and word[:1] == "-" and len(word) > 1 and not ended:
                ended = word == "--"
                if self._positionals and "options_first" in spec:
                    # The program takes this word as a file, and may write to it.
                    self._lift()
                takes = self._option(word, at)
            else:
                self._positional(word, self._command.words[at], after_end=ended)
            for value, source in zip(
                argv[at + 1 : at + takes], self._command.words[at + 1 : at + takes], strict=True
            ):
                if value is None and not is_single(source):
                    # More words may follow the value, and each may be an option.
                    self._computed(source)
            if ADDED_WORD in self._command.words[at + 1 : at + takes]:
                # The words after the value of this option are unknown.
                self._kind = "unknown"
            at += takes
        if self._needed or self._positionals < spec.get("min_args", 0):
            return "unknown"
        return self._kind

    def _option(self, word: str, at: int) -> int:
        """Judge an option and return the number of words it takes."""
        spec = self._spec
        if word == "--" and "--" in spec.get("options", ("--",)):
            return 1
        if (forbidden := spec.get("forbid")) and names_option(word, forbidden):
            self._kind = "unknown"
        if "options" in spec:
            if (working := spec.get("works")) and names_option(word, working):
                self._lift()
            return self._judge_listed(word, at)
        if not self._is_known(word):
            # The program may write: an unknown option does not count as read-only.
            self._lift()
        for option in spec.get("text_options", ()):
            if option[-1] == "=":
                # Its value is optional, so it never takes the next word.
                if word.startswith(option):
                    return 1
            elif word == option or (len(option) == 2 and _bundles(word, option[1])):
                return 2
            elif word.startswith(option + "=" if option[1] == "-" else option):
                return 1
        if not self._place.holds(word):
            self._kind = "unknown"
        return 1

    def _is_known(self, word: str) -> bool:
        """Return whether the table lists this option, or each option of a bundle, as harmless."""
        spec, known_options = self._spec, options(self._spec.get("known", ""))
        texts = spec.get("text_options", ())
        if known_options.every or self._kind != "reads":
            return True
        if word[:2] == "--":
            name, glued, _ = word.partition("=")
            return (
                name in known_options.words or name in texts or bool(glued and f"{name}=" in texts)
            )
        if word in known_options.words or word in texts:
            return True
        for letter in word[1:]:
            if f"-{letter}" in texts or letter in known_options.valued:
                return True
            if letter not in known_options.letters and not letter.isdigit():
                return False
        return True

    def _judge_listed(self, word: str, at: int) -> int:
        """Judge an option against the list of allowed ones and return the words it takes."""
        allowed, texts = self._spec["options"], self._spec.get("text_options", ())
        argv = self._command.argv
        following = argv[at + 1] if at + 1 < len(argv) else ""
        if word[:2] == "--":
            name, glued, value = word.partition("=")
            if name not in allowed:
                self._kind = "unknown"
            self._needed -= {name}
            if name in texts:
                self._check_value(name, value if glued else following)
                return 1 if glued else 2
            return 1
        for n, letter in enumerate(word[1:], 2):
            if f"-{letter}" not in allowed:
                self._kind = "unknown"
            self._needed -= {f"-{letter}"}
            if f"-{letter}" in texts:
                self._check_value(f"-{letter}", word[n:] or following)
                return 1 if word[n:] else 2
        return 1

    def _positional(self, word: str | None, source: str, *, after_end: bool) -> None:
        spec, index = self._spec, self._positionals
        self._positionals += 0 if word and "assigns" in spec and "=" in word else 1
        if source == ADDED_WORD:
            self._added_words(index)
            return
        if "addresses" in spec:
            sandbox = self._place.sandbox
            if word is None or not (
                sandbox.has_own_network and is_own_address(word, sandbox.service_ports)
            ):
                self._kind = "unknown"
            return
        if "pattern" in spec and (index < self._texts or "text_args" not in spec):
            self._check_pattern(word, spec["pattern"])
        if word in spec.get("serves", ()) and not self._place.sandbox.has_own_network:
            self._kind = "unknown"
        if word in spec.get("forbid_args", ()) or index >= spec.get("max_args", NO_LIMIT):
            self._kind = "unknown"
        elif "only" in spec and word not in spec["only"]:
            self._kind = spec.get("otherwise", "unknown")
        elif index >= spec.get("reads_args", NO_LIMIT):
            self._lift()
        if not ("text" in spec or index < self._texts or index >= spec.get("text_from", NO_LIMIT)):
            self._path(word, source)
        else:
            self._text(word, source, after_end=after_end)

    def _text(self, word: str | None, source: str, *, after_end: bool) -> None:
        if word is not None and is_pattern(source) and source[0] in WILDCARDS:
            # A file name may be an option.
            self._lift()
        if word is None and not (is_single(source) and (after_end or TEXT_START.match(source))):
            self._computed(source)

    def _computed(self, source: str) -> None:
        """Judge a word that the shell computes, and that may become an option or several words."""
        if source != ADDED_WORD and not (
            is_looped_text(source, self._script) or self._has_only_harmless_options()
        ):
            self._kind = "unknown"

    def _has_only_harmless_options(self) -> bool:
        """Return whether no option of the program makes it do more than its class."""
        spec = self._spec
        if "computed" in spec:
            return True
        if not {"forbid", "forbid_args", "works", "options"}.isdisjoint(spec):
            return False
        return self._kind != "reads" or options(spec.get("known", "")).every

    def _added_words(self, index: int) -> None:
        """Judge any number of words that `xargs` adds, some of which may be options.

        A read-only program may do more with these, so it needs a sandbox.
        """
        spec = self._spec
        if "text" in spec:
            return
        takes_names = (
            self._kind == "reads"
            and index >= self._texts
            and not {"options_first", "reads_args", "max_args", "only", "sub"} & spec.keys()
        )
        if takes_names and prints_names(self._command.added_from):
            self._kind = "works"
        else:
            self._kind = "unknown"

    def _path(self, word: str | None, source: str) -> None:
        values = (word,) if word is not None else loop_values(source, self._script)
        if word is None and values and any(value[0] == "-" for value in values):
            values = None
        if values is None or not all(map(self._place.holds, values)):
            self._kind = "unknown"
        elif is_pattern(source) or (word is None and any(map(is_pattern, values))):
            # The pattern may match a link that leads elsewhere, or a file name that is an option.
            self._lift()

    def _lift(self) -> None:
        if self._kind == "reads":
            self._kind = "works"

    def _check_value(self, option: str, text: str | None) -> None:
        """Check the value of an option against its own pattern, or else against the program's."""
        values = self._spec.get("values", {})
        self._check_pattern(text, values.get(option, self._spec.get("pattern")))

    def _check_pattern(self, text: str | None, pattern: str | None) -> None:
        if pattern is None:
            return
        if text is None or len(text) > MAX_PATTERN_CHARS or not re.fullmatch(pattern, text):
            self._kind = "unknown"


def names_option(word: str, options: Iterable[str]) -> bool:
    """Return whether the argument `word` is one of the options.

    Abbreviations, bundles and options with an attached value match, too. An option that ends with
    "." matches all words with that prefix.
    """
    for option in options:
        if option[-1] == "." and word.startswith(option):
            return True
        if word == option or (len(option) > 2 and word.startswith(option + "=")):
            return True
        if option[:2] == "--":
            name = word.partition("=")[0]
            if len(name) > 2 and option.startswith(name):
                return True
        elif len(option) == 2 and word[:2] != "--" and option[1] in word[1:].partition("=")[0]:
            return True
    return False


def _bundles(word: str, letter: str) -> bool:
    """Return whether `word` bundles short options and `letter` is the last of them."""
    return word[-1] == letter and word[1:].isalpha() and word[0] == "-"
