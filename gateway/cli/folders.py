"""Folders and files of this process: Kore's folder, its configuration file, the current folder."""

import argparse
import os
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t
from gateway.runtime.paths import DataDir, find_data_dir


def data_dir_of(args: argparse.Namespace) -> DataDir:
    """Return the folder of `--home`, `KORE_HOME` or `~/.kore`. Raises `ConfigError`."""
    return find_data_dir(os.environ, args.home)


def config_path(args: argparse.Namespace, home: DataDir) -> Path:
    """Return the configuration file to write, which is also the file that is read."""
    configured = args.config or os.environ.get("KORE_CONFIG")
    return Path(configured).expanduser() if configured else home.config


def current_folder() -> Path:
    """Return the current folder. Raises `ConfigError` if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            t("the current folder no longer exists"),
            hint=t("cd to another folder and try again"),
        ) from None
