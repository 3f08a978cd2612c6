"""Puts the layers together."""

import os

from layerconf.environment import read_environment
from layerconf.files import read_file
from layerconf.merge import merge
from layerconf.settings import Settings


def load(defaults=None, files=(), prefix=None, environ=os.environ):
    """The settings: `defaults`, then each file over what came before, then the environment."""
    values = defaults or {}
    for path in files:
        values = merge(values, read_file(path))
    if prefix:
        values = merge(values, read_environment(prefix, environ))
    return Settings(values)
