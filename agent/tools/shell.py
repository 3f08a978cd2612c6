"""`exec`: runs a shell command in the workspace."""

import asyncio
import codecs
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from agent.errors import ToolError
from agent.prompts import fill, load
from agent.sandbox import Job
from agent.security.marks import is_marked, mark, mark_changed
from agent.security.sandbox.none import Unconfined
from agent.security.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.arguments import parameters
from agent.tools.base import CallContext, Plan
from agent.tools.cover import cover
from agent.tools.output import Output, spill_folder
from agent.tools.process import Exit, run
from agent.tools.scope import Scope
from agent.types import Effect, JsonSchema, Taint, ToolResult

if TYPE_CHECKING:
    from agent.security.proxy import Proxy

MAX_TIMEOUT_S = 600
_REFUSALS_SHOWN = 3
# File systems keep the time less exactly than the clock tells it.
_CLOCK_S = 1


class Exec:
    """Runs `sh -c` with a deadline; the result ends with the exit code.

    In a sandbox it reaches the hosts that the settings and the policy name, and no others.
    `reach` is for tests alone: it says more of how these are reached (`Grant`).
    """

    name: ClassVar[str] = "exec"
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(
        command="string", timeout_s="number?", workdir="string?"
    )

    def __init__(self, settings: ToolSettings, reach: Mapping[str, Any] | None = None) -> None:
        self._settings = settings
        self._reach = reach or {}
        self._scope = Scope(settings)
        self._sandbox = settings.sandbox or Unconfined()

    @property
    def description(self) -> str:
        told = load("tools/exec")
        hosts = self._settings.exec_hosts if self._sandbox.confines else ()
        return f"{told} {fill('tools/exec_hosts', hosts=', '.join(hosts))}" if hosts else told

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> Plan:
        """The exact command; what confines it decides whom it can reach."""
        command, folder = _command(args), self._folder(args, call)
        hosts = self._hosts(command, folder, call) if self._sandbox.confines else ("anywhere",)
        return Plan(command=command, folder=folder, hosts=hosts)

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        command = _command(args)
        folder = self._folder(args, call)
        timeout_s = self._timeout(args)
        cleaner = call.redactor.stream()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        heard = "untrusted" in call.taint or is_marked(call.workspace)
        limit, marks = self._settings.output_limit_bytes, call.workspace if heard else None
        with Output(spill_folder(call.workspace), limit, marks) as output:

            def on_output(data: bytes) -> None:
                output.feed(cleaner.feed(data))
                if text := decoder.decode(data):
                    call.output(text, "stdout")

            since = time.time() - _CLOCK_S
            try:
                async with self._proxy(command, folder, call) as proxy:
                    job = self._job(command, folder, call, proxy)
                    with self._sandbox.prepare(job) as spawn:
                        end = await run(spawn, timeout_s, on_output)
            except OSError as exc:
                reason = (exc.strerror or type(exc).__name__).lower()
                raise ToolError(f"The command could not be started: {reason}.") from exc
            finally:
                if heard and not _only_looks(command, folder, call.workspace):
                    # It may have written down what was heard, or copied a file that holds it.
                    await asyncio.to_thread(mark_changed, call.workspace, since)
            output.feed(cleaner.end().encode("latin-1"))
        text = output.text().rstrip("\n")
        shown = f"{text}\n{_refused(proxy)}{_ending(end, timeout_s)}".lstrip("\n")
        if proxy and proxy.usage.reached:
            taint = UNTRUSTED
        else:
            taint = self._taint(command, folder, call.workspace)
        return ToolResult(shown, end.code != 0, taint=taint)

    def _hosts(self, command: str, folder: Path, call: CallContext) -> tuple[str, ...]:
        """Whom a confined command may reach: nobody, when it only looks at the workspace."""
        hosts = self._settings.exec_hosts
        if not hosts:
            return ()
        from agent.security.hosts import shared_hosts

        if _only_looks(command, folder, call.workspace):
            return ()
        return shared_hosts(hosts, ("*",) if call.hosts is None else call.hosts)

    @asynccontextmanager
    async def _proxy(
        self, command: str, folder: Path, call: CallContext
    ) -> AsyncIterator["Proxy | None"]:
        """The way out of a command in a sandbox, or None when there is to be none."""
        hosts = self._hosts(command, folder, call) if self._sandbox.confines else ()
        if not hosts:
            yield None
            return
        from agent.security.proxy import Proxy
        from agent.security.proxy_connection import Grant

        async def record(where: str, allowed: bool, reason: str) -> None:
            if allowed:
                # Which of its files a later command reads nobody can tell.
                mark(call.workspace, call.workspace)
            await call.record(allowed, reason, {"host": where})

        since = time.time() - _CLOCK_S
        async with Proxy.open(Grant(hosts, **self._reach), record) as proxy:
            try:
                yield proxy
            finally:
                if proxy.usage.reached:
                    await asyncio.to_thread(mark_changed, call.workspace, since)

    def _taint(self, command: str, folder: Path, workspace: Path) -> frozenset[Taint]:
        """Which files a command has read nobody can tell, nor whom it has asked when it could."""
        if is_marked(workspace):
            return UNTRUSTED
        if self._sandbox.confines or _only_looks(command, folder, workspace):
            return NOTHING
        return UNTRUSTED

    def _job(self, command: str, folder: Path, call: CallContext, proxy: "Proxy | None") -> Job:
        workspace = call.workspace.resolve()
        if self._sandbox.confines and not folder.is_relative_to(workspace):
            raise ToolError(f"Commands run inside the workspace only: {workspace}.")
        covered = cover(self._settings, call)
        closed, masked, frozen = covered.closed, covered.masked, covered.frozen
        return Job(command, folder, workspace, closed, masked, frozen, proxy)

    def _folder(self, args: Mapping[str, Any], call: CallContext) -> Path:
        asked = args.get("workdir") or "."
        folder = self._scope.find(asked, call)
        if not folder.is_dir():
            raise ToolError(f"workdir {asked!r} is not a folder.")
        return folder

    def _timeout(self, args: Mapping[str, Any]) -> float:
        asked = args.get("timeout_s")
        timeout_s = self._settings.exec_timeout_s if asked is None else float(asked)
        if not timeout_s > 0 or math.isinf(timeout_s):
            raise ToolError(f"timeout_s must be a number of seconds above 0, found {asked}.")
        return min(timeout_s, max(MAX_TIMEOUT_S, self._settings.exec_timeout_s))


def _only_looks(command: str, folder: Path, workspace: Path) -> bool:
    from agent.security.commands import classify
    from agent.security.shell import parse

    return classify(parse(command), folder, workspace.resolve()) == "reads"


def _command(args: Mapping[str, Any]) -> str:
    command: str = args["command"]
    if not command.strip():
        raise ToolError("The command is empty.")
    if "\0" in command:
        raise ToolError("The command holds a NUL character; give it without.")
    try:
        command.encode()
    except UnicodeEncodeError as exc:
        raise ToolError("The command is not valid text.") from exc
    return command


def _refused(proxy: "Proxy | None") -> str:
    """One line for each host that was not reached, a few at most."""
    found = list(proxy.usage.refused.items())[:_REFUSALS_SHOWN] if proxy else []
    return "".join(
        fill("sandbox/host_refused", where=where, reason=reason) + "\n" for where, reason in found
    )


def _ending(end: Exit, timeout_s: float) -> str:
    if end.code is None:
        return f"[stopped: it took longer than {timeout_s:g} s]"
    if end.code < 0:
        return f"[killed by signal {-end.code}]"
    return f"[exit code {end.code}]"
