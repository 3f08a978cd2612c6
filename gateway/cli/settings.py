"""Settings of this process."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.i18n import set_locale
from gateway.cli.folders import current_folder, data_dir_of
from gateway.cli.program import is_for_programs
from gateway.config import Settings, load_settings
from gateway.config.load import Sources
from gateway.runtime.secrets import redactor_of


def sources_of(args: argparse.Namespace) -> Sources:
    """Return the sources of this process's settings."""
    return Sources(args.config, data_dir_of(args).root, Path.cwd(), os.environ)


def settings_of(
    args: argparse.Namespace,
    overrides: Mapping[str, Any] | None = None,
    drafts: Mapping[Path, Mapping[str, Any] | None] | None = None,
    trusted_folder: Path | None = None,
) -> Settings:
    """Return the settings for this process.

    `overrides` are the verb's own flags, "section.key" to value; `drafts` and `trusted_folder` are
    as for `load_settings`. Raises `ConfigError`.
    """
    settings = load_settings(
        config=args.config,
        home=data_dir_of(args).root,
        cwd=current_folder(),
        environ=os.environ,
        overrides=overrides or {},
        drafts=drafts,
        trusted_folder=trusted_folder,
    )
    args.crash.redactor = redactor_of(settings, os.environ)
    if settings.agent.language != "auto" and not is_for_programs(args):
        set_locale(settings.agent.language)
    return settings
