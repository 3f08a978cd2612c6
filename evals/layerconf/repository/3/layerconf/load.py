"""Puts the layers together."""

import os
from pathlib import Path

from layerconf.environment import read_environment
from layerconf.files import read_file
from layerconf.merge import merge
from layerconf.settings import Settings


def load(defaults=None, files=(), prefix=None, environ=os.environ):
    """The settings: `defaults`, then each file over what came before, then the environment."""
    values = defaults or {}
    for path in _with_local(files):
        values = merge(values, read_file(path))
    if prefix:
        values = merge(values, read_environment(prefix, environ))
    return Settings(values)


def _with_local(files):
    """All files, and after them the local ones of those that have one."""
    paths = [Path(file) for file in files]
    local = [path.with_name(f"{path.stem}.local{path.suffix}") for path in paths]
    return paths + [path for path in local if path.exists()]
