"""Advice for the model when a command failed because of its sandbox."""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.tools.shell.program_folders import interpreter_of

# Error texts of programs without a network.
_UNREACHED = re.compile(
    "resolve host|name resolution|Name or service not known|Network is unreachable", re.IGNORECASE
)
# A read-only mount of bubblewrap or a container causes the first, Landlock the second.
_READ_ONLY = re.compile("Read-only file system", re.IGNORECASE)
_DENIED = re.compile("Permission denied", re.IGNORECASE)
# dash: "sh: 1: cargo: not found", bash: "bash: line 1: cargo: command not found".
_MISSING = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)
# Exit codes of a shell that could not run a program, or did not find it (POSIX, 2.8.2).
_NOT_RUN = (126, 127)


@frozen
class Failure:
    """Failed command and the access that it had.

    `readable` are the files and folders that it could read and run from. `may_write`: the policy
    lets commands change files.
    """

    code: int | None
    command: str
    folder: Path
    readable: Sequence[Path]
    may_write: bool = True


def refusal_remark(
    output: str,
    failure: Failure,
    *,
    read_only: bool,
    has_hosts: bool,
    denies: bool,
    may_leave: bool,
) -> str:
    """Return one line about a failure with this output; empty if nothing points to the sandbox.

    `read_only`: its workspace was read-only; `has_hosts`: it may reach some hosts; `denies`: the
    sandbox answers writes with "Permission denied"; `may_leave`: a person can be asked to let it
    run outside.
    """
    is_frozen = read_only or not failure.may_write
    if is_frozen and (_READ_ONLY.search(output) or _DENIED.search(output)):
        return load_prompt(f"sandbox/{'read_only' if failure.may_write else 'frozen'}") + "\n"
    way_on = "sandbox/leave"
    if hidden := _hidden_program(failure):
        remark = render_prompt("sandbox/no_program", program=str(hidden))
    elif _READ_ONLY.search(output) or (denies and _DENIED.search(output)):
        remark = load_prompt("sandbox/unwritable")
    elif not has_hosts and _UNREACHED.search(output):
        remark, way_on = load_prompt("sandbox/offline"), "sandbox/ask_network"
    elif program := _outside_program(output):
        remark = render_prompt("sandbox/no_program", program=program)
    else:
        return ""
    return f"[{remark} {load_prompt(way_on)}]\n" if may_leave else f"[{remark}]\n"


def _outside_program(output: str) -> str | None:
    """Return a program that the command did not find, but that this machine has."""
    return next((name for name in _MISSING.findall(output) if shutil.which(name)), None)


def _hidden_program(failure: Failure) -> Path | None:
    """Return a program of the line that this machine has where the command could not read."""
    if failure.code not in _NOT_RUN:
        return None
    try:
        words = shlex.split(failure.command)
    except ValueError:
        words = failure.command.split()
    roots = [path.resolve() for path in failure.readable]
    for word in filter(lambda word: "/" in word, words):
        program = (failure.folder / word).resolve()
        for path in (program, interpreter_of(str(program))):
            real = path and path.resolve()
            if real is None or any(real.is_relative_to(root) for root in roots):
                continue
            if real.is_file() and os.access(real, os.X_OK):
                return real
    return None
