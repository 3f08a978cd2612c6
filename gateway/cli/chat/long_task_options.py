"""Options of a long task from the command line."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.registry import OFFLINE
from agent.records import frozen
from gateway.cli.chat.one_shot import OneShotRequest
from gateway.config import Settings
from gateway.core.messages import MessageOptions
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import catalogue_of

MAX_SESSIONS = 50


@frozen
class LongTaskOptions:
    """Options of a long task; `request` applies to every session."""

    request: OneShotRequest
    folder: Path
    text: str | None = None
    max_sessions: int = MAX_SESSIONS
    max_hours: float | None = None
    team: tuple[str, ...] = ()


def plan_for(
    args: argparse.Namespace, order: OneShotRequest, settings: Settings, home: DataDir
) -> LongTaskOptions:
    """Return the options. Raises `ConfigError` for incompatible flags."""
    if args.session or args.resume is not None or args.latest:
        raise ConfigError(t("a long task starts new sessions: -c, -s and -r cannot be used"))
    if not args.auto_continue:
        if not order.text:
            raise ConfigError(t("--init needs a task"), hint='kore agent --init "the task"')
        if args.max_sessions or args.max_hours or args.team:
            raise ConfigError(t("--max-sessions, --max-hours and --team require --auto-continue"))
    folder = Path(order.options.cwd or settings.agent.workspace)
    limit = args.max_sessions or MAX_SESSIONS
    team = _team(args.team or "", folder, settings, home)
    return LongTaskOptions(order, folder, order.text or None, limit, args.max_hours, team)


def refuse_stand_in(options: MessageOptions, status: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the offline echo model would do the work.

    `options` apply to every session, `status` is the status of the service.
    """
    own = (options.agent or {}).get("model")
    model = options.model or own or status.get("model")
    if model == OFFLINE:
        raise ConfigError(
            t("a long task needs a real model; the offline stand-in cannot do it"),
            hint=t("Set a key such as OPENAI_API_KEY, pass --model, or run `kore init`."),
        )


def _team(names: str, folder: Path, settings: Settings, home: DataDir) -> tuple[str, ...]:
    """Return the names of existing agents. Raises `ConfigError` for an unknown agent."""
    requested = tuple(filter(None, (name.strip() for name in names.split(","))))
    if not requested:
        return ()

    if settings.subagents.max_depth < 1:
        raise ConfigError(t("--team: subagents.max_depth is 0, so no sub-agents can run"))
    catalogue = catalogue_of(home, settings)
    by_name = {name: catalogue.find(name, folder) for name in requested}
    if missing := [name for name, one in by_name.items() if one is None]:
        raise ConfigError(
            t("--team: unknown agent {name!r}", name=missing[0][:80]),
            hint=t("`kore agents list` shows them"),
        )
    return tuple(
        subagent_definition.name
        for subagent_definition in by_name.values()
        if subagent_definition is not None
    )
