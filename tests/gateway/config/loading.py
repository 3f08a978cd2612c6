"""Loader for settings from given layers, each stored in its usual place."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.config import Settings, load_settings


def load(
    root: Path,
    user: Any = None,
    *,
    project: Any = None,
    environ: Mapping[str, str] | None = None,
    **overrides: Any,
) -> Settings:
    """Load the settings.

    Names of overrides have a double underscore between section and key.
    """
    home, cwd = root / "home", root / "work"
    home.mkdir(exist_ok=True)
    (cwd / ".kore").mkdir(parents=True, exist_ok=True)
    for path, content in ((home / "config.json", user), (cwd / ".kore" / "config.json", project)):
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_settings(
        config=None,
        home=home,
        cwd=cwd,
        environ={"HOME": str(root), **(environ or {})},
        overrides={name.replace("__", "."): value for name, value in overrides.items()},
    )
