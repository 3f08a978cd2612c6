"""Kore's settings: `load_settings` reads them into `Settings`."""

from gateway.config.load import load_settings, own_file
from gateway.config.schema import Settings
from gateway.config.sections import ModelEntry
from gateway.config.validation import require_model

__all__ = [
    "ModelEntry",
    "Settings",
    "load_settings",
    "own_file",
    "require_model",
]
