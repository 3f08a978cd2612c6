"""Hooks from the configuration: shell commands, and prompts for a model that judges a step.

Commands get JSON on standard input, and exit code 2 blocks. They run in the sandbox of `exec`, with
a read-only workspace and without network access. A hook can reject a call, require the consent of a
person or comment on a call. It cannot allow a call that the policy rejects.
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from agent.errors import BadOutput, ConfigError, LimitReached, ProviderError, ToolError
from agent.events import Notice
from agent.i18n import t
from agent.records import frozen
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.base import CallContext, Tool
from agent.tools.call_arguments import canonical
from agent.tools.traits import traits_of
from agent.turn.background_hooks import MAX_RUNNING, LateAnswer
from agent.turn.hook_events import DEFINITIONS, HookEventName
from agent.turn.hook_process import HookExit, HookProcess, async_request, read_object
from agent.turn.hooks import AskFirst, HookContext, Hooks, HookWords
from agent.types import Taint, ToolResult

log = logging.getLogger(__name__)

# Limit for reasons that are shown to people.
_MAX_REASON_CHARS = 500
_MAX_LOGGED_CHARS = 2_000


class _Matching:
    """Comparison of a hook's matcher with tools and with the input of events."""

    __slots__ = ()
    event: HookEventName
    matcher: str

    def matches(self, tool: Tool) -> bool:
        """Return whether the matcher names the tool, by its own name or its Claude Code names."""
        return self._fits((tool.name, *traits_of(tool).claude_names))

    def fits(self, facts: Mapping[str, Any]) -> bool:
        """Return whether the hook handles an event with this input."""
        key = DEFINITIONS[self.event].matched
        return not key or self._fits((str(facts.get(key, "")),))

    def _fits(self, names: Sequence[str]) -> bool:
        if self.matcher in ("", "*"):
            return True
        return any(re.fullmatch(self.matcher, name) is not None for name in names)


@frozen
class CommandHook(_Matching):
    """A hook command and the event that it handles.

    `matcher` is a regular expression; '' and '*' match everything. `origin` describes the source of
    the hook, and `variables` are set for the command. Output counts as untrusted unless the hook
    `is_own`, that is, configured by the owner. Nothing waits for a command that `is_async`.
    """

    event: HookEventName
    command: str
    matcher: str = ""
    timeout_s: float = 60
    origin: str = ""
    is_own: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    is_async: bool = False

    @property
    def title(self) -> str:
        return self.command


@frozen
class PromptHook(_Matching):
    """A prompt that a model answers about an event; the other fields are those of `CommandHook`.

    With `continues_on_block`, a rejection after a call is a comment on it; otherwise it ends the
    turn.
    """

    event: HookEventName
    prompt: str
    matcher: str = ""
    timeout_s: float = 30
    origin: str = ""
    is_own: bool = True
    model: str | None = None
    continues_on_block: bool = False

    @property
    def title(self) -> str:
        return self.prompt


ConfiguredHook: TypeAlias = CommandHook | PromptHook


@frozen
class HookAnswer:
    """Parsed answer of a hook.

    `blocked` is the reason for a rejection and `asks` the reason for asking a person; None means
    neither. `words` go to the model, and `notice` to the person. `taint` covers all texts. `ends`
    requests the end of the turn.
    """

    blocked: str | None
    taint: frozenset[Taint]
    asks: str | None = None
    words: str = ""
    ends: bool = False
    notice: str = ""


