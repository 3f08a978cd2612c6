"""`exec` tool: run a shell command in the workspace."""

import asyncio
import codecs
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.security.local_services import (
    LocalService,
    OwnServices,
    mentioned_services,
    names_service,
    split_services,
)
from agent.security.network.urls import host_name
from agent.security.policy.base import Deletion
from agent.security.policy.roles import in_hosts
from agent.security.sandbox.command_report import CommandReport
from agent.security.shell.own_network import is_own_host
from agent.security.taint.taint import PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.terminal_output import TerminalOutput
from agent.tools.base import BackgroundTask, CallContext, CommandFiles, EffectPlan, TaskOutput
from agent.tools.call_arguments import canonical
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.output_spill import SpillBuffer, spill_folder
from agent.tools.schema import parameters
from agent.tools.shell.background_process import ProcessOrigin, report
from agent.tools.shell.patch_command import PROGRAM, find_patch
from agent.tools.shell.process_group import Exit
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.sandbox_remark import CommandEnd, refusal_remark
from agent.tools.shell.sandboxed_command import CommandLine, CommandResult, SandboxedCommands
from agent.tools.shell.session_space import SessionSpaces
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolCall, ToolResult
from agent.undo.recorder import Recorder

_MAX_HOSTS = 8


def wanted_hosts(
    words: Sequence[str],
    limit: tuple[str, ...] | None,
    own: OwnServices,
    writable: Sequence[Path],
) -> dict[str, LocalService | None]:
    """Return the hosts and local services in canonical form.

    May block. `limit` is the role's limit; Kore's `own` services are rejected. Commands can change
    the folders `writable`. Raises `ToolError`.
    """
    if len(words) > _MAX_HOSTS:
        raise ToolError(f"network lists {len(words)} hosts; the limit is {_MAX_HOSTS}.")
    hosts: dict[str, LocalService | None] = {}
    for word in words:
        service = _service(word, own, writable) if names_service(word) else None
        host = _host(word) if service is None else str(service)
        if limit is not None and not in_hosts(host, limit):
            raise ToolError(f"The role does not let commands reach {host}.")
        hosts[host] = service
    return hosts


def _service(word: str, own: OwnServices, writable: Sequence[Path]) -> LocalService:
    """Return a local service in its canonical form. Raises `ToolError`."""
    try:
        service = LocalService.parse(word).pinned(writable)
    except ValueError as exc:
        raise ToolError(f"network: {exc}") from exc
    if (objection := own.objection(service)) is not None:
        raise ToolError(objection)
    return service


def _host(word: str) -> str:
    """Return a host in its canonical form. Raises `ToolError`."""
    try:
        host = host_name(word)
    except (ValueError, UnicodeError) as exc:
        raise ToolError(
            "network takes host names such as example.org and services of this machine such as"
            f" 127.0.0.1:5432, found {word[:60]!r}."
        ) from exc
    if host.startswith("*"):
        # `*.com` is nearly everything; only settings name machines by a pattern.
        raise ToolError(f"network takes full host names: list each host of {host}.")
    if is_own_host(host):
        raise ToolError(
            f"{host} is the command's own network; leave it out of network, or add the port of a"
            " service of this machine, as in 127.0.0.1:5432."
        )
    return host


MAX_TIMEOUT_S = 600
_MAX_REASON_CHARS = 300


