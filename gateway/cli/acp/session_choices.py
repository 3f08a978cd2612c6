"""Choices of a session in an editor's menus: model and mode."""

from collections.abc import Mapping, Sequence
from typing import Any

from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.policy.base import MODES, PermissionMode, is_mode
from agent.text.visible import escape_line
from gateway.control.service import Service

MODEL, MODE = "model", "mode"
# Size limit of the menu; `/model NAME` accepts any model.
_MOST_MODELS = 200
_MODES: dict[PermissionMode, tuple[str, str]] = {
    "plan": (mark_for_translation("Plan"), mark_for_translation("Reads only; changes nothing")),
    "ask": (mark_for_translation("Ask"), mark_for_translation("Asks before it changes anything")),
    "accept-edits": (
        mark_for_translation("Accept edits"),
        mark_for_translation("Edits files in the folder; asks before commands"),
    ),
    "auto": (
        mark_for_translation("Auto"),
        mark_for_translation("Works in the sandbox; asks before what leaves it"),
    ),
}

ConfigOption = SessionConfigOptionSelect | SessionConfigOptionBoolean


@frozen
class SessionChoices:
    """Current choices of a session.

    `models` are the available names, each with its model; the chosen one is included.
    """

    model: str
    mode: PermissionMode
    models: tuple[tuple[str, str], ...]

    def mode_state(self) -> SessionModeState:
        """Return the modes, for editors without configuration options."""
        return SessionModeState(
            current_mode_id=self.mode,
            available_modes=[
                SessionMode(id=mode, name=t(name), description=t(description))
                for mode, (name, description) in _MODES.items()
            ],
        )

    def config_options(self) -> list[ConfigOption]:
        return [
            SessionConfigOptionSelect(
                id=MODEL,
                name=t("Model"),
                category="model",
                type="select",
                current_value=self.model,
                options=[
                    SessionConfigSelectOption(
                        value=name, name=escape_line(name), description=escape_line(model) or None
                    )
                    for name, model in self.models
                ],
            ),
            SessionConfigOptionSelect(
                id=MODE,
                name=t("Mode"),
                category="mode",
                type="select",
                current_value=self.mode,
                options=[
                    SessionConfigSelectOption(value=mode, name=t(name), description=t(description))
                    for mode, (name, description) in _MODES.items()
                ],
            ),
        ]


async def read_choices(service: Service, lane: str) -> SessionChoices:
    """Read the choices of the lane's session."""
    status = await service.conversation_status(lane)
    listed = await service.list_models()
    model = status["model"] or _default_of(listed)
    usable = [
        (str(mapping["name"]), str(mapping["model"])) for mapping in listed if mapping["model"]
    ]
    models = usable[:_MOST_MODELS]
    if model not in dict(models):
        models.insert(0, (model, dict(usable).get(model, "")))
    mode = await service.session_mode(status["session"])
    return SessionChoices(model, mode, tuple(models))


def mode_of_value(value: Any) -> PermissionMode:
    """Return the mode. Raises `ValueError` with a message for the person."""
    if not is_mode(value):
        raise ValueError(f"expected one of {', '.join(MODES)}, found {str(value)[:80]}")
    return value


def _default_of(models: Sequence[Mapping[str, Any]]) -> str:
    return next((str(mapping["name"]) for mapping in models if mapping["default"]), "default")
