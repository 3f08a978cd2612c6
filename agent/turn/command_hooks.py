"""Hooks implemented as shell commands: JSON on standard input, exit code 2 blocks.

The commands run in the sandbox of `exec`, with a read-only workspace and without network access. A
hook can reject a call, require the consent of a person or comment on a call. It cannot allow a call
that the policy rejects.
"""

import asyncio
import json
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from agent.errors import ToolError
from agent.events import Notice
from agent.i18n import t
from agent.records import frozen
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.base import CallContext, Tool
from agent.tools.call_arguments import canonical
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.sandboxed_command import CommandLine, SandboxedCommands
from agent.tools.shell.session_space import SessionSpaces
from agent.tools.traits import traits_of
from agent.turn.hooks import AskFirst, Hooks, HookWords, TurnEvent
from agent.types import Taint, ToolResult

OUTPUT_LIMIT_BYTES = 10_000
# Limit for reasons that are shown to people.
_MAX_REASON_CHARS = 500
HookEvent = Literal["PreToolUse", "PostToolUse"] | TurnEvent
# Fact that the matcher of these events is compared with.
_MATCHED = {"SessionStart": "source", "Notification": "notification_type"}

# Events for which plain-text output goes to the model.
_PLAIN = frozenset({"SessionStart", "UserPromptSubmit"})
# Both streams share one pipe: the text after the mark is standard error.
_SCRIPT = """errors=$(mktemp) || exit 1
( {variables}{command}
) 2>"$errors"
code=$?
printf '%s' {mark}
head -c {limit} "$errors"
rm -f "$errors"
exit $code"""


@frozen
class CommandHook:
    """A hook command and the events that it handles.

    `matcher` is a regular expression for tool names; '' and '*' match all of them. `origin`
    describes the source of the hook, and `variables` are set for the command. Output counts as
    untrusted unless the hook `is_own`, that is, configured by the owner.
    """

    event: HookEvent
    command: str
    matcher: str = ""
    timeout_s: float = 60
    origin: str = ""
    is_own: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)

    def matches(self, tool: Tool) -> bool:
        """Return whether the matcher names the tool, by its own name or its Claude Code names."""
        return self._fits((tool.name, *traits_of(tool).claude_names))

    def fits(self, facts: Mapping[str, Any]) -> bool:
        """Return whether the hook handles a turn event with these facts."""
        key = _MATCHED.get(self.event)
        return key is None or self._fits((str(facts.get(key, "")),))

    def _fits(self, names: Sequence[str]) -> bool:
        if self.matcher in ("", "*"):
            return True
        return any(re.fullmatch(self.matcher, name) is not None for name in names)


@frozen
class HookAnswer:
    """Parsed answer of a hook.

    `blocked` is the reason for a rejection and `asks` the reason for asking a person; None means
    neither. `words` go to the model. `taint` covers all texts. `ends` requests the end of the turn.
    """

    blocked: str | None
    taint: frozenset[Taint]
    asks: str | None = None
    words: str = ""
    ends: bool = False


