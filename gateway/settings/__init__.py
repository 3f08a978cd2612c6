"""Kore's settings: `load_settings` reads them, `Settings` holds them."""

from gateway.settings.load import load_settings, own_file
from gateway.settings.names import require_model, require_telegram
from gateway.settings.schema import Settings
from gateway.settings.sections import ModelEntry

__all__ = [
    "ModelEntry",
    "Settings",
    "load_settings",
    "own_file",
    "require_model",
    "require_telegram",
]
