"""Sandbox based on docker or podman containers without a network."""

import errno
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.sandbox import environment
from agent.security.sandbox.base import Limits, SandboxCommand, SpawnSpec, input_path
from agent.security.sandbox.seccomp import bpf
from agent.security.sandbox.seccomp.syscalls import NUMBERS
from agent.security.sandbox.trusted_programs import SYSTEM_PATH

_AF_UNIX, _DATAGRAM = 1, 2


def seccomp_profile() -> str:
    """Return the common rules and those of `NAMESPACED` as a docker profile.

    https://docs.docker.com/engine/security/seccomp/
    """
    rules = [
        _rule(bpf.MISSING, errno.ENOSYS),
        _rule(bpf.FORBIDDEN, errno.EPERM),
        _rule(bpf.ATTRIBUTES, errno.EOPNOTSUPP),
        _refuse_call("socket", (0, 0xFF, _AF_UNIX)),
        _refuse_call("socketpair", (1, 0xF, _DATAGRAM)),
        *(_refuse_call("ioctl", (1, 0xFFFFFFFF, value)) for value in bpf.TERMINAL),
        *(_refuse_call("clone", (0, bit, bit)) for bit in _bits(bpf.NEW_NAMESPACES)),
    ]
    for bit in _bits(bpf.SET_ID):
        rules += [_refuse_call(call, (at, bit, bit)) for call, at in bpf.MODES.items()]
        for flag in _bits(bpf.CREATES):
            rules += [
                _refuse_call(call, (at, flag, flag), (at + 1, bit, bit))
                for call, at in bpf.OPENS.items()
            ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})


def _refuse_call(call: str, *tests: tuple[int, int, int]) -> dict[str, Any]:
    """Return a rule that rejects the call if, for each test, the masked argument has this value."""
    args = [
        {"index": at, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
        for at, mask, value in tests
    ]
    return {**_rule((call,), errno.EPERM), "args": args}


def _rule(calls: tuple[str, ...], code: int) -> dict[str, Any]:
    names = [call for call in calls if call in NUMBERS]
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code}


def _bits(value: int) -> list[int]:
    return [1 << n for n in range(32) if value >> n & 1]


# The image's shell is known only inside the container.
_SHELL = 'command -v bash >/dev/null && exec bash -c "$0"; exec sh -c "$0"'
_CLIENT = ("HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST")


