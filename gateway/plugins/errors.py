"""What goes wrong with plugins and markets."""

from agent.errors import KoreError


class PluginError(KoreError):
    """A plugin or a market cannot be used; the text says why."""

    code = "plugin"
