"""Kore as a service of systemd: a unit of the user's own, and who runs it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.sandbox.trusted_programs import find_trusted_program
from gateway.runtime.paths import DataDir

NAME = "kore.service"
_RUN_S = 60


@frozen
class SystemctlResult:
    code: int
    out: str
    err: str


def unit_text(home: DataDir, config: Path | None, environ: Mapping[str, str]) -> str:
    """The unit file.

    Commands of the model run in a sandbox that makes namespaces of its own, so nothing stands here
    that forbids or shadows these: no `RestrictNamespaces`, no `ProtectKernelTunables` or
    `ProtectProc` (a partly hidden /proc cannot be mounted anew), no filter of system calls. What
    is left costs nothing: see systemd.exec(5).
    """
    command = [*_program(), "--home", str(home.root)]
    command += ["--config", str(config)] if config else []
    lines = (
        "[Unit]",
        "Description=Kore, a self-hosted assistant",
        "# It is never given up: a chat that stays silent is noticed by nobody.",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(_quote(word) for word in (*command, 'gateway'))}",
        f"WorkingDirectory={_escape(str(home.root))}",
        f"Environment={_quote('PATH=' + environ.get('PATH', os.defpath))}",
        "Restart=on-failure",
        "RestartSec=5",
        "# 2 is a mistake in the configuration: trying again mends none. 75 (another process owns",
        "# the data) is tried again.",
        "RestartPreventExitStatus=2",
        "KillMode=mixed",
        "TimeoutStopSec=30",
        "UMask=0077",
        "NoNewPrivileges=yes",
        "LockPersonality=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "SystemCallArchitectures=native",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "",
        "[Install]",
        "WantedBy=default.target",
    )
    return "\n".join(lines) + "\n"


def unit_path(environ: Mapping[str, str]) -> Path:
    """Where the user's own units lie (systemd.unit(5))."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user" / NAME


def require_systemd() -> None:
    """Raises `KoreError` where no systemd runs services for this user."""
    if find_trusted_program("systemctl") is None:
        raise _without(t("systemd not found"))
    ran = systemctl("show-environment")
    if ran.code:
        raise _without(t("systemd user services are not available"), ran.err)


def systemctl(*words: str) -> SystemctlResult:
    return run("systemctl", "--user", "--no-pager", *words)


def run(*words: str) -> SystemctlResult:
    """A short program and what it said. Raises `KoreError` when it does not end."""
    program = find_trusted_program(words[0])
    if program is None:
        return SystemctlResult(127, "", f"{words[0]}: not found")
    try:
        result = subprocess.run(
            (program, *words[1:]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RUN_S,
            check=False,
        )
    except FileNotFoundError:
        return SystemctlResult(127, "", f"{words[0]}: not found")
    except subprocess.TimeoutExpired:
        raise KoreError(t("{name} timed out after {n} s", name=words[0], n=_RUN_S)) from None
    return SystemctlResult(result.returncode, result.stdout, result.stderr)


def lingers() -> bool:
    """Whether this user's services go on without a login, and start with the machine."""
    ran = run("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
    return ran.out.strip() == "yes"


def _without(message: str, reason: str = "") -> KoreError:
    first = reason.strip().splitlines()[0] if reason.strip() else ""
    return KoreError(
        f"{message} ({first})" if first else message,
        hint=t(
            "Run `kore gateway` under another supervisor, or use Docker (docs/docker.md);"
            " `kore service install --print` shows the unit."
        ),
    )


def _program() -> Sequence[str]:
    """How this very Kore is started."""
    script = Path(sys.prefix) / "bin" / "kore"
    return [str(script)] if script.exists() else [sys.executable, "-m", "gateway"]


def _quote(word: str) -> str:
    inner = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_escape(inner)}"'


def _escape(text: str) -> str:
    """Without what systemd would take for a specifier."""
    return text.replace("%", "%%")
