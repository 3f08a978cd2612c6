"""Description of the agent's environment in the system prompt: facts for a whole session.

Variable facts (time, mode, state of a repository) are part of messages instead, so that the system
prompt does not change.
"""

import os
import platform
from pathlib import Path

from agent.prompts import load_prompt, render_prompt
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.unconfined import NoCommands
from agent.settings import AgentSettings, ToolSettings

# Access to `.git` in a sandbox. Landlock cannot exclude part of a folder.
_GIT_TEXTS = {"bwrap": "git_open", "container": "git_hidden"}


def describe_environment(
    settings: AgentSettings, root: Path, *, is_project: bool, full_access: bool = False
) -> str:
    """Return the description for an agent that can run commands; it covers `.git` in projects.

    `full_access` means that the turn has full access, which the settings alone do not grant.
    """
    from agent.tools.shell.exec import MAX_TIMEOUT_S

    tools = settings.tools
    longest_s = min(max(MAX_TIMEOUT_S, tools.exec_timeout_s), settings.call_timeout_s)
    return render_prompt(
        "environment/commands",
        platform=f"{platform.system()} {platform.machine()}",
        timeout=f"{min(tools.exec_timeout_s, longest_s):g}",
        longest=f"{longest_s:g}",
        confinement=(
            render_prompt("environment/full_access", user=_user())
            if full_access
            else _confinement(tools, root, is_project=is_project)
        ),
    )


def _confinement(tools: ToolSettings, root: Path, *, is_project: bool) -> str:
    sandbox = tools.sandbox
    if isinstance(sandbox, NoCommands):
        return load_prompt("environment/no_commands")
    if sandbox is None or not sandbox.confines:
        return load_prompt("environment/no_sandbox")
    reachable = (*tools.exec_hosts, *tools.exec_local)
    git = _GIT_TEXTS.get(sandbox.name) if is_project else None
    return render_prompt(
        "environment/sandbox",
        backend=sandbox.name,
        root=root,
        readable=_readable(sandbox),
        git="" if git is None else " " + load_prompt(f"environment/{git}"),
        network=f"only {', '.join(reachable)}" if reachable else "none",
    )


def _readable(sandbox: Sandbox) -> str:
    """Return the folders that commands can read; those of skills and plugins without their paths,
    because there may be hundreds, and the text of a skill names its folder.
    """
    folders = "".join(f", `{path}`" for path in getattr(sandbox, "readable_folders", ()))
    return f"{folders}, the folders of skills" if getattr(sandbox, "shown_folders", ()) else folders


def _user() -> str:
    return "root" if os.geteuid() == 0 else "your user"
