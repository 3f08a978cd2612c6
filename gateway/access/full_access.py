"""Full access: enabled by a flag of `kore agent` for the lifetime of its process.

Neither the configuration nor the environment can enable it. Full access is a random token that only
this process knows. Messages from its terminal, and the work that they start, contain the token.
Stored copies are useless to the next process.
"""

import os
import time
from pathlib import Path

from agent.i18n import t
from agent.security.audit import AuditEntry
from agent.text.visible import escape_line


def new_token() -> str:
    return os.urandom(16).hex()


def full_access_refusal() -> str:
    return t(
        "--full-access works only in `kore agent` and in the library: "
        "a gateway also answers other people"
    )


def full_access_banner(workspace: str) -> str:
    """Return the warning that the terminal shows before anything runs."""
    user = "root" if os.geteuid() == 0 else t("your user")
    return t(
        "⚠ Full access: everything runs as {user} without questions or a sandbox, "
        "also outside of {workspace}. It ends with this process.",
        user=user,
        workspace=escape_line(workspace),
    )


def full_access_entry(workspace: Path) -> AuditEntry:
    """Return the audit entry for the start."""
    return AuditEntry(
        ts=time.time(),
        agent_id="main",
        role="owner",
        tool="full_access",
        allowed=True,
        reason=f"--full-access was given at the terminal by user {os.getuid()}",
        params={"path": str(workspace), "pid": os.getpid()},
        session_id="",
    )