class CommandHooks(Hooks[Any]):
    """Runner for configured hooks, in order. A failing hook only causes a notice."""

    def __init__(self, hooks: Sequence[ConfiguredHook], settings: ToolSettings) -> None:
        self._hooks = tuple(hooks)
        self._settings = settings

    async def before_call(self, context: HookContext, tool: Tool) -> ToolResult | AskFirst | None:
        """Return a rejection, a request to ask a person, or None."""
        asks: AskFirst | None = None
        call = context.call
        for hook in self._of("PreToolUse", tool):
            answer = await self._ask(hook, context, _described(context, tool))
            if answer is None:
                continue
            if answer.blocked is not None:
                if answer.ends:
                    context.end_turn(answer.blocked)
                text = f"A hook blocked this call: {answer.blocked}"
                return ToolResult(text, is_error=True, taint=answer.taint)
            if answer.asks is not None and asks is None:
                why = _shortened(escape_line(answer.asks))
                reason = t("a hook wants you to decide: {why}", why=why)
                asks = AskFirst(call.redactor.clean(reason))
        return asks

    async def after_call(self, context: HookContext, tool: Tool, result: ToolResult) -> ToolResult:
        """Return the result of a call that has begun, with the comments of the hooks appended."""
        event: HookEventName = "PostToolUseFailure" if result.is_error else "PostToolUse"
        for hook in self._of(event, tool):
            payload = _described(context, tool)
            if result.is_error:
                payload |= {"error": result.for_model, "is_interrupt": False}
            else:
                payload["tool_response"] = {"content": result.for_model, "is_error": False}
            answer = await self._ask(hook, context, payload, result.taint)
            if answer is None:
                continue
            if answer.ends and answer.blocked is not None:
                context.end_turn(answer.blocked)
            for text in filter(None, [answer.blocked, answer.words]):
                result = _commented(result, text, answer.taint)
        return result

    async def on_event(
        self, event: HookEventName, context: HookContext, facts: Mapping[str, Any]
    ) -> HookWords:
        """Return the combined answers of the hooks for an event outside calls."""
        words = HookWords()
        facts = {**facts, **_subagent(context)}
        for hook in self._hooks:
            if hook.event != event or not hook.fits(facts):
                continue
            if (answer := await self._ask(hook, context, facts)) is None:
                continue
            if answer.blocked is not None and not DEFINITIONS[event].can_block and not answer.ends:
                await _show(context.call, f"{_name(hook)}: {answer.blocked}")
                answer = replace(answer, blocked=None)
            words = words.with_more(_words(event, answer))
            if words.refusal is not None:
                return words
        if event == "UserPromptSubmit":
            words = words.with_more(await _late_words(context))
        return words

    def _of(self, event: HookEventName, tool: Tool) -> list[ConfiguredHook]:
        return [hook for hook in self._hooks if hook.event == event and hook.matches(tool)]

    async def _ask(
        self,
        hook: ConfiguredHook,
        context: HookContext,
        facts: Mapping[str, Any],
        taint: frozenset[Taint] = NOTHING,
    ) -> HookAnswer | None:
        """Return the answer of the hook to the input, whose taint is `taint`.

        Return None for a hook that runs in the background. On failure, notify the person and return
        None.
        """
        call = context.call
        payload = {
            "session_id": call.session,
            "cwd": str(call.workspace),
            "hook_event_name": hook.event,
            **facts,
        }
        answer: HookAnswer | None
        try:
            if isinstance(hook, PromptHook):
                answer = await _judge(hook, context, payload, taint)
            else:
                answer = await self._run(hook, context, payload)
        except _HookFailed as exc:
            await _show(call, _failure(hook, str(exc)))
            return None
        if answer is not None and answer.notice:
            await _show(call, answer.notice, "info")
        return answer

    async def _run(
        self, hook: CommandHook, context: HookContext, payload: Mapping[str, Any]
    ) -> HookAnswer | None:
        """Return the command's answer, or None if it goes on in the background.

        Raises `_HookFailed`.
        """
        if hook.is_async and not context.background.has_room:
            raise _too_many()
        process = HookProcess(
            hook.command, hook.variables, hook.timeout_s, self._settings, context.call
        )
        task = asyncio.create_task(process.run(payload), name="hook")
        try:
            if not hook.is_async:
                first: set[asyncio.Future[Any]] = {task, process.detached}
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return _answer_of(hook, await _exit(task), context)
            if not context.background.has_room:
                raise _too_many()
        except BaseException:
            task.cancel()
            await asyncio.wait({task})
            raise
        context.background.start(task, _follow(task, hook, context))
        return None