@frozen
class ContainerSandbox:
    """Sandbox that runs each command in a new container.

    `program` is docker or podman; `image` must exist locally and contain /bin/sh. A command sees
    the programs of the image and the workspace, never the socket of the container service.
    """

    name: ClassVar[str] = "container"
    confines: ClassVar[bool] = True
    supports_egress: ClassVar[bool] = False

    program: str
    image: str
    limits: Limits = field(default_factory=Limits)

    def home(self, temporary: Path) -> tuple[Path, str]:
        return temporary / "tmp", environment.TEMPORARY

    def temporary_folder(self, temporary: Path) -> tuple[Path, str]:
        return self.home(temporary)

    @contextmanager
    def prepare(self, job: SandboxCommand) -> Iterator[SpawnSpec]:
        """Prepare the command in a new container. Raises `ToolError`."""
        if job.egress is not None:
            raise ToolError(load_prompt("sandbox/no_way_out"))
        if job.terminal is not None:
            raise ToolError("A container has no terminal; bubblewrap and Landlock do.")
        if ":" in str(job.workspace) or ":" in str(job.folder):
            raise ToolError("A container cannot use a folder with a colon in its name.")
        # The service opens the folder by its path and would follow a link.
        with job.open_workspace(), job.open_added_folders() as added:
            job = replace(
                job, folders=tuple(folder for folder in job.folders if folder.path in added)
            )
        name = f"kore-exec-{secrets.token_hex(6)}"
        env = {key: os.environ[key] for key in _CLIENT if key in os.environ}
        # The client starts helper programs by name.
        env["PATH"] = f"{Path(self.program).parent}:{SYSTEM_PATH}"
        # A container outlives its client: it is killed by name when the pipe ends.
        script = load_prompt("sandbox/attended")
        attended = ("/bin/sh", "-c", script, "sh", self.program, name, input_path(job.stdin))
        pass_fds = () if job.stdin is None else (job.stdin,)
        with tempfile.NamedTemporaryFile("w", prefix="kore-", suffix=".json") as file:
            file.write(seccomp_profile())
            file.flush()
            with _variables_file(job) as variables:
                arguments = self.arguments(job, name, file.name, variables)
                command = (*attended, *arguments)
                yield SpawnSpec(command, env, Path("/"), pass_fds, is_supervised=True)

    def arguments(
        self, job: SandboxCommand, name: str, filter_file: str, variables_file: str = ""
    ) -> list[str]:
        """Return the arguments of the program, without its name."""
        workspace = job.workspace
        arguments = [
            "run", "--rm", "--init", "--pull", "never", "--name", name,
            *([] if job.stdin is None else ["-i"]),
            "--network", "none", "--read-only", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--security-opt", f"seccomp={filter_file}",
            "--user", f"{os.geteuid()}:{os.getegid()}",
            "--pids-limit", str(self.limits.processes), "--memory", str(self.limits.memory_bytes),
            "--ulimit", f"fsize={self.limits.file_bytes}", "--ulimit", "core=0",
            "--ulimit", f"cpu={self.limits.cpu_s}",
            "--ulimit", f"nofile={self.limits.open_files}",
            *self._temporary(job),
            "--volume", f"{workspace}:{workspace}{':ro' if job.read_only else ''}",
            "--workdir", str(job.folder),
            "--env", f"HOME={environment.TEMPORARY}", "--env", "LANG=C.UTF-8",
        ]  # fmt: skip
        if job.store is not None and ":" not in str(job.store.folder):
            # Hooks and configuration cannot be excluded without hiding them from git.
            arguments += ["--volume", f"{job.store.folder}:{job.store.folder}:ro"]
        folders = [folder for folder in job.folders if ":" not in str(folder.path)]
        writable = {folder.path: folder.read_only_paths for folder in job.writable_folders}
        for folder in folders:
            end = "" if folder.path in writable else ":ro"
            arguments += ["--volume", f"{folder.path}:{folder.path}{end}"]
        masked = [path for folder in folders for path in folder.masked_paths]
        # Read-only paths are hidden as well: a mount given by its path could become a link to
        # somewhere else.
        read_only = [*job.locked_paths, *job.read_only_paths]
        read_only += [path for folder in folders for path in writable.get(folder.path, ())]
        for path in (*job.forbidden_paths, *job.masked_paths, *masked, *read_only):
            if path.is_dir() and not path.is_symlink():
                arguments += ["--tmpfs", f"{path}:ro,size=4k"]
            else:
                arguments += ["--volume", f"/dev/null:{path}:ro"]
        for name, value in environment.variables_of_command(job).items():
            arguments += ["--env", f"{name}={value}"]
        if variables_file:
            arguments += ["--env-file", variables_file]
        return [*arguments, self.image, "/bin/sh", "-c", _SHELL, job.command]

    def _temporary(self, job: SandboxCommand) -> list[str]:
        if job.temporary is not None:
            return ["--volume", f"{job.temporary / 'tmp'}:{environment.TEMPORARY}"]
        size = f"size={self.limits.file_bytes},mode=1777"
        return ["--tmpfs", f"{environment.TEMPORARY}:{size}"]


@contextmanager
def _variables_file(job: SandboxCommand) -> Iterator[str]:
    """Write the command's own variables to a private file and yield its name; '' without
    variables."""
    if not job.variables:
        yield ""
        return
    if any("\n" in value or "\r" in value for value in job.variables.values()):
        raise ToolError("A container cannot have a variable with several lines.")
    with tempfile.NamedTemporaryFile("w", prefix="kore-", suffix=".env") as file:
        file.writelines(f"{name}={value}\n" for name, value in job.variables.items())
        file.flush()
        yield file.name
