"""The calls that only screens make, for the process that owns the data."""

from typing import Protocol

from agent.security.audit import AuditSink
from gateway.control.services.files_service import FileChanges, FilesData, FilesService
from gateway.control.services.owner_audit import OwnerAudit
from gateway.control.services.plugin_service import PluginData, PluginService
from gateway.control.services.settings_service import PolicyData, SettingsData, SettingsService
from gateway.control.services.workbench_service import WorkbenchData, WorkbenchService


class Screens(Protocol):
    """Opens the data that only screens ask for."""

    @property
    def audit(self) -> AuditSink: ...

    def workbench(self) -> WorkbenchData: ...

    def files(self) -> FilesData: ...

    def file_changes(self) -> FileChanges: ...

    def plugins(self) -> PluginData: ...

    def policy(self) -> PolicyData: ...

    def config(self) -> SettingsData: ...


class ScreenService(WorkbenchService, FilesService, PluginService, SettingsService):
    """The calls that only screens make, each on its own data."""

    def __init__(self, screens: Screens) -> None:
        audit = OwnerAudit(screens.audit)
        WorkbenchService.__init__(self, screens.workbench, audit)
        FilesService.__init__(self, screens.files, screens.file_changes, audit)
        PluginService.__init__(self, screens.plugins, audit)
        SettingsService.__init__(self, screens.policy, screens.config, audit)
