"""Commands `kore agents` and `kore tools`: sub-agents and the tools they may use."""

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from agent.prompts import render_prompt
from agent.security.files.private_folder import make_private_folder
from agent.settings import ToolSettings
from agent.subagents.definition import BUILT_IN, SubagentDefinition
from agent.text.display_width import padded
from agent.tools.base import Tool
from agent.tools.built_in import default_tools
from gateway.access.roles import RoleRegistry
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, clean_lines, print_json, print_table, tell
from gateway.cli.settings import settings_of
from gateway.config import Settings
from gateway.runtime.paths import DataDir, write_private
from gateway.runtime.sandbox import choose_sandbox
from gateway.turns.agents.factory import build_agent
from gateway.turns.agents.profiles import (
    catalogue_of,
    facts,
    origin,
    summary_of,
    tools_in_words,
    warnings_of,
)
from gateway.turns.tool_listing import beginning, list_tools

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")

_MAX_SHOWN_CHARS = 60

_IGNORED_AGENT = mark_for_translation(
    "{path} is ignored: its folder is not trusted, and an agent {name} already exists"
)

_PROJECT_AGENTS = mark_for_translation(
    "agents of this folder: `kore agent --agent NAME`, or from a chat started with `--cwd .`"
)


def run_agents(args: argparse.Namespace) -> int:
    """Return 0. Raises `KoreError` for an unknown agent, a bad name or an existing file."""
    if args.action == "new":
        return _new(args)

    catalogue = catalogue_of(data_dir_of(args), settings_of(args))
    tools = [tool.name for tool in default_tools(ToolSettings())]
    if args.action == "show":
        agent = catalogue.find(args.name, Path.cwd())
        if agent is None:
            raise KoreError(
                t("unknown agent {args!r}", args=args.name[:80]),
                hint=t("`kore agents list` shows them"),
            )
        if args.json:
            print_json({**facts(agent, tools), "prompt": agent.prompt})
        else:
            _show(agent, tools)
        return 0
    agents = list(catalogue.load(Path.cwd()).values())
    if args.json:
        print_json([facts(agent, tools) for agent in agents])
    else:
        _list(agents, tools)
        if not all(subagent_definition.trusted for subagent_definition in agents):
            print(t(_PROJECT_AGENTS), file=sys.stderr)
        for path, name in catalogue.rejected.items():
            print(
                t(_IGNORED_AGENT, path=clean_lines(path), name=clean_lines(name)), file=sys.stderr
            )
    return 0


def _list(agents: list[SubagentDefinition], tools: list[str]) -> None:
    rows = [
        (
            agent.name,
            _short(summary_of(agent)),
            agent.model or "inherit",
            _short(tools_in_words(agent)),
            origin(agent),
            str(len(warnings_of(agent, tools)) or ""),
        )
        for agent in agents
    ]
    print_table(("name", "description", "model", "tools", "from", "warnings"), rows)


def _show(agent: SubagentDefinition, tools: list[str]) -> None:

    # The text of the file, except for built-in agents.
    description = summary_of(agent) if agent.source == BUILT_IN else agent.description
    rows = [
        (mark_for_translation("description"), clean_lines(description)),
        (mark_for_translation("from"), origin(agent)),
        (mark_for_translation("model"), agent.model or "inherit"),
        (mark_for_translation("tools"), tools_in_words(agent)),
        (
            mark_for_translation("permission mode"),
            t("at most {mode}", mode=agent.mode) if agent.mode else t("same as the conversation"),
        ),
        (
            mark_for_translation("turns"),
            str(agent.max_turns) if agent.max_turns else t("agent.max_iterations"),
        ),
        (mark_for_translation("background"), t("yes") if agent.background else t("no")),
        *([(mark_for_translation("skills"), ", ".join(agent.skills))] if agent.skills else ()),
        *([(mark_for_translation("colour"), agent.color)] if agent.color else ()),
        *((mark_for_translation("warning"), remark) for remark in warnings_of(agent, tools)),
    ]
    print(clean(agent.name))
    for name, value in rows:
        print(f"  {padded(t(name) + ':', 17)}{value if name == 'description' else clean(value)}")
    print(f"\n{clean_lines(agent.prompt)}")


def _new(args: argparse.Namespace) -> int:
    if not _NAME.fullmatch(args.name):
        raise KoreError(
            t(
                "found the name {args!r}, expected lowercase letters, digits and -",
                args=args.name[:80],
            )
        )
    folder = (Path.cwd() / ".kore" if args.project else data_dir_of(args).root) / "agents"
    text = render_prompt(
        "new_agent",
        called=args.name,
        description=_quote(args.description or t("Describe when to use this agent.")),
        tools=_quote(args.tools or "*"),
        model=_quote(args.model or "inherit"),
    )
    path = folder / f"{args.name}.md"
    try:
        make_private_folder(folder)
        write_private(path, f"{text}\n")
    except FileExistsError:
        raise KoreError(
            t("{path} already exists", path=path), hint=t("edit it, or choose another name")
        ) from None
    except OSError as exc:
        raise KoreError(
            t("{path} cannot be written: {strerror}", path=path, strerror=exc.strerror)
        ) from None
    print(path)
    command = f"kore agent --agent {args.name}"
    print(
        t("describe its purpose and how it works there, then try it: {speak}", speak=command),
        file=sys.stderr,
    )
    return 0


def _quote(text: str) -> str:
    """Quote a text as a YAML value."""
    line = " ".join(text.split())
    plain = re.fullmatch(r"[A-Za-z0-9](?:[\w ,./()-]*[\w.)])?", line)
    escaped = line.replace("'", "''")
    return line if plain else f"'{escaped}'"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN_CHARS else f"{line[: _MAX_SHOWN_CHARS - 1]}…"


def run_tools(args: argparse.Namespace) -> int:
    """Return 0. Raises `ConfigError` for a bad configuration or policy file."""
    settings = settings_of(args)
    available_tools, unlisted = asyncio.run(_tools_of(settings, data_dir_of(args)))
    tools = list_tools(available_tools, RoleRegistry.of(settings))
    if args.json:
        print_json(args.crash.redactor.clean_data(tools))
        return 0
    rows = [
        (
            tool["name"],
            tool["effect"],
            ", ".join(tool["roles"]),
            ", ".join(tool["aliases"]),
            clean_lines(beginning(tool["description"])),
        )
        for tool in tools
    ]
    print_table(("name", "effect", "roles", "aliases", "description"), rows)
    if unlisted:
        names = ", ".join(unlisted)
        tell(t("not listed yet: {names}; `kore mcp test NAME` lists a server", names=names))
    return 0


async def _tools_of(settings: Settings, home: DataDir) -> tuple[Sequence[Tool], Sequence[str]]:
    """Return the tools of the agent, and the enabled MCP servers whose tools are not known yet.

    No server is started.
    """
    choice = await choose_sandbox(settings, home)
    agent = await build_agent(settings, home, choice.sandbox)
    try:
        servers = agent.mcp
        names = () if servers is None else servers.names
        unlisted = [name for name in names if servers and servers.listing(name) is None]
        return agent.toolbox.tools, unlisted
    finally:
        await agent.aclose()
