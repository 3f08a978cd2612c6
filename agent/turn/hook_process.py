"""Process of a hook command: JSON on standard input, both output streams and a deadline."""

import asyncio
import json
import os
import secrets
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from agent.i18n import t
from agent.records import frozen
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.sandboxed_command import CommandLine, SandboxedCommands
from agent.tools.shell.session_space import SessionSpaces
from agent.turn.hook_events import MAX_TIMEOUT_S
from agent.types import Taint

OUTPUT_LIMIT_BYTES = 10_000

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
class HookExit:
    """Exit of a hook; `failure` is a sentence about a hook that was ended."""

    code: int | None
    out: str
    errors: str
    taint: frozenset[Taint]
    failure: str = ""


class HookProcess:
    """Run of one hook command in the sandbox, with a read-only workspace.

    `detached` is done once the command asks to run in the background: the first line of its output
    is a JSON object with `"async": true`. An `asyncTimeout` in milliseconds then replaces the
    timeout, counted from that line.
    """

    def __init__(
        self,
        command: str,
        variables: Mapping[str, str],
        timeout_s: float,
        settings: ToolSettings,
        context: CallContext,
    ) -> None:
        self.detached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._command, self._variables = command, variables
        self._timeout_s = timeout_s
        self._settings, self._context = settings, context
        self._deadline = asyncio.timeout(timeout_s)

    async def run(self, payload: Mapping[str, Any]) -> HookExit:
        """Run the command to its end. Raises `ToolError` if it cannot be started."""
        mark = secrets.token_hex(16)
        workspace = self._context.workspace
        script = _SCRIPT.format(
            command=self._command,
            variables=_exports({"CLAUDE_PROJECT_DIR": str(workspace), **self._variables}),
            mark=shlex.quote(mark),
            limit=OUTPUT_LIMIT_BYTES,
        )
        output = _BoundedOutput(mark.encode(), self._take_first_line)
        # Not the `/tmp` of the conversation: files that the model's commands leave there must not
        # affect hooks.
        spaces = SessionSpaces()
        commands = SandboxedCommands(self._settings, processes=ProcessRegistry(spaces))
        stdin = _stdin_with(json.dumps(payload).encode())
        code: int | None = None
        failure = ""
        line = CommandLine(script, workspace, self._context, stdin=stdin, read_only=True)
        try:
            async with self._deadline:
                ended = (await commands.run(line, None, output.take)).exit
                code, failure = ended.code, ended.reason
        except TimeoutError:
            failure = t("it took longer than {seconds} s", seconds=f"{self._timeout_s:g}")
        finally:
            os.close(stdin)
            await asyncio.to_thread(spaces.close)
        out, errors = output.streams()
        return HookExit(code, out, errors, commands.taint(line), failure)

    def _take_first_line(self, line: bytes) -> None:
        request = async_request(line.decode(errors="replace"))
        if request is None or self._deadline.expired():
            return
        timeout_ms = request.get("asyncTimeout")
        if isinstance(timeout_ms, int | float) and timeout_ms > 0:
            self._timeout_s = min(timeout_ms / 1000, MAX_TIMEOUT_S)
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._timeout_s)
        self.detached.set_result(None)


def async_request(line: str) -> dict[str, Any] | None:
    """Return the request of a hook to run in the background, or None for another line."""
    value = read_object(line)
    return value if value is not None and value.get("async") is True else None


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that is the whole text, or None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _BoundedOutput:
    """Buffer for the beginning of standard output and for all text after the mark."""

    def __init__(self, mark: bytes, on_first_line: Callable[[bytes], None]) -> None:
        self._mark, self._head, self._tail = mark, b"", b""
        self._on_first_line: Callable[[bytes], None] | None = on_first_line

    def take(self, data: bytes) -> None:
        room = OUTPUT_LIMIT_BYTES - len(self._head)
        self._head += data[:room]
        # The mark and standard error are written last.
        self._tail = (self._tail + data)[-(OUTPUT_LIMIT_BYTES + len(self._mark)) :]
        if self._on_first_line is not None and b"\n" in self._head:
            self._on_first_line(self._head.partition(b"\n")[0])
            self._on_first_line = None

    def streams(self) -> tuple[str, str]:
        """Return standard output and standard error."""
        _, _, errors = self._tail.partition(self._mark)
        out, _, _ = self._head.partition(self._mark)
        return out.decode(errors="replace"), errors.decode(errors="replace")


def _stdin_with(data: bytes) -> int:
    """Return a file descriptor from which the data can be read."""
    fd = os.memfd_create("hook")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
