"""Sources of a process's settings, for reloads and for previews of changes."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.records import frozen
from gateway.config.load import load_settings, own_file
from gateway.config.schema import Settings

Drafts = Mapping[Path, Mapping[str, Any]]


@frozen
class Sources:
    """The arguments of `load_settings`, for repeated use."""

    config: Path | None
    home: Path
    cwd: Path
    environ: Mapping[str, str]
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own_file(self) -> Path:
        """Path of the user's configuration file."""
        return own_file(self.config, self.home, self.cwd, self.environ)

    @property
    def project_file(self) -> Path:
        """Path of the project's configuration file in the working directory."""
        return self.cwd / ".kore" / "config.json"

    @property
    def secrets_file(self) -> Path:
        return self.home / "secrets.json"

    @property
    def watched_files(self) -> tuple[Path, ...]:
        """Every file that would be read, including absent ones."""
        from gateway.config.load import foreign_files

        theirs = foreign_files(self.home, self.cwd, self.environ)
        plugins = self.home / "plugins" / "installed.json"
        own = (self.own_file, self.secrets_file, self.home / "trust.json", plugins)
        return (*own, self.project_file, *theirs)

    def load(self, drafts: Drafts | None = None) -> Settings:
        """Load the settings. Raises `ConfigError`."""
        return load_settings(
            config=self.config,
            home=self.home,
            cwd=self.cwd,
            environ=self.environ,
            overrides=self.overrides,
            drafts=drafts,
        )

    def complaints(self, drafts: Drafts | None = None) -> list[str]:
        """Return one line for each error."""
        try:
            self.load(drafts)
        except ConfigError as exc:
            return str(exc).splitlines()
        return []
