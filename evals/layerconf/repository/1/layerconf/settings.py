"""The merged configuration."""

from layerconf.errors import ConfigError


class Settings:
    """Read with dots: settings["database.host"]."""

    def __init__(self, values):
        self._values = values

    def __getitem__(self, name):
        value = self._values
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                raise ConfigError(f"{name} is not set")
            value = value[part]
        return value

    def get(self, name, default=None):
        try:
            return self[name]
        except ConfigError:
            return default
