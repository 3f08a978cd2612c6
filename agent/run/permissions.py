"""Permissions of a library agent: its mode, a custom policy, or full access."""

import logging
from dataclasses import replace

from agent.errors import ConfigError
from agent.i18n import t
from agent.prompts import load_prompt
from agent.security.policy.base import Approver, Ask, Callback, PermissionMode
from agent.settings import AgentSettings
from agent.tools.runner import Permissions

log = logging.getLogger(__name__)


def with_full_access(settings: AgentSettings) -> AgentSettings:
    """Return settings for full access.

    Raises `ConfigError` if there is a sandbox as well, because only one of the two can be intended.
    """
    sandbox = settings.tools.sandbox
    if sandbox is not None and sandbox.confines:
        raise ConfigError(
            t("full_access cannot be combined with the sandbox {name}", name=sandbox.name)
        )
    log.warning("full access: tools and commands run without a question and without a sandbox")
    return replace(settings, tools=settings.tools.with_full_access())


def permissions_of(
    approve: Ask | Approver | Permissions | None, mode: PermissionMode, *, full_access: bool
) -> Permissions:
    if full_access:
        from agent.security.policy.engine import FullAccessPolicy

        policy = FullAccessPolicy()
        if isinstance(approve, Permissions):
            return replace(approve, policy=policy, full_access=True)
        return Permissions(policy, _approver(approve), full_access=True)
    if isinstance(approve, Permissions):
        return approve
    # Imported here, because the gateway has its own policies, and no engine is needed before a tool
    # is called.
    from agent.security.policy.engine import DefaultPolicy

    remedy = load_prompt("nobody_program")
    return Permissions(DefaultPolicy(mode), _approver(approve), remedy=remedy)


def _approver(approve: Ask | Approver | None) -> Approver | None:
    return approve if approve is None or isinstance(approve, Approver) else Callback(approve)
