"""Command `kore hooks`: list the hooks, and run those for setting up a folder."""

import argparse
import asyncio
from pathlib import Path

from agent.errors import KoreError
from agent.events import Event, Notice
from agent.i18n import t
from agent.tools.base import ToolEnvironment
from agent.turn.hook_chain import report_outside_turn
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, clean_lines, print_json, print_table, tell
from gateway.cli.settings import settings_of
from gateway.config import Settings
from gateway.config.installed_plugins import InstalledPlugins
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import choose_sandbox
from gateway.turns.agents.factory import build_agent, hook_sources

_MAX_SHOWN_CHARS = 60


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if a hook of `setup` failed or blocked. Raises `KoreError`."""
    home, settings = data_dir_of(args), settings_of(args)
    if args.action == "setup":
        trigger = "maintenance" if args.maintenance else "init"
        return asyncio.run(_set_up(settings, home, Path.cwd().resolve(), trigger))
    rows = [
        {
            "event": event,
            "matcher": matcher.matcher,
            "kind": hook.kind,
            "hook": hook.title,
            "async": hook.type == "command" and hook.is_async,
            "origin": source.origin,
        }
        for source in hook_sources(settings, InstalledPlugins(home.plugins))
        for event, matchers in source.hooks.items()
        for matcher in matchers
        for hook in matcher.hooks
    ]
    if args.json:
        print_json(rows)
    elif rows:
        cells = [
            (
                *(str(row[key]) for key in ("event", "matcher", "kind")),
                _title(row),
                str(row["origin"]),
            )
            for row in rows
        ]
        print_table(("event", "matcher", "kind", "hook", "from"), cells)
    else:
        print(t("There are no hooks."))
    return 0


def _title(row: dict[str, object]) -> str:
    return clean(str(row["hook"]))[:_MAX_SHOWN_CHARS]


async def _set_up(settings: Settings, home: DataDir, folder: Path, trigger: str) -> int:
    """Run the hooks of the event Setup in a folder."""
    notices: list[Notice] = []

    async def take(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event)
            tell(clean_lines(event.text))

    choice = await choose_sandbox(settings, home)
    async with await build_agent(settings, home, choice.sandbox) as agent:
        environment = ToolEnvironment(
            session="setup",
            workspace=folder,
            memory=agent.workspace.owner_memory,
            owner=True,
            places=agent.workspace.origin,
        )
        words = await report_outside_turn(
            agent, "Setup", environment, {"trigger": trigger}, tell=take
        )
    if words.refusal is not None:
        raise KoreError(t("A hook stopped the setup: {why}", why=clean_lines(words.refusal)))
    return int(any(notice.level == "warning" for notice in notices))