class _HookFailed(Exception):
    """A hook gave no answer; the text is the reason for people."""


def _too_many() -> _HookFailed:
    why = t("too many hooks already run in the background; the limit is {limit}", limit=MAX_RUNNING)
    return _HookFailed(why)


async def _exit(task: "asyncio.Task[HookExit]") -> HookExit:
    """Return the exit of a hook. Raises `_HookFailed` if it could not run or was ended."""
    try:
        ended = await task
    except ToolError as exc:
        raise _HookFailed(str(exc)) from exc
    if ended.failure:
        raise _HookFailed(ended.failure)
    if ended.code not in (0, 2):
        why = t("exit code {code}", code=ended.code)
        raise _HookFailed(f"{why}: {ended.errors.strip()[:200]}".removesuffix(": "))
    return ended


def _answer_of(hook: CommandHook, ended: HookExit, context: HookContext) -> HookAnswer | None:
    """Return the answer of a hook that was awaited; None if its texts are for the next turn."""
    if async_request(ended.out.partition("\n")[0]) is not None:
        # It ended before it could run in the background.
        _keep(hook, ended, context)
        return None
    taint = _taint_of(hook, ended)
    if ended.code == 2:
        reason = ended.errors.strip() or t("the hook gave no reason")
        return _in_its_name(hook, HookAnswer(reason, taint))
    value = read_object(ended.out)
    if value is not None:
        return _in_its_name(hook, _answer_in(value, taint))
    text = ended.out.strip() if DEFINITIONS[hook.event].takes_text else ""
    return _in_its_name(hook, HookAnswer(None, taint, words=text))


def _late_answer(out: str, taint: frozenset[Taint]) -> HookAnswer:
    """Return the texts of a hook in the background, which cannot block or end anything."""
    request, _, rest = out.partition("\n")
    if async_request(request) is None:
        rest = out
    values = [read_object(rest), *map(read_object, reversed(rest.splitlines()))]
    value = next((value for value in values if value is not None), {})
    answer = _answer_in(value, taint)
    return HookAnswer(None, taint, words=answer.words, notice=answer.notice)


async def _follow(task: "asyncio.Task[HookExit]", hook: CommandHook, context: HookContext) -> None:
    """Wait for a hook in the background, log its output and keep its texts."""
    try:
        ended = await _exit(task)
    except _HookFailed as exc:
        log.warning("%s", context.call.redactor.clean(_failure(hook, str(exc))))
        return
    _keep(hook, ended, context)


def _keep(hook: CommandHook, ended: HookExit, context: HookContext) -> None:
    """Log the output of a hook that ran in the background, and keep its texts."""
    output = context.call.redactor.clean(f"{ended.out}{ended.errors}".strip())
    log.info("the hook %s ended: %s", _name(hook), escape_line(output)[:_MAX_LOGGED_CHARS])
    if ended.code == 2:
        return
    answer = _in_its_name(hook, _late_answer(ended.out, _taint_of(hook, ended)))
    if answer.words or answer.notice:
        late = LateAnswer(answer.words, answer.notice, answer.taint)
        context.background.keep(context.call.session, late)


async def _late_words(context: HookContext) -> HookWords:
    """Return the texts of hooks that ended in the background since the last turn."""
    words = HookWords()
    for answer in context.background.take(context.call.session):
        if answer.notice:
            await _show(context.call, answer.notice, "info")
        words = words.with_more(HookWords(answer.words, taint=answer.taint))
    return words


async def _judge(
    hook: PromptHook, context: HookContext, payload: Mapping[str, Any], taint: frozenset[Taint]
) -> HookAnswer:
    """Return the model's verdict. Raises `_HookFailed`."""
    from agent.turn.hook_judge import judge

    try:
        verdict = await judge(
            hook.prompt, payload, context, model=hook.model, timeout_s=hook.timeout_s
        )
    except TimeoutError as exc:
        why = t("it took longer than {seconds} s", seconds=f"{hook.timeout_s:g}")
        raise _HookFailed(why) from exc
    except BadOutput as exc:
        raise _HookFailed(t("the model gave no verdict")) from exc
    except (ProviderError, LimitReached, ConfigError) as exc:
        raise _HookFailed(str(exc)) from exc
    taint |= PRIVATE | context.call.taint | (NOTHING if hook.is_own else UNTRUSTED)
    if verdict.ok:
        return HookAnswer(None, taint)
    reason = verdict.reason.strip() or t("the hook gave no reason")
    ends = hook.event == "PostToolUse" and not hook.continues_on_block
    return _in_its_name(hook, HookAnswer(reason, taint, ends=ends))


