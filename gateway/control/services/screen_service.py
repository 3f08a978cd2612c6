"""The calls that only screens make, for the process that owns the data."""

from typing import Protocol

from gateway.control.services.files_service import FilesData, FilesService
from gateway.control.services.plugin_service import PluginData, PluginService
from gateway.control.services.settings_service import PolicyData, SettingsData, SettingsService
from gateway.control.services.workbench_service import WorkbenchData, WorkbenchService


class Screens(Protocol):
    """Opens the data that only screens ask for."""

    def workbench(self) -> WorkbenchData: ...

    def files(self) -> FilesData: ...

    def plugins(self) -> PluginData: ...

    def policy(self) -> PolicyData: ...

    def config(self) -> SettingsData: ...


class ScreenService(WorkbenchService, FilesService, PluginService, SettingsService):
    """The calls that only screens make, each on its own data."""

    def __init__(self, screens: Screens) -> None:
        WorkbenchService.__init__(self, screens.workbench)
        FilesService.__init__(self, screens.files)
        PluginService.__init__(self, screens.plugins)
        SettingsService.__init__(self, screens.policy, screens.config)
