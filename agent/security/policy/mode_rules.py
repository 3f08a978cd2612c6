"""What a permission mode says of a call that the role allows."""

from agent.prompts import load_prompt
from agent.security.policy.base import Decision, Trust
from agent.security.policy.call_effects import CallEffects
from agent.security.policy.modes import PermissionMode

# What commands of these classes may do without a question, once a sandbox confines them.
_FREE: dict[PermissionMode, frozenset[str]] = {
    "ask": frozenset({"reads"}),
    "accept-edits": frozenset({"reads", "works"}),
}
# Tools that leave what a file holds as it is.
_ADDING = frozenset({"append_file", "remember"})
# Tools that hand something to whoever the conversation is with anyway; taint judges what it is.
_HANDING = frozenset({"send_file"})
_ALLOWED = Decision("allow", "within the workspace", "workspace")
_AUTO = Decision("allow", "everything that the role allows runs in this mode", "auto")
_CONFINED = Decision("allow", "a harmless command, confined by the sandbox", "confined")


def evaluate_mode(
    mode: PermissionMode, reach: CallEffects, trust: Trust, confined: bool
) -> Decision:
    """What the mode says of a call that the role allows.

    `plan` changes nothing; `ask` asks before commands and changes of existing files;
    `accept-edits` changes files of the workspace; `auto` runs everything. What steers later turns
    asks in all of them, unless the owner at the terminal has chosen `auto`. A command that nobody
    can take apart never runs unasked.
    """
    if mode == "plan":
        return _plan(reach, confined)
    if reach.steers and not (mode == "auto" and trust == "local"):
        return _ask("prompt")
    if reach.is_command:
        return _command(mode, reach, confined)
    if mode == "auto":
        return _AUTO
    return _files(mode, reach)


def _plan(reach: CallEffects, confined: bool) -> Decision:
    if reach.is_command:
        if reach.kind != "reads" or reach.unclear or reach.writes:
            return Decision("deny", load_prompt("policy/plan_command"), "plan-command")
        return _CONFINED if confined and reach.only_reads else _ask("exec")
    if (reach.request.effect == "read" or reach.request.tool in _HANDING) and not reach.writes:
        return _ALLOWED
    return Decision("deny", load_prompt("policy/plan_change"), "plan-change")


def _command(mode: PermissionMode, reach: CallEffects, confined: bool) -> Decision:
    if reach.unclear:
        return _ask("unclear")
    if mode == "auto":
        return _AUTO
    if reach.leaves_workspace:
        return _ask("outside")
    kind = "works" if reach.kind == "reads" and not reach.only_reads else reach.kind
    if not confined or kind not in _FREE[mode]:
        return _ask("exec")
    return _ask("change") if reach.writes and mode == "ask" else _CONFINED


def _files(mode: PermissionMode, reach: CallEffects) -> Decision:
    request = reach.request
    if reach.leaves_workspace:
        return _ask("outside")
    if request.changes and request.tool not in _ADDING and mode == "ask":
        return _ask("change")
    if request.effect == "unsafe" and not reach.writes and request.tool not in _HANDING:
        return _ask("unplanned")
    return _ALLOWED


def _ask(rule: str) -> Decision:
    return Decision("ask", load_prompt(f"policy/ask_{rule}"), f"ask-{rule}")