class CommandHooks(Hooks[Any]):
    """Runner for hook commands, in order. A failing command only causes a notice."""

    def __init__(self, hooks: Sequence[CommandHook], settings: ToolSettings) -> None:
        self._hooks = tuple(hooks)
        self._settings = settings

    @property
    def hooks(self) -> tuple[CommandHook, ...]:
        return self._hooks

    async def before_call(self, context: CallContext, tool: Tool) -> ToolResult | AskFirst | None:
        """Return a rejection, a request to ask a person, or None."""
        asks: AskFirst | None = None
        for hook in self._of("PreToolUse", tool):
            answer = await self._ask(hook, context, _described(context, tool))
            if answer is None:
                continue
            if answer.blocked is not None:
                text = f"A hook blocked this call: {answer.blocked}"
                return ToolResult(text, is_error=True, taint=answer.taint)
            if answer.asks is not None and asks is None:
                why = _shortened(escape_line(answer.asks))
                reason = t("a hook wants you to decide: {why}", why=why)
                asks = AskFirst(context.redactor.clean(reason))
        return asks

    async def on_turn(
        self, event: TurnEvent, context: CallContext, facts: Mapping[str, Any]
    ) -> HookWords:
        """Return the combined answers of the hooks for a turn event."""
        words = HookWords()
        for hook in self._hooks:
            if hook.event != event or not hook.fits(facts):
                continue
            if (answer := await self._ask(hook, context, facts)) is None:
                continue
            words = words.with_more(_words(event, answer))
            if words.refusal is not None:
                break
        return words

    async def after_call(self, context: CallContext, tool: Tool, result: ToolResult) -> ToolResult:
        """Return the result with the comments of the hooks appended."""
        for hook in self._of("PostToolUse", tool):
            payload = _described(context, tool)
            payload["tool_response"] = {"content": result.for_model, "is_error": result.is_error}
            answer = await self._ask(hook, context, payload)
            if answer is not None:
                for text in filter(None, [answer.blocked, answer.words]):
                    result = _commented(result, text, answer.taint)
        return result

    def _of(self, event: HookEvent, tool: Tool) -> list[CommandHook]:
        return [hook for hook in self._hooks if hook.event == event and hook.matches(tool)]

    async def _ask(
        self, hook: CommandHook, context: CallContext, payload: Mapping[str, Any]
    ) -> HookAnswer | None:
        """Run the hook and return its answer; on failure, notify the person and return None."""
        workspace = context.workspace
        payload = {
            "session_id": context.session,
            "cwd": str(workspace),
            "hook_event_name": hook.event,
            **payload,
        }
        mark = secrets.token_hex(16)
        script = _SCRIPT.format(
            command=hook.command,
            variables=_exports({"CLAUDE_PROJECT_DIR": str(workspace), **hook.variables}),
            mark=shlex.quote(mark),
            limit=OUTPUT_LIMIT_BYTES,
        )
        output = _BoundedOutput(mark.encode())
        # Not the `/tmp` of the conversation: files that the model's commands leave there must not
        # affect hooks.
        spaces = SessionSpaces()
        commands = SandboxedCommands(self._settings, processes=ProcessRegistry(spaces))
        stdin = _stdin_with(json.dumps(payload).encode())
        try:
            line = CommandLine(script, workspace, context, stdin=stdin, read_only=True)
            ended = (await commands.run(line, hook.timeout_s, output.take)).exit
        except ToolError as exc:
            await _notify(hook, context, str(exc))
            return None
        finally:
            os.close(stdin)
            await asyncio.to_thread(spaces.close)
        out, errors = output.streams()
        taint = PRIVATE | commands.taint(line) | (NOTHING if hook.is_own else UNTRUSTED)
        if ended.code == 2:
            reason = errors.strip() or t("the hook gave no reason")
            return _in_its_name(hook, HookAnswer(reason, taint))
        if ended.code == 0:
            answer = _answer_in(out, taint, is_plain=hook.event in _PLAIN)
            return _in_its_name(hook, answer)
        if ended.reason:
            why = ended.reason
        elif ended.code is None:
            why = t("it took longer than {seconds} s", seconds=f"{hook.timeout_s:g}")
        else:
            why = t("exit code {code}", code=ended.code)
            why = f"{why}: {errors.strip()[:200]}".removesuffix(": ")
        await _notify(hook, context, why)
        return None


class _BoundedOutput:
    """Buffer for the beginning of standard output and for all text after the mark."""

    def __init__(self, mark: bytes) -> None:
        self._mark, self._head, self._tail = mark, b"", b""

    def take(self, data: bytes) -> None:
        room = OUTPUT_LIMIT_BYTES - len(self._head)
        self._head += data[:room]
        # The mark and standard error are written last.
        self._tail = (self._tail + data)[-(OUTPUT_LIMIT_BYTES + len(self._mark)) :]

    def streams(self) -> tuple[str, str]:
        """Return standard output and standard error."""
        _, _, errors = self._tail.partition(self._mark)
        out, _, _ = self._head.partition(self._mark)
        return out.decode(errors="replace"), errors.decode(errors="replace")


