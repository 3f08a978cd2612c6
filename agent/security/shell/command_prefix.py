"""Command prefixes that a person may allow with any arguments: `git commit *`, `npm test *`."""

import os
import re
from pathlib import Path

from agent.approvals import CommandPrefix
from agent.security.shell.ast import Command, Script
from agent.security.shell.classifier import classify_command
from agent.security.shell.git_safety import is_in_bare_repository
from agent.security.shell.parser import parse_script
from agent.security.shell.path_scope import PathScope, place_of
from agent.security.shell.program_arguments import names_option
from agent.security.shell.program_table import interpreters, prefixes, wrappers
from agent.security.shell.script_contents import script_contents
from agent.security.shell.words import is_pattern

# Words that mean the same to a shell and to a person.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,39}")
_WILDCARDS = ("*", "?", "[")
# A link name may follow the letters of short options; at most this many positions are checked.
_MAX_GLUED_CHARS = 300
# More of them would not fit on a button.
_MAX_PREFIXES = 4


def prefixes_of(
    line: str, folder: Path, workspace: Path, *, is_confined: bool
) -> tuple[CommandPrefix, ...]:
    """Return the prefixes under which `line` may be allowed in the real `folder`.

    Each of its commands, connected by pipes, `&&`, `||`, `;` and line breaks, has one of the
    prefixes or, if a sandbox confines it, only reads. The result is empty if only the exact line
    may be allowed: a command is not listed, its arguments lead elsewhere, or the line sets
    variables or has another structure. May block, because it reads the scripts that the prefixes
    run.
    """
    script = parse_script(line)
    place = place_of(script, folder, workspace)
    if script.pipelines is None or place is None or not _keeps_settings(script, place):
        return ()
    line_prefixes: dict[CommandPrefix, None] = {}
    whereabouts = _Whereabouts(str(folder))
    for pipeline in script.pipelines:
        folders = whereabouts.before(pipeline.operator)
        if pipeline.commands[0].argv[:1] == ("cd",):
            if len(pipeline.commands) > 1 or not _reads(pipeline.commands[0], script, place):
                return ()
            whereabouts.move(pipeline.commands[0].argv[1] or "")
            continue
        for command in pipeline.commands:
            only_reads = _needs_no_grant(command, script, place)
            # A command with a prefix reads nothing that the line writes into a pipe.
            if command is not pipeline.commands[0] and not only_reads:
                return ()
            if only_reads and is_confined:
                continue
            words = _listed_words(command)
            if words is None or not _prints_only(command):
                return ()
            if not _arguments_stay(command, words, place):
                return ()
            for working_folder in folders:
                contents = script_contents(" ".join(words), Path(working_folder), workspace).digest
                if contents is not None and any(
                    prefix.contents is None for prefix in line_prefixes
                ):
                    # The command before it may change the scripts.
                    return ()
                line_prefixes[CommandPrefix(words, contents)] = None
    return tuple(line_prefixes) if len(line_prefixes) <= _MAX_PREFIXES else ()


class _Whereabouts:
    """Real folders in which the next command of a line may run."""

    def __init__(self, folder: str) -> None:
        self._current: tuple[str, ...] = (folder,)
        self._visited: tuple[str, ...] = (folder,)
        self._is_certain = True

    def before(self, operator: str) -> tuple[str, ...]:
        """Return the folders of the command after this operator."""
        if operator == ";":
            self._is_certain = True
        elif operator == "||":
            # The commands after it also run when it skips a `cd`.
            self._is_certain = False
        if operator == ";" or not self._is_certain:
            self._current = self._visited
        return self._current

    def move(self, target: str) -> None:
        """Record a `cd`, which is certain to have succeeded only before `&&`."""
        self._current = tuple(
            os.path.realpath(os.path.join(folder, target)) for folder in self._current
        )
        self._visited = tuple(dict.fromkeys([*self._visited, *self._current]))


def _keeps_settings(script: Script, place: PathScope) -> bool:
    """Return whether the programs of a script run with their usual settings.

    False if part of the script is not understood, if it sets any variable, such as PATH, or if git
    may treat one of its folders as a bare repository with its own configuration.
    """
    return (
        script.opaque_reason is None
        and not script.assigned_names
        and not any(command.assignments for command in script.commands)
        and not any(is_in_bare_repository(folder, place.root) for folder in place.folders)
    )


