"""Model facts from the bundled table."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from agent.records import frozen
from agent.types import ReasoningEffort

# Vendors name snapshots of a model by date; the facts of the model apply to them.
_SNAPSHOT = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$")
_ANY = "*"
TABLE = Path(__file__).with_name("models.toml")


@frozen
class ModelFacts:
    """Facts about a model; None means unknown.

    `window_tokens` is the size of the context window, `reply_tokens` the longest reply. `images`
    and `reasoning` say whether the model sees pictures and thinks; `efforts` are its levels of
    effort (empty: unknown). `project` contains the settings to use for work in a project, by their
    names in `ModelSettings`. `patches` means that the model edits files best with patches.
    """

    window_tokens: int | None = None
    reply_tokens: int | None = None
    images: bool | None = None
    reasoning: bool | None = None
    efforts: tuple[ReasoningEffort, ...] = ()
    project: Mapping[str, Any] = field(default_factory=dict)
    patches: bool = False


def facts_of(vendor: str, model: str) -> ModelFacts:
    row = listed_row(vendor, model)
    return ModelFacts(
        row.get("window_tokens"),
        row.get("reply_tokens"),
        row.get("images"),
        row.get("reasoning"),
        tuple(row.get("efforts", ())),
        row.get("project", {}),
        row.get("patches", False),
    )


def listed_row(vendor: str, model: str) -> Mapping[str, Any]:
    """Return the model's row of the table; empty if the model is not listed."""
    models = _models_of(vendor)
    names = (model, _SNAPSHOT.sub("", model), _ANY)
    return next((models[name] for name in names if name in models), {})


@cache
def _models_of(vendor: str) -> Mapping[str, Any]:
    """Return the models of a vendor. For speed, only its part of the table is parsed."""
    _, _, part = TABLE.read_text("utf-8").partition(f"\n[{vendor}]\n")
    return tomllib.loads(part.partition("\n[")[0])
