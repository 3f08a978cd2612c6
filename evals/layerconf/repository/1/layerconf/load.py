"""Puts the layers together."""

from layerconf.files import read_file
from layerconf.merge import merge
from layerconf.settings import Settings


def load(defaults=None, files=()):
    """The settings: `defaults`, then each file over what came before."""
    values = defaults or {}
    for path in files:
        values = merge(values, read_file(path))
    return Settings(values)
