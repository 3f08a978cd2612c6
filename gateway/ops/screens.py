"""Data for the browser's screens, opened for each call and imported on first use."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.agent import Agent
from agent.records import frozen
from agent.security.audit import AuditSink
from agent.security.redaction import Redactor
from gateway.access.control import AccessControl
from gateway.access.roles import RoleRegistry
from gateway.config import Settings
from gateway.config.load import Sources
from gateway.ops.config_reload import ConfigReloader
from gateway.runtime.paths import DataDir
from gateway.store.port import Store
from gateway.terminals.registry import TerminalRegistry

if TYPE_CHECKING:
    from gateway.ops.config_editor import ConfigEditor
    from gateway.ops.policy_check import PolicyCheck
    from gateway.ops.project_changes import ProjectChanges
    from gateway.ops.project_files import ProjectFiles
    from gateway.ops.workbench import Workbench
    from gateway.plugins.manager import PluginManager


@frozen
class ScreenData:
    """Parts of this process that the screens show.

    `sources` and `reloader` are set if the configuration is reloaded after changes.
    """

    settings: Settings
    home: DataDir
    database: Store
    agent: Agent[Any]
    access: AccessControl
    policies: RoleRegistry
    redactor: Redactor
    sources: Sources | None
    reloader: ConfigReloader | None
    audit: AuditSink

    def workbench(self) -> "Workbench":
        from gateway.ops.workbench import Workbench

        return Workbench(
            database=self.database,
            home=self.home,
            settings=self.settings,
            redactor=self.redactor,
        )

    def files(self) -> "ProjectFiles":
        from gateway.ops.project_files import ProjectFiles

        return ProjectFiles(self.settings, self.agent.settings.tools)

    def file_changes(self) -> "ProjectChanges":
        from gateway.ops.project_changes import ChangeRules, ProjectChanges

        agent = self.agent
        rules = ChangeRules(agent.settings.tools, self.policies, agent.changes)
        return ProjectChanges(self.files(), rules)

    def terminals(self) -> TerminalRegistry:
        """Return the registry of all terminals of this process; called once."""
        return TerminalRegistry(
            mode=self.settings.server.terminal,
            tools=lambda: self.agent.settings.tools,
            find_folder=lambda place: self.files().find_place(place),
            memory=self.settings.agent.workspace / "memory" / "MEMORY.md",
            audit=self.audit,
        )

    def plugins(self) -> "PluginManager":
        from gateway.plugins.manager import PluginManager

        return PluginManager(self.home.plugins, is_watched=self.reloader is not None)

    def policy(self) -> "PolicyCheck":
        from gateway.ops.policy_check import PolicyCheck

        workspace = self.settings.agent.workspace
        return PolicyCheck(self.agent, self.policies, self.access, workspace)

    def config(self) -> "ConfigEditor":
        from gateway.ops.config_editor import ConfigEditor

        sources = self.sources
        if sources is None:
            own_file = self.settings.own_file
            # An explicitly named file must exist.
            config = None if own_file == self.home.config else own_file
            sources = Sources(config, self.home.root, Path.cwd(), os.environ)
        return ConfigEditor(sources, self.settings, self.redactor, self.reloader)
