"""Agents and skills of this installation: folders, selection and descriptions for people."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from agent.security.taint.origin import TrustedOrigins
from agent.security.taint.worktree_record import WorktreeRecord
from agent.settings import SubagentLimits
from agent.skills.catalog import SkillCatalog, SkillPaths, linked_skills
from agent.subagents.catalog import CatalogPaths, SubagentCatalog
from agent.subagents.definition import BUILT_IN, SubagentDefinition
from gateway.config.installed_plugins import InstalledPlugins
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.presenter.text import home_relative
from gateway.runtime.paths import DataDir

if TYPE_CHECKING:
    from agent.providers.pool import ModelPool
    from agent.turn.context_usage import PromptAudience
    from agent.worktrees.project_worktrees import ProjectWorktrees
    from gateway.config import Settings

# Name of the agent that answers unless another is chosen.
MAIN = "main"

# Descriptions of the built-in agents, for the translation catalogues.
PURPOSES = (
    mark_for_translation("Write and change code until it works; all tools."),
    mark_for_translation("Plan how to do something and write the plan down. Changes nothing."),
    mark_for_translation("Any self-contained task of several steps; all tools."),
    mark_for_translation("Find out where something is or how it works. Changes nothing."),
    mark_for_translation("Check a change or a text for mistakes. Changes nothing."),
)


def catalogue_of(home: DataDir, settings: "Settings") -> SubagentCatalog:
    plugins = tuple(InstalledPlugins(home.plugins).places("agents"))
    paths = CatalogPaths(
        *(Path.home(), home.root, trusted_folders(settings), plugins), WorktreeRecord(home.root)
    )
    return SubagentCatalog(paths)


def skill_catalog(home: DataDir, settings: "Settings") -> SkillCatalog:
    """Return the skills and commands of this installation; those of projects are found in their
    folders.
    """
    workspace = settings.agent.workspace.resolve()
    plugins = InstalledPlugins(home.plugins)
    return SkillCatalog(
        SkillPaths(
            Path.home(),
            home.root,
            workspace,
            trusted_folders(settings),
            tuple(plugins.places("skills")),
            WorktreeRecord(home.root),
            tuple(plugins.places("commands")),
        )
    )


def own_skill_folders(home: DataDir) -> tuple[Path, ...]:
    """Return the existing skill folders of the person and of plugins, with linked folders."""
    folders = (Path.home() / ".claude", Path.home() / ".agents", home.root)
    own = [path for folder in folders if (path := folder / "skills").is_dir()]
    own += [place for path in own for place in linked_skills(path)]
    return (*own, *(folder for _, folder in InstalledPlugins(home.plugins).places("skills")))


def trusted_folders(settings: "Settings") -> tuple[Path, ...]:
    """Return the folders whose content counts as the owner's.

    Links are resolved only in the path of the home folder; the other names must be real paths.
    """
    lasting = map(_expand_path, settings.security.trusted_folders)
    for_run = settings.trusted_for_run
    return tuple(lasting) if for_run is None else (*lasting, for_run)


def _expand_path(name: str) -> Path:
    first, *rest = Path(os.path.normpath(name)).parts
    start = Path(first).expanduser().resolve() if first[:1] == "~" else Path(first)
    return start.joinpath(*rest)


def origin_of(settings: "Settings", home: DataDir) -> TrustedOrigins:
    """Return the origins that belong to the owner: the workspace and the trusted folders."""
    own = (settings.agent.workspace.resolve(), *trusted_folders(settings))
    return TrustedOrigins(own, WorktreeRecord(home.root))


def worktrees_of(settings: "Settings", home: DataDir) -> "ProjectWorktrees":
    # Most starts open no worktree.
    from agent.worktrees.project_worktrees import ProjectWorktrees

    return ProjectWorktrees(origin_of(settings, home), settings.agent.worktrees)


def agent_option(home: DataDir, settings: "Settings", name: str, cwd: str | None) -> dict[str, Any]:
    """Return the agent that a terminal selected, as a message option. Raise `ConfigError`.

    Agents of this folder take precedence over those in the workspace.
    """
    catalogue = catalogue_of(home, settings)
    for folder in (Path(cwd or Path.cwd()), settings.agent.workspace):
        if (agent := catalogue.find(name, folder)) is not None:
            return asdict(agent)
    raise ConfigError(t("--agent: unknown agent {name!r}", name=name[:80]), hint="kore agents list")


def profile_for(message: InboundMessage) -> SubagentDefinition | None:
    """Return the agent that the terminal selected for its conversation; None for the main agent.

    The definition is the one at the beginning of the conversation.
    """
    agent = message.options.agent
    if message.channel != CONSOLE or agent is None:
        return None
    return SubagentDefinition.of_data(agent)


def with_model(
    audience: "PromptAudience",
    message: InboundMessage,
    session_model: str | None,
    models: "ModelPool",
) -> "PromptAudience":
    """Return the audience with the model that answers.

    The model comes from the terminal's `--model`, the conversation, the chat settings or the agent.
    """
    # The terminal of a running Kore reads agent files and loads no models.
    from agent.subagents.profile import model_for

    model = message.model or session_model or audience.model
    if model is None and (agent := profile_for(message)) is not None:
        model, _ = model_for(models, None, agent, None)
    return replace(audience, model=model)


def limits_of(settings: "Settings") -> SubagentLimits:
    return SubagentLimits(
        max_depth=settings.subagents.max_depth,
        max_parallel=settings.subagents.max_parallel,
        max_cost_usd=settings.subagents.max_cost_usd,
        worktrees=settings.subagents.worktrees,
    )


def warnings_of(agent: SubagentDefinition, tools: Sequence[str]) -> list[str]:
    """Return warnings about an agent; `tools` are the names of the available tools."""
    tool_names = [*(agent.tools or ()), *agent.without]
    missing = [name for name in tool_names if name not in tools]
    warnings = list(agent.remarks)
    # Built-in agents name tools of every installation.
    if missing and agent.source != BUILT_IN:
        warnings.append(t("unknown tools: {names}", names=", ".join(missing)))
    if not agent.prompt:
        warnings.append(t("has no instructions below its frontmatter"))
    if not agent.trusted:
        warnings.append(t("comes with this folder or a plugin, so its text is untrusted"))
    return warnings


def summary_of(agent: SubagentDefinition) -> str:
    """Return the purpose of an agent in one line."""
    return t(" ".join(agent.description.split()))


def origin(agent: SubagentDefinition) -> str:
    """Return "built in", or the file of an agent."""
    if agent.source == BUILT_IN:
        return t("built in")
    return home_relative(agent.source)


def tools_in_words(agent: SubagentDefinition) -> str:
    if agent.tools is None:
        return t("all but {names}", names=", ".join(agent.without)) if agent.without else t("all")
    return ", ".join(name for name in agent.tools if name not in agent.without) or t("none")


def facts(agent: SubagentDefinition, tools: Sequence[str]) -> Mapping[str, Any]:
    """Return the description of an agent as JSON data."""
    return {
        "name": agent.name,
        "description": agent.description,
        "source": agent.source,
        "trusted": agent.trusted,
        "tools": None if agent.tools is None else list(agent.tools),
        "disallowed_tools": list(agent.without),
        "model": agent.model or "inherit",
        "permission_mode": agent.mode,
        "max_turns": agent.max_turns,
        "background": agent.background,
        "isolation": agent.isolation,
        "skills": list(agent.skills),
        "color": agent.color,
        "other_fields": {name: str(value) for name, value in agent.more.items()},
        "remarks": warnings_of(agent, tools),
    }