class Exec:
    """Tool that runs `sh -c` with a timeout; the result ends with the exit code.

    In a sandbox the command reaches only the hosts that the settings and the policy name. A command
    left in the background is one of `processes`. `reach` exists for tests only: options of the
    network access (`Grant`).
    """

    name: ClassVar[str] = "exec"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "execute",
        ("commands", "hosts"),
        mark_for_translation("Running {command}"),
        aliases=("bash", "shell", "runcommand", "runshellcommand"),
        argument_aliases={
            "cmd": "command",
            "timeout": "timeout_s",
            "cwd": "workdir",
            "run_in_background": "background",
        },
        ignored_arguments=frozenset({"description"}),
        claude_names=("Bash",),
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(
        command="string",
        timeout_s="number?",
        workdir="string?",
        background="boolean?",
        outside="boolean?",
        reason="string?",
        network="string?",
    )

    def __init__(
        self,
        settings: ToolSettings,
        reach: Mapping[str, Any] | None = None,
        processes: ProcessRegistry | None = None,
    ) -> None:
        self._settings = settings
        self._scope = WorkspaceScope(settings)
        self.processes = processes or ProcessRegistry(SessionSpaces(settings.temporary_folder))
        self._commands = SandboxedCommands(settings, reach, self.processes)

    @property
    def description(self) -> str:
        parts = [load_prompt("tools/exec")]
        if self._commands.confines:
            parts.append(load_prompt("tools/exec_outside"))
            if hosts := self._settings.exec_hosts:
                parts.append(render_prompt("tools/exec_hosts", hosts=", ".join(hosts)))
            if services := split_services(self._settings.exec_local)[1]:
                names = ", ".join(map(str, services))
                parts.append(render_prompt("tools/exec_local", services=names))
        return " ".join(parts)

    def stands_for(self, call: ToolCall) -> ToolCall:
        """Return a call of `apply_patch` for a command that applies a patch."""
        arguments = canonical(self, call.arguments or {})
        command, folder = arguments.get("command"), arguments.get("workdir") or ""
        if not isinstance(command, str) or not isinstance(folder, str):
            return call
        patch = find_patch(command, folder)
        return call if patch is None else replace(call, name=PROGRAM, arguments={"input": patch})

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the exact command; its confinement decides which hosts it can reach."""
        line = self._line(args, replace(call, plan=None))
        if line.outside_reason is None:
            requested = await asyncio.to_thread(self._network, args, call)
            line = replace(line, network=tuple(requested))
        else:
            requested = {}
        line = replace(line, read_only=self._commands.is_read_only(line))
        deletion = None if line.is_frozen else await asyncio.to_thread(self._deletion, line)
        sandbox_scope = await asyncio.to_thread(self._commands.sandbox_scope, line)
        network = self._commands.unsettled_hosts(line)
        return EffectPlan(
            command=line.command,
            folder=line.folder,
            hosts=self._commands.hosts(line),
            read_only=line.read_only,
            outside_reason=line.outside_reason,
            network=network,
            services=tuple(service for name in network if (service := requested[name]) is not None),
            sandbox_scope=sandbox_scope,
            deletion=deletion,
        )

    async def bind(
        self, plan: EffectPlan, args: Mapping[str, Any], call: CallContext
    ) -> EffectPlan:
        """Return the plan with the scripts of the command, its home and its confinement."""
        line = self._line(args, replace(call, plan=plan))
        contents = await asyncio.to_thread(line.contents)
        home = await asyncio.to_thread(self._commands.home, line)
        return replace(
            plan,
            contents=contents.digest,
            unbound=contents.unbound or home.unbound,
            confinement=self._commands.confinement(line, home),
            prefixes=() if home.unbound else await asyncio.to_thread(self._commands.prefixes, line),
            home_settings=home.names,
        )

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        line, timeout_s = self._line(args, call), _timeout(args)
        if line.background:
            return await self._begin(line, timeout_s)
        longest_s = max(MAX_TIMEOUT_S, self._settings.exec_timeout_s)
        timeout_s = min(timeout_s or self._settings.exec_timeout_s, longest_s)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        limit, marks = (
            self._settings.output_limit_bytes,
            call.workspace if line.is_exposed() else None,
        )
        with SpillBuffer(spill_folder(call.workspace), limit, marks) as output:

            def on_text(data: bytes, *, last: bool = False) -> None:
                output.feed(cleaner.feed(data))
                if text := decoder.decode(data, last):
                    call.output(text, "stdout")

            cleaner, terminal = call.redactor.stream(), TerminalOutput()
            async with await asyncio.to_thread(self._record_changes, line):
                ended = await self._commands.run(
                    line, timeout_s, lambda data: on_text(terminal.feed(data))
                )
            on_text(terminal.end(), last=True)
            output.feed(cleaner.end_bytes())
        text = output.text().rstrip("\n")
        remark = ended.report + (
            ended.refusals or await asyncio.to_thread(self._remark, line, ended, text)
        )
        remark += _describe_left(ended.facts)
        result_text = f"{text}\n{remark}{_ending(ended, timeout_s)}".lstrip("\n")
        taint = UNTRUSTED if ended.has_reached_host else self._commands.taint(line)
        return output.with_truncation_note(
            ToolResult(result_text, ended.exit.code != 0 or bool(ended.exit.reason), taint=taint)
        )

    async def aclose(self) -> None:
        await self.processes.aclose()

    async def end(self, session: str) -> None:
        await self.processes.end(session)

    def tasks(self, session: str) -> Sequence[BackgroundTask]:
        return [
            BackgroundTask(
                str(process.number),
                process.title,
                process.state,
                process.exit_description is None,
                process.began_at,
                process.last_line,
            )
            for process in self.processes.of(session)
        ]

    def kill(self, session: str, id: str) -> bool:
        return self.processes.request_kill(session, id)

    def output(self, session: str, id: str, position: int) -> TaskOutput | None:
        for process in self.processes.of(session):
            if str(process.number) == id:
                return process.output_since(position)
        return None

    def facts(self, session: str) -> Sequence[str]:
        return self.processes.facts(session)

    def mark_reported(self, session: str) -> None:
        self.processes.mark_reported(session)

    def shared_files(self, call: CallContext) -> CommandFiles | None:
        return self._commands.shared_files(call)

    def background_taint(self, workspace: Path) -> frozenset[Taint]:
        return self.processes.background_taint(workspace)

    def _remark(self, line: CommandLine, ended: CommandResult, text: str) -> str:
        """Return advice on accesses that the sandbox refused. May block."""
        if not self._commands.holds(line):
            return ""
        end = CommandEnd(
            ended.exit.code,
            line.command,
            line.folder,
            self._commands.readable(line),
            report=ended.facts,
            read_only=line.read_only,
            has_hosts=self._commands.reaches_hosts(line),
            denies=self._commands.sandbox_name == "landlock",
            may_write=line.call.may_write,
        )
        if end.has_failed:
            end = replace(end, services=self._unreached_services(line, text))
        return refusal_remark(text, end, may_leave=line.call.owner)

    def _unreached_services(self, line: CommandLine, text: str) -> Sequence[str]:
        """Return the services of this machine that the command names and cannot reach."""
        own, reachable = self._settings.own_services, self._commands.hosts(line)
        return [
            str(service)
            for service in mentioned_services(f"{line.command}\n{text}")
            if str(service) not in reachable and own.objection(service) is None
        ]

    def _deletion(self, line: CommandLine) -> Deletion | None:
        """Return known deletions of a command, or possible deletions if unprotected. May block."""
        targets = line.deletion_targets()
        unprotected = self._commands.unprotected_history(line)
        deletion = None
        if targets is not None:
            changes = Recorder() if line.background else line.call.changes
            call, is_confined = line.call, self._commands.holds(line)
            added = self._scope.recorded_outside(call)
            coverage = changes.coverage(call.workspace, self._scope.unrecorded(call), added)
            deletion = coverage.deletion(targets, confined=is_confined)
        if not unprotected:
            return deletion
        deletion = deletion or Deletion()
        return replace(deletion, lost=(*deletion.lost, ("unprotected", unprotected)))

    def _record_changes(self, line: CommandLine) -> AbstractAsyncContextManager[None]:
        """Record changes of files, unless the command cannot write."""
        if line.is_frozen:
            return nullcontext()
        added = self._scope.recorded_outside(line.call)
        return line.call.changes.command(self._scope.unrecorded(line.call), added)

    async def _begin(self, line: CommandLine, timeout_s: float | None) -> ToolResult:
        """Leave the command running; return its first output."""
        call = line.call

        async def work(stdin: int, say: Callable[[bytes], None]) -> Exit:
            cleaner, terminal = call.redactor.stream(), TerminalOutput(partial_lines=True)
            try:
                with call.changes.background_command():
                    ended = await self._commands.run(
                        replace(line, stdin=stdin),
                        timeout_s,
                        lambda data: say(cleaner.feed(terminal.feed(data))),
                    )
                    say(cleaner.feed(terminal.end()))
                    say(f"\n{ended.report}".encode() if ended.report else b"")
            finally:
                say(cleaner.feed(terminal.end()) + cleaner.end_bytes())
            return ended.exit

        origin = ProcessOrigin(
            line.command,
            line.folder,
            call.workspace,
            self._commands.hosts(line),
            self._commands.taint(line),
            line.is_exposed(),
            line.is_frozen,
        )
        if not line.is_frozen:
            call.changes.notes.append("what this changes in the background cannot be undone")
        on_end = call.environment.on_command_end
        process = await self.processes.start(call.session, origin, work, on_end)
        if process.start_error is not None:
            raise ToolError(process.start_error)
        result = await report(process, call, self._settings.output_limit_bytes)
        if process.exit_description is not None:
            return result
        hints = [result.for_model]
        if self._commands.holds(line):
            is_shared = await asyncio.to_thread(self._commands.shares_network, call.session)
            hints.append(load_prompt(f"tools/exec_{'shared' if is_shared else 'alone'}"))
        if on_end is not None:
            hints.append(load_prompt("tools/exec_told"))
        return replace(result, for_model="\n".join(hints))

    def _line(self, args: Mapping[str, Any], call: CallContext) -> CommandLine:
        """Return the command as its plan names it. Raises `ToolError`.

        Without a plan, nothing was judged yet, and the command reaches no further hosts.
        """
        command, plan = _command(args), call.plan or EffectPlan()
        return CommandLine(
            command,
            self._folder(args, call),
            call,
            args.get("background") is True,
            read_only=plan.read_only,
            outside_reason=self._outside_reason(args, call),
            network=plan.network,
            services=plan.services,
        )

    def _folder(self, args: Mapping[str, Any], call: CallContext) -> Path:
        """Return the real working folder. Raises `ToolError`."""
        workdir = args.get("workdir") or "."
        folder = self._scope.find(workdir, call)
        if not folder.is_dir():
            raise ToolError(f"workdir {workdir!r} is not a folder.")
        planned = None if call.plan is None else call.plan.folder
        if planned not in (None, folder):
            raise ToolError(f"workdir {workdir!r} now leads to another folder: call exec again.")
        return folder

    def _network(
        self, args: Mapping[str, Any], call: CallContext
    ) -> dict[str, LocalService | None]:
        """Return the hosts that the command needs beyond the hosts of the settings.

        Return none if no sandbox restricts the network. Raises `ToolError`. May block.
        """
        words = str(args.get("network") or "").replace(",", " ").split()
        if not words or not self._commands.confines:
            return {}
        if not call.owner:
            raise ToolError("Only the owner's conversations can ask for network access.")
        writable = self._commands.changeable_folders(call)
        hosts = wanted_hosts(words, call.hosts, self._settings.own_services, writable)
        if args.get("background") is True:
            for name, service in hosts.items():
                # Data could leave as long as the command runs.
                if service is None or service.is_engine:
                    raise ToolError(
                        f"A command in the background cannot ask for {name}, only for services such"
                        " as 127.0.0.1:5432: run it without background."
                    )
        return hosts

    def _outside_reason(self, args: Mapping[str, Any], call: CallContext) -> str | None:
        """Return the reason to run the command outside of the sandbox.

        Return None if it runs inside or if there is none. Raises `ToolError`.
        """
        if args.get("outside") is not True or not self._commands.confines:
            return None
        if not call.owner:
            raise ToolError("Only the owner's conversations can run commands outside the sandbox.")
        # On one line, so that no part of it reads as a message of Kore.
        reason = " ".join(str(args.get("reason") or "").split())
        if not reason:
            raise ToolError(
                "outside needs a reason: say in one sentence what the sandbox prevents."
            )
        if len(reason) > _MAX_REASON_CHARS:
            raise ToolError(
                f"The reason is too long: one sentence, {_MAX_REASON_CHARS} characters."
            )
        return reason


def _timeout(args: Mapping[str, Any]) -> float | None:
    argument = args.get("timeout_s")
    timeout_s = None if argument is None else float(argument)
    if timeout_s is not None and (not timeout_s > 0 or math.isinf(timeout_s)):
        raise ToolError(f"timeout_s must be a number of seconds above 0, found {argument}.")
    return timeout_s


def _command(args: Mapping[str, Any]) -> str:
    command: str = args["command"]
    if not command.strip():
        raise ToolError("The command is empty.")
    if "\0" in command:
        raise ToolError("The command contains a NUL character; remove it.")
    try:
        command.encode()
    except UnicodeEncodeError as exc:
        raise ToolError("The command is not valid text.") from exc
    return command


def _describe_left(facts: CommandReport) -> str:
    if not facts.left_processes:
        return ""
    return render_prompt("tools/exec_left", names=", ".join(facts.left_processes)) + "\n"


def _ending(ended: CommandResult, timeout_s: float) -> str:
    end, pipeline = ended.exit, ended.facts.pipeline
    if end.reason:
        return end.reason
    if end.code is None:
        return f"[stopped: it took longer than {timeout_s:g} s. {load_prompt('tools/exec_longer')}]"
    if end.code < 0:
        return f"[killed by signal {-end.code}]"
    if len(pipeline) > 1 and end.code in pipeline and ended.facts.has_failed_part:
        return f"[exit code {end.code}; of the pipeline: {', '.join(map(str, pipeline))}]"
    return f"[exit code {end.code}]"