def _taint_of(hook: CommandHook, ended: HookExit) -> frozenset[Taint]:
    return PRIVATE | ended.taint | (NOTHING if hook.is_own else UNTRUSTED)


def _subagent(context: HookContext) -> dict[str, Any]:
    if not context.is_subagent:
        return {}
    call = context.call
    return {"agent_id": call.session, "agent_type": call.environment.agent}


def _described(context: HookContext, tool: Tool) -> dict[str, Any]:
    """Return the call with the names of Kore and of Claude Code for the tool and its arguments."""
    call = context.call.call
    args = canonical(tool, call.arguments or {})
    traits = traits_of(tool)
    claude = {traits.claude_arguments.get(name, name): value for name, value in args.items()}
    name = next(iter(traits.claude_names), tool.name)
    return {
        "tool_name": name,
        "kore_tool_name": tool.name,
        "tool_input": {**claude, **args},
        "tool_use_id": call.id,
        **_subagent(context),
    }


def _answer_in(answer: Mapping[str, Any], taint: frozenset[Taint]) -> HookAnswer:
    """Parse the JSON answer of a hook, which can never allow a call."""
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
    words = specific.get("additionalContext", answer.get("additionalContext"))
    notice = answer.get("systemMessage")
    return HookAnswer(
        reason if refuses else None,
        taint,
        reason if verdict == "ask" else None,
        words.strip() if isinstance(words, str) else "",
        ends,
        notice.strip() if isinstance(notice, str) else "",
    )


def _in_its_name(hook: ConfiguredHook, answer: HookAnswer) -> HookAnswer:
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
    if answer.ends or not _is_for_model(hook.event):
        # This reason is shown to a person.
        blocked = line(blocked)
    elif blocked is not None:
        blocked = quoted(blocked)
    words = quoted(answer.words) if answer.words else ""
    notice = line(answer.notice or None) or ""
    return replace(answer, blocked=blocked, asks=line(answer.asks), words=words, notice=notice)


def _is_for_model(event: HookEventName) -> bool:
    """Return whether the model reads the reason of a rejection."""
    return event.endswith(("ToolUse", "ToolUseFailure", "Stop"))


def _shortened(line: str) -> str:
    return line if len(line) <= _MAX_REASON_CHARS else f"{line[: _MAX_REASON_CHARS - 1]}…"


def _words(event: HookEventName, answer: HookAnswer) -> HookWords:
    if event in ("Stop", "SubagentStop") and answer.blocked is not None and not answer.ends:
        # The hook prevents the end of the turn: its reason tells the model which work remains.
        return HookWords(answer.blocked, taint=answer.taint)
    return HookWords(answer.words, answer.blocked, answer.taint)


def _commented(result: ToolResult, text: str, taint: frozenset[Taint]) -> ToolResult:
    for_user = result.for_model if result.for_user is None else result.for_user
    return replace(
        result,
        for_model=f"{result.for_model}\n\n[A hook says: {text}]",
        for_user=for_user,
        taint=result.taint | taint,
    )


def _name(hook: ConfiguredHook) -> str:
    return escape_line(hook.title)[:100]


def _failure(hook: ConfiguredHook, why: str) -> str:
    return t("The hook {command} failed: {why}", command=_name(hook), why=escape_line(why))


async def _show(
    context: CallContext, text: str, level: Literal["info", "warning"] = "warning"
) -> None:
    await context.tell(Notice(level, _shortened(escape_line(context.redactor.clean(text)))))
