"""Names for the field `model`: Kore's agents, configured models and profiles."""

from collections.abc import Mapping
from typing import Any

from agent.i18n import t
from agent.records import frozen
from gateway.control.service import Service
from gateway.server.openai_api.errors import ApiError, bad_field
from gateway.server.tokens import AccessToken

KORE = "kore"
# Profile that answers side requests.
SIDE_MODEL = "quick"
_PREFIX = f"{KORE}/"


@frozen
class ModelTarget:
    """Target of a request: Kore's `agent` ("" for the default one in chats) or a bare `model`."""

    name: str
    agent: str | None = None
    model: str | None = None


async def model_entries(service: Service, token: AccessToken) -> list[dict[str, Any]]:
    """Return the entries of `/v1/models`, Kore first. A token with a role sees only Kore."""
    if token.role is not None:
        return [_entry(KORE, KORE)]
    agents = [str(entry["name"]) for entry in await service.list_agents()]
    models = [str(entry["name"]) for entry in await service.list_models() if entry["model"]]
    names = [KORE, *(f"{_PREFIX}{name}" for name in agents)]
    entries = [_entry(name, KORE) for name in names]
    return entries + [_entry(name, "models") for name in models if name not in names]


async def find_target(service: Service, body: Mapping[str, Any], token: AccessToken) -> ModelTarget:
    """Return the target that a request names.

    Raises `ApiError` for a name that does not exist or is not available to this token.
    """
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise bad_field("model", "the name of a model", name)
    if name == KORE:
        return ModelTarget(name, agent="")
    if token.role is not None:
        raise ApiError(
            404,
            t("there is no model {name!r} for a token with a role, only kore", name=name[:80]),
            "model_not_found",
            "model",
        )
    if name.startswith(_PREFIX):
        agent = name.removeprefix(_PREFIX)
        if any(entry["name"] == agent for entry in await service.list_agents()):
            return ModelTarget(name, agent=agent)
    elif any(name in (entry["name"], entry["model"]) for entry in await service.list_models()):
        return ModelTarget(name, model=name)
    raise unknown_model(name)


def unknown_model(name: str) -> ApiError:
    """Return an error for an unknown name."""
    words = t("there is no model {name!r}; GET /v1/models lists them", name=name[:80])
    return ApiError(404, words, "model_not_found", "model")


def _entry(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}
