"""Advice for the model after the sandbox refused something to a command."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.sandbox.command_report import CommandReport
from agent.tools.shell.program_folders import interpreter_of

# Error texts of programs without a network, used only if nothing counts their attempts.
_UNREACHED = re.compile(
    "resolve host|name resolution|Name or service not known|Network is unreachable|no such host"
    "|EAI_AGAIN|ENOTFOUND|ENETUNREACH|UnknownHostException|nodename nor servname",
    re.IGNORECASE,
)
_REFUSED = re.compile("refused|couldn't connect|cannot connect|could not connect", re.IGNORECASE)
# A read-only mount of bubblewrap or a container causes the first, Landlock the second.
_READ_ONLY = re.compile("Read-only file system|EROFS", re.IGNORECASE)
_DENIED = re.compile("Permission denied|EACCES", re.IGNORECASE)
# Git renames a new file over its configuration, which is a mount.
_GIT_CONFIGURATION = re.compile(r"could not (?:(?:lock|write) config file|set ')")
# An error text on a line of its own, rather than in a file that was printed.
_OWN_LINE = r"^(?:[\w./+-]+: )+(?:line \d+: )?[^:\n]*(?:: [^:\n]*)?: {}$"
_READ_ONLY_LINE = re.compile(_OWN_LINE.format("Read-only file system"), re.MULTILINE)
_DENIED_LINE = re.compile(_OWN_LINE.format("Permission denied"), re.MULTILINE)
# The filter returns EPERM for a socket of this kind; few other calls fail with it.
_NOT_PERMITTED = re.compile("Operation not permitted|EPERM")
_SOCKET = re.compile(r"socket|\.sock\b|unix://|s\.PGSQL", re.IGNORECASE)
_DOCKER = re.compile("(?:connect to|connection to) the Docker daemon|/docker.sock", re.IGNORECASE)
# dash: "sh: 1: cargo: not found", bash: "bash: line 1: cargo: command not found".
_MISSING = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)
# Exit codes of a shell that could not run a program, or did not find it (POSIX, 2.8.2).
_NOT_RUN = (126, 127)


@frozen
class CommandEnd:
    """End of a command and the access that it had.

    `code` is None after a timeout. `readable` are the files and folders that it could read and run
    from. `services` are local services that it names but could not reach. `read_only`: its
    workspace was read-only; `has_hosts`: it may reach some hosts; `denies`: writes fail with
    "Permission denied" in the sandbox; `may_write`: the policy lets commands change files.
    """

    code: int | None
    command: str
    folder: Path
    readable: Sequence[Path]
    report: CommandReport = field(default_factory=CommandReport)
    services: Sequence[str] = ()
    read_only: bool = False
    has_hosts: bool = False
    denies: bool = False
    may_write: bool = True

    @property
    def has_failed(self) -> bool:
        return self.code != 0 or self.report.has_failed_part


def refusal_remark(output: str, end: CommandEnd, *, may_leave: bool) -> str:
    """Return remarks on accesses that the sandbox refused; empty without a sign of any.

    Measured facts count regardless of the output; error texts are the fallback. `may_leave`: a
    person can be asked to let the command run outside.
    """
    is_frozen = end.read_only or not end.may_write
    if is_frozen and end.has_failed and (_READ_ONLY.search(output) or _DENIED.search(output)):
        return load_prompt(f"sandbox/{'read_only' if end.may_write else 'frozen'}") + "\n"
    return "".join(
        f"[{remark} {way_on}]\n" if may_leave and way_on else f"[{remark}]\n"
        for remark, way_on in (*_network_remarks(output, end), *_file_remarks(output, end))
    )


def _network_remarks(output: str, end: CommandEnd) -> Iterator[tuple[str, str]]:
    """Yield remarks, each with a sentence that suggests the next step."""
    attempts = end.report.attempts
    # Under Landlock, no kind of socket can be opened.
    refusal = _NOT_PERMITTED if end.denies else _REFUSED
    has_attempt = attempts is None or attempts.refused > 0
    ports = [name for name in end.services if not _is_socket(name)]
    if end.has_failed and ports and has_attempt and refusal.search(output):
        yield load_prompt("sandbox/own_network"), _ask_for(ports)
        return
    if attempts is None:
        # Under Landlock, no kind of socket can be opened.
        is_refused = end.denies and _is_refused_socket(output) and not _DOCKER.search(output)
        if end.has_failed and not end.has_hosts and (is_refused or _UNREACHED.search(output)):
            yield load_prompt("sandbox/offline"), load_prompt("sandbox/ask_network")
        return
    # Programs that only want to know their own address also cause packets without a route.
    if attempts.lookups or (end.has_failed and attempts.unreachable):
        if end.has_hosts:
            yield load_prompt("sandbox/past_proxy"), ""
        else:
            # Servers look up their own name and succeed anyway.
            name = "offline" if end.has_failed else "lookup"
            yield load_prompt(f"sandbox/{name}"), load_prompt("sandbox/ask_network")
    elif end.has_failed and attempts.refused and _REFUSED.search(output):
        yield load_prompt("sandbox/own_network"), load_prompt("sandbox/leave")


def _file_remarks(output: str, end: CommandEnd) -> Iterator[tuple[str, str]]:
    """Yield at most one remark about files, programs or Unix sockets."""
    sockets = [name for name in end.services if _is_socket(name)]
    if not end.has_failed:
        refused = _READ_ONLY_LINE.search(output) or (end.denies and _DENIED_LINE.search(output))
        if refused and not end.read_only:
            yield load_prompt("sandbox/unwritable"), load_prompt("sandbox/leave")
    elif hidden := _hidden_program(end):
        yield render_prompt("sandbox/no_program", program=str(hidden)), load_prompt("sandbox/leave")
    elif not end.denies and sockets and (_DOCKER.search(output) or _NOT_PERMITTED.search(output)):
        yield load_prompt("sandbox/unix_socket"), _ask_for(sockets)
    elif _DOCKER.search(output) or (not end.denies and _is_refused_socket(output)):
        yield load_prompt("sandbox/unix_socket"), load_prompt("sandbox/leave")
    elif (
        _READ_ONLY.search(output)
        or _GIT_CONFIGURATION.search(output)
        or (end.denies and _DENIED.search(output))
    ):
        yield load_prompt("sandbox/unwritable"), load_prompt("sandbox/leave")
    elif program := _outside_program(output):
        yield render_prompt("sandbox/no_program", program=program), load_prompt("sandbox/leave")


def _is_socket(service: str) -> bool:
    return service.startswith("unix:")


def _ask_for(services: Sequence[str]) -> str:
    return render_prompt("sandbox/ask_service", services=" ".join(services))


def _is_refused_socket(output: str) -> bool:
    return bool(_NOT_PERMITTED.search(output) and _SOCKET.search(output))


def _outside_program(output: str) -> str | None:
    """Return a program that the command did not find, but that exists on this machine."""
    return next((name for name in _MISSING.findall(output) if shutil.which(name)), None)


def _hidden_program(end: CommandEnd) -> Path | None:
    """Return a program of the line that exists on this machine, but where the command could not
    read it.
    """
    if end.code not in _NOT_RUN and not set(_NOT_RUN).intersection(end.report.pipeline):
        return None
    try:
        words = shlex.split(end.command)
    except ValueError:
        words = end.command.split()
    roots = [path.resolve() for path in end.readable]
    for word in filter(lambda word: "/" in word, words):
        program = (end.folder / word).resolve()
        for path in (program, interpreter_of(str(program))):
            real = path and path.resolve()
            if real is None or any(real.is_relative_to(root) for root in roots):
                continue
            if real.is_file() and os.access(real, os.X_OK):
                return real
    return None
