"""Kore as a systemd user service: the unit file and its environment."""

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
_TIMEOUT_S = 60


@frozen
class SystemctlResult:
    code: int
    out: str
    err: str


def unit_text(home: DataDir, config: Path | None, environ: Mapping[str, str]) -> str:
    """Return the text of the unit file.

    The model's commands run in a sandbox that creates its own namespaces, so the unit contains
    nothing that forbids or shadows these: no `RestrictNamespaces`, no `ProtectKernelTunables` or
    `ProtectProc` (a partly hidden /proc cannot be mounted again), no filter of system calls. The
    remaining options cost nothing: see systemd.exec(5).
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
    """Return the path of the unit among the user's own units (systemd.unit(5))."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user" / NAME


def require_systemd() -> None:
    """Raise `KoreError` if systemd does not run services for this user."""
    if find_trusted_program("systemctl") is None:
        raise _without(t("systemd not found"))
    ran = systemctl("show-environment")
    if ran.code:
        raise _without(t("systemd user services are not available"), ran.err)


def systemctl(*words: str) -> SystemctlResult:
    return run("systemctl", "--user", "--no-pager", *words)


def run(*words: str) -> SystemctlResult:
    """Run a short program and return its output. Raises `KoreError` at a timeout."""
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
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return SystemctlResult(127, "", f"{words[0]}: not found")
    except subprocess.TimeoutExpired:
        raise KoreError(t("{name} timed out after {n} s", name=words[0], n=_TIMEOUT_S)) from None
    return SystemctlResult(result.returncode, result.stdout, result.stderr)


def lingers() -> bool:
    """Return whether this user's services run without a login, and start at boot."""
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
    """Return the command that starts this installation of Kore."""
    script = Path(sys.prefix) / "bin" / "kore"
    return [str(script)] if script.exists() else [sys.executable, "-m", "gateway"]


def _quote(word: str) -> str:
    inner = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_escape(inner)}"'


def _escape(text: str) -> str:
    """Escape systemd's specifiers."""
    return text.replace("%", "%%")
