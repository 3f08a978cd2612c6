"""The parts of a running gateway that other settings reach at once."""

import logging
from collections.abc import Mapping

from agent.agent import Agent
from agent.providers.pool import ModelPool
from agent.records import frozen
from agent.security.redaction import Redactor
from gateway.access.approvals import ApprovalService
from gateway.access.control import AccessControl, sole_owner
from gateway.access.roles import RoleRegistry
from gateway.bus.bus import MessageBus
from gateway.channels.base import Channel
from gateway.channels.registry import allowed_senders
from gateway.config import Settings
from gateway.delivery.sender import OutboxSender
from gateway.turns.usage_meter import StoreUsageMeter

log = logging.getLogger(__name__)


@frozen
class ReloadTargets:
    """What turns ask as they begin, and what is asked at every call (roles, limits, who may
    write): the one changes with the next turn, the other now."""

    agent: Agent
    policies: RoleRegistry
    access: AccessControl
    spending: StoreUsageMeter
    delivery: OutboxSender
    clerk: ApprovalService
    ways: Mapping[tuple[str, str], Channel]
    redactor: Redactor
    bus: MessageBus

    def take(self, settings: Settings, agent: Agent, policies: RoleRegistry) -> ModelPool | None:
        """Run with these settings; `agent` and `policies` are made of them and fit.

        Nothing is awaited: nobody sees a half of it. Returns the models until now, if there are
        others: turns that run may still use them.
        """
        access = self.access
        access.owner = sole_owner(settings.access.owner, settings.telegram.allow_from)
        access.allow = {way: allowed_senders(settings, way) for way in self.ways}
        access.roles = settings.access.roles
        self.policies.adopt(policies)
        self.spending.limits = settings.limits
        self.spending.errand_usd = settings.subagents.max_cost_usd
        self.clerk.expires_s = settings.security.approval_timeout_s
        self.delivery.languages.configure(settings.agent.language)
        self.redactor.learn(agent.settings.secrets | agent.models.keys())
        for way, allowed in access.allow.items():
            if "*" in allowed:
                log.warning('%s: allow_from is ["*"]: everybody may use this bot', ":".join(way))
        return self.agent.adopt(agent)
