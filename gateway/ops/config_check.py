"""Check that valid settings are usable: the model, the channels, the policy."""

from collections.abc import Mapping

from gateway.access.roles import RoleRegistry
from gateway.channels.table import check_channels
from gateway.config import Settings, require_model
from gateway.config.model_entries import check_models


def check_usable(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise `ConfigError` for the first unusable setting."""
    require_model(settings)
    check_models(settings, environ)
    check_channels(settings)
    RoleRegistry.of(settings)
