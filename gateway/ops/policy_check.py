"""Policy check: decisions for hypothetical calls, and the list of roles."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.approvals import FolderAccess
from agent.errors import KoreError, ToolError
from agent.i18n import t
from agent.security.policy.base import PermissionMode, ToolRequest
from agent.security.policy.reasons import localized
from agent.tools.authorization import with_folder_question
from agent.tools.base import CallContext, DescribesEffects, EffectPlan, ToolEnvironment
from agent.tools.traits import traits_of
from agent.types import ToolCall
from gateway.access.control import AccessControl
from gateway.access.policy_case import PolicyCase, decision_facts, describe_role, make_case
from gateway.access.roles import RoleRegistry

_MAX_COMMAND_CHARS = 20_000
_PLAN_TIMEOUT_S = 10.0


class PolicyCheck:
    """Check against the current rules; nothing is executed."""

    def __init__(
        self, agent: Agent[Any], policies: RoleRegistry, access: AccessControl, workspace: Path
    ) -> None:
        self._agent = agent
        self._policies = policies
        self._access = access
        self._workspace = workspace

    async def check(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        role: str,
        mode: PermissionMode | None,
        channel: str,
    ) -> Mapping[str, Any]:
        """Return the decision, and for a command the verdicts of all rules. Raises `KoreError`."""
        sandbox = self._agent.settings.tools.sandbox
        folder = await asyncio.to_thread(self._workspace.resolve)
        self._policies.check(role, "role")
        case = make_case(
            self._policies,
            role=role,
            mode=mode,
            channel=channel,
            folder=folder,
            is_confined=sandbox is not None and sandbox.confines,
        )
        name = self._agent.toolbox.name(tool)
        if self._agent.toolbox.traits(name).runs_commands:
            return await asyncio.to_thread(_check_command, case, arguments)
        request, folder_access = await self._request(name, arguments, folder)
        decision = await asyncio.to_thread(case.policy.decide, request)
        if folder_access is not None:
            decision = with_folder_question(decision, folder_access)
        facts = {**decision_facts(decision), "reason": localized(decision.reason)}
        return {**facts, "mode": case.policy.principal.mode, "verdicts": []}

    def list_roles(self) -> Mapping[str, Any]:
        """Return the roles, and their assignments in `access.roles`."""
        roles = (self._policies.role(name) for name in self._policies.names)
        return {
            "roles": [describe_role(role) for role in roles if role is not None],
            "assigned": dict(self._access.roles),
            "owner": self._access.owner_id,
        }

    async def _request(
        self, name: str, arguments: Mapping[str, Any], folder: Path
    ) -> tuple[ToolRequest, FolderAccess | None]:
        """Return the request with the effects that the tool plans, and the folder that it needs."""
        tool = self._agent.toolbox.find(name)
        if tool is None or traits_of(tool).has_costly_plan:
            raise KoreError(t("the tool {name!r} cannot be checked here", name=name[:80]))
        memory = folder / "memory" / "MEMORY.md"
        environment = ToolEnvironment("", folder, memory, owner=True)
        call = ToolCall("", name, dict(arguments), "")
        try:
            values = self._agent.toolbox.validate(tool, dict(arguments))
            plan = EffectPlan()
            if isinstance(tool, DescribesEffects):
                async with asyncio.timeout(_PLAN_TIMEOUT_S):
                    plan = await tool.plan(values, CallContext(call, environment, lambda *_: None))
        except TimeoutError:
            raise KoreError(t("{name} takes too long to be checked", name=name)) from None
        except ToolError as exc:
            raise KoreError(str(exc)) from exc
        return plan.request(tool, values, folder), plan.folder_access


def _check_command(case: PolicyCase, arguments: Mapping[str, Any]) -> dict[str, Any]:
    command = arguments.get("command")
    if not isinstance(command, str) or not command.strip():
        raise KoreError(t("the command is empty"))
    if len(command) > _MAX_COMMAND_CHARS:
        raise KoreError(t("the command is too long"))
    decision = case.policy.decide(case.request(command))
    return {
        **decision_facts(decision),
        "reason": localized(decision.reason),
        "mode": case.policy.principal.mode,
        "verdicts": case.verdicts(command),
    }
