"""Configuration in layers."""

from layerconf.errors import ConfigError
from layerconf.load import load

__all__ = ["ConfigError", "load"]