def _described(context: CallContext, tool: Tool) -> dict[str, Any]:
    """Return the call with the names of Kore and of Claude Code for the tool and its arguments."""
    args = canonical(tool, context.call.arguments or {})
    traits = traits_of(tool)
    claude = {traits.claude_arguments.get(name, name): value for name, value in args.items()}
    name = next(iter(traits.claude_names), tool.name)
    return {"tool_name": name, "kore_tool_name": tool.name, "tool_input": {**claude, **args}}


def _answer_in(out: str, taint: frozenset[Taint], *, is_plain: bool) -> HookAnswer:
    """Parse the JSON answer of a hook, which can never allow a call.

    Other output goes to the model if `is_plain`.
    """
    try:
        answer = json.loads(out)
    except (ValueError, RecursionError):
        return HookAnswer(None, taint, words=out.strip() if is_plain else "")
    if not isinstance(answer, dict):
        return HookAnswer(None, taint)
    specific = answer.get("hookSpecificOutput")
    specific = specific if isinstance(specific, dict) else {}
    verdict = specific.get("permissionDecision")
    ends = answer.get("continue") is False
    refuses = ends or answer.get("decision") in ("block", "deny") or verdict == "deny"
    reasons = (
        answer.get("stopReason") if ends else None,
        specific.get("permissionDecisionReason"),
        answer.get("reason"),
    )
    reason = next((item for item in reasons if isinstance(item, str) and item), None)
    reason = reason or t("the hook gave no reason")
    words = specific.get("additionalContext")
    return HookAnswer(
        reason if refuses else None,
        taint,
        reason if verdict == "ask" else None,
        words.strip() if isinstance(words, str) else "",
        ends,
    )


def _in_its_name(hook: CommandHook, answer: HookAnswer) -> HookAnswer:
    """Return the answer with the origin of a third-party hook on its texts.

    People and the model then cannot mistake these texts for the words of Kore or of a person.
    People read one line that starts with the origin; the model reads quoted lines under it.
    """

    if hook.is_own:
        return answer
    origin = escape_line(hook.origin)

    def line(text: str | None) -> str | None:
        return None if text is None else _shortened(f"{origin}: {escape_line(text)}")

    def quoted(text: str) -> str:
        lines = (f"> {escape_line(line)}" for line in text.splitlines())
        return "\n".join([f"{origin}:", *lines])

    blocked = answer.blocked
    if hook.event == "UserPromptSubmit":
        # This reason is shown to a person.
        blocked = line(blocked)
    elif blocked is not None:
        blocked = quoted(blocked)
    words = quoted(answer.words) if answer.words else ""
    return replace(answer, blocked=blocked, asks=line(answer.asks), words=words)


def _shortened(line: str) -> str:
    return line if len(line) <= _MAX_REASON_CHARS else f"{line[: _MAX_REASON_CHARS - 1]}…"


def _words(event: TurnEvent, answer: HookAnswer) -> HookWords:
    if event == "Stop" and answer.blocked is not None and not answer.ends:
        # The hook prevents the end of the turn: its reason tells the model which work remains.
        return HookWords(answer.blocked, taint=answer.taint)
    return HookWords(answer.words, answer.blocked, answer.taint)


def _stdin_with(data: bytes) -> int:
    """Return a file descriptor from which the data can be read."""
    fd = os.memfd_create("hook")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _commented(result: ToolResult, text: str, taint: frozenset[Taint]) -> ToolResult:
    for_user = result.for_model if result.for_user is None else result.for_user
    return replace(
        result,
        for_model=f"{result.for_model}\n\n[A hook says: {text}]",
        for_user=for_user,
        taint=result.taint | taint,
    )


async def _notify(hook: CommandHook, context: CallContext, why: str) -> None:
    command = escape_line(hook.command)[:100]
    text = t("The hook {command} failed: {why}", command=command, why=escape_line(why))
    await context.tell(Notice("warning", context.redactor.clean(text)))
