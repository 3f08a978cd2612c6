"""What a failed command ran into, when that was its sandbox: told to the model with a way on."""

import re
import shutil

from agent.prompts import load_prompt, render_prompt

# What programs say where there is no network.
_UNREACHED = re.compile(
    "resolve host|name resolution|Name or service not known|Network is unreachable", re.IGNORECASE
)
# A read-only mount of bubblewrap or a container says the first, Landlock the second.
_READ_ONLY = re.compile("Read-only file system", re.IGNORECASE)
_DENIED = re.compile("Permission denied", re.IGNORECASE)
# dash: "sh: 1: cargo: not found", bash: "bash: line 1: cargo: command not found".
_MISSING = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)


def refusal_remark(
    output: str, *, read_only: bool, has_hosts: bool, denies: bool, may_leave: bool
) -> str:
    """One line about a command with this output that failed; empty if nothing points to the
    sandbox.

    `read_only`: its workspace was; `has_hosts`: it may reach some; `denies`: the sandbox answers
    writes with "Permission denied"; `may_leave`: a person can be asked to let it run outside.
    """
    if read_only and (_READ_ONLY.search(output) or _DENIED.search(output)):
        return load_prompt("sandbox/read_only") + "\n"
    way_on = "sandbox/leave"
    if _READ_ONLY.search(output) or (denies and _DENIED.search(output)):
        remark = load_prompt("sandbox/unwritable")
    elif not has_hosts and _UNREACHED.search(output):
        remark, way_on = load_prompt("sandbox/offline"), "sandbox/ask_network"
    elif program := _outside_program(output):
        remark = render_prompt("sandbox/no_program", program=program)
    else:
        return ""
    return f"[{remark} {load_prompt(way_on)}]\n" if may_leave else f"[{remark}]\n"


def _outside_program(output: str) -> str | None:
    """A program that the command missed, and that this machine has."""
    return next((name for name in _MISSING.findall(output) if shutil.which(name)), None)
