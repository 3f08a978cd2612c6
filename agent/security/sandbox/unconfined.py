"""Execution without a sandbox, and rejection of all commands."""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar

from agent.errors import ToolError
from agent.records import frozen
from agent.security.sandbox.base import SandboxCommand, SpawnSpec, with_parent_watch
from agent.security.sandbox.environment import shell, variables_of_command

_PASSED = ("PATH", "HOME", "LANG", "TERM", "TZ", "USER", "TMPDIR")


# Names of variables that may contain secrets.
_SECRET = re.compile("key|token|secret|passw|credential|auth(?!or)", re.IGNORECASE)


@frozen
class Unconfined:
    """Execution of commands with all rights of the user.

    Variables that may contain secrets are removed: only a few remain or, with `passes_environment`,
    all whose names do not suggest a secret.
    """

    passes_environment: bool = False

    name: ClassVar[str] = "none"
    confines: ClassVar[bool] = False
    supports_egress: ClassVar[bool] = False

    @contextmanager
    def prepare(self, job: SandboxCommand) -> Iterator[SpawnSpec]:
        env = {
            name: value
            for name, value in os.environ.items()
            if name in _PASSED or name.startswith("LC_") or self._passes(name)
        }
        env.setdefault("PATH", os.defpath)
        command = with_parent_watch([shell(), "-c", job.command], stdin=job.stdin)
        pass_fds: tuple[int, ...] = () if job.stdin is None else (job.stdin,)
        if job.report is not None:
            pass_fds += job.report.descriptors
            env |= job.report.variables(job.command, shell())
        env |= {**variables_of_command(job), **job.variables}
        yield SpawnSpec(command, env, job.folder, pass_fds, lists_group=True)

    def _passes(self, name: str) -> bool:
        is_own = name.startswith("KORE_")
        return self.passes_environment and not is_own and _SECRET.search(name) is None


@frozen
class NoCommands:
    """Sandbox that rejects all commands; `reason` is a sentence that explains why and names a
    remedy.
    """

    reason: str

    name: ClassVar[str] = "none"
    confines: ClassVar[bool] = False
    supports_egress: ClassVar[bool] = False

    def prepare(self, job: SandboxCommand) -> AbstractContextManager[SpawnSpec]:
        raise ToolError(self.reason)
