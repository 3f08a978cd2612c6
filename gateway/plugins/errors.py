"""Errors of plugins and markets."""

from agent.errors import KoreError


class PluginError(KoreError):
    """Raised when a plugin or a market cannot be used; the text says why."""

    code = "plugin"