def _reads(command: Command, script: Script, place: PathScope) -> bool:
    return bool(command.argv) and classify_command(command, script, place) == "reads"


def _needs_no_grant(command: Command, script: Script, place: PathScope) -> bool:
    """Return whether a command only reads, runs no other command, and does not change the shell."""
    return _reads(command, script, place) and command.argv[0] in prefixes().unasked


def _prints_only(command: Command) -> bool:
    """Return whether a command reads no input and does not redirect its output."""
    return all(
        (redirect.op == ">&" and redirect.target in ("1", "2"))
        or (redirect.op in (">", ">>") and redirect.target == "/dev/null")
        for redirect in command.redirects
    )


def _listed_words(command: Command) -> tuple[str, ...] | None:
    """Return the program, with its subcommand if it has subcommands; None if it is not listed."""
    table, argv = prefixes(), command.argv
    name, sub = argv[0], argv[1] if len(argv) > 1 else None
    if name is None or name in wrappers() or (name in interpreters() and name not in table.sub):
        return None
    if name in table.alone:
        return (name,)
    if sub is None or sub not in table.sub.get(name, ()):
        return None
    if f"{name} {sub}" not in table.deeper:
        return (name, sub)
    third = argv[2] if len(argv) > 2 else None
    return (name, sub, third) if third is not None and _WORD.fullmatch(third) else None


def _arguments_stay(command: Command, prefix: tuple[str, ...], place: PathScope) -> bool:
    """Return whether the arguments after the prefix are safe.

    They must be known and must not contain a forbidden option or refer outside the workspace.
    """
    table, name = prefixes(), " ".join(prefix)
    forbid = (*table.forbid.get(prefix[0], ()), *table.forbid_after.get(name, ()))
    own, text = table.options.get(prefix[0]), table.text.get(name, ())
    first, before, ended = len(prefix), "", False
    for word, source in zip(command.argv[first:], command.words[first:], strict=True):
        if word is None or (is_pattern(source) and word.startswith(_WILDCARDS)):
            # The shell may expand it to anything, including an option.
            return False
        # This check applies even to a word that seems to be the text of an option.
        if word[:1] == "-" and (
            names_option(word, forbid) or not (own is None or ended or word in (*own, "--"))
        ):
            return False
        if word[:1] == "@" and prefix[0] not in table.at_names:
            return False
        if name in table.remote and (":" in word or _is_repository(word, place)):
            return False
        # A branch that replaces another, as with --force.
        if name == "git push" and word[:1] == "+":
            return False
        if before in text and not ended and _is_text(word, source, place):
            # The next word is an argument again, even if this text looks like an option.
            before = ""
            continue
        if not place.holds(word) or not _glued_values_stay(word, place):
            return False
        ended, before = ended or word == "--", word
    return True


def _is_text(word: str, source: str, place: PathScope) -> bool:
    """Return whether a word can only be text.

    If the option before it were itself the value of another option, the word would be a path or an
    option.
    """
    if word[:1] in ("-", "~") or is_pattern(source):
        return False
    return not any(os.path.lexists(os.path.join(folder, word)) for folder in place.folders)


def _is_repository(word: str, place: PathScope) -> bool:
    """Return whether a word or its value is a local repository that git accepts as a remote.

    Git would run the hooks of that repository.
    """
    name = word.partition("=")[2] if word[:1] == "-" else word
    return bool(name) and any(
        os.path.lexists(os.path.join(folder, f"{name}{suffix}", entry))
        for folder in place.folders
        for suffix in ("", ".git")
        for entry in ("HEAD", ".git")
    )


def _glued_values_stay(word: str, place: PathScope) -> bool:
    """Return whether no suffix of short options such as `-tlink` names a path elsewhere.

    Any letters after the first may be the name of a link.
    """
    if word[:1] != "-" or word[:2] == "--":
        return True
    return all(place.holds(word[at:]) for at in range(2, min(len(word), _MAX_GLUED_CHARS)))
