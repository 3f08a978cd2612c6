"""What the answers come to. Nothing is written before the last one, and then at once."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.cli.onboarding.persona import Persona, write_persona
from gateway.config.origin import Key
from gateway.config.rewrite import change_config, change_secrets
from gateway.runtime.paths import DataDir
from gateway.runtime.workspace import ensure_workspace


@dataclass(slots=True)
class SetupPlan:
    """`config` are keys of config.json, `secrets` names of secrets.json, as they shall become."""

    config: dict[Key, Any] = field(default_factory=dict)
    secrets: dict[str, str | None] = field(default_factory=dict)
    persona: Persona = field(default_factory=Persona)
    model: str = ""

    def write(self, home: DataDir, path: Path, workspace: Path) -> None:
        """Secrets, configuration, workspace, each file whole, in an order in which what was
        written never refers to what was not. Raises `ConfigError`."""
        with _undisturbed():
            home.ensure()
            if self.secrets:
                change_secrets(home.secrets, self.secrets)
            change_config(path, self.config)
            ensure_workspace(workspace)
            write_persona(workspace, self.persona)


def with_model(raw: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[Key, Any]:
    """The keys that make `entry` the model that answers; other entries stay."""
    listed = raw.get("model_list")
    others = [
        one
        for one in (listed if isinstance(listed, list) else [])
        if not (isinstance(one, dict) and one.get("model_name") == entry["model_name"])
    ]
    return {("agent", "model"): entry["model_name"], ("model_list",): [dict(entry), *others]}


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
