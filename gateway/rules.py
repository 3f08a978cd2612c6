"""What a message may do: permissions, memory and folder of the turn that answers it."""

from dataclasses import dataclass
from pathlib import Path

from agent.security.policy import DefaultPolicy
from agent.tools.runner import Permissions
from gateway.access import CONSOLE, Access
from gateway.approvals import Approvals
from gateway.messages import InboundMessage


@dataclass(frozen=True, slots=True)
class Rules:
    """The console is the owner at the machine: it is asked. All other channels are remote."""

    access: Access
    approvals: Approvals
    workspace: Path
    blocked_commands: tuple[str, ...]

    def permissions(self, message: InboundMessage, session: str) -> Permissions:
        if message.channel != CONSOLE:
            policy = DefaultPolicy("remote", blocked_commands=self.blocked_commands)
            return Permissions(policy)
        auto = message.options.get("auto") is True
        policy = DefaultPolicy("local", auto, self.blocked_commands)
        if message.options.get("unattended") is True:
            return Permissions(policy)
        return Permissions(policy, self.approvals.approver(message.session_key, session))

    def memory(self, message: InboundMessage) -> Path:
        return self.access.memory(self.workspace, message)

    def root(self, message: InboundMessage) -> Path:
        """Where relative paths start; only the console may choose another folder."""
        cwd = message.options.get("cwd")
        if message.channel == CONSOLE and isinstance(cwd, str):
            return Path(cwd).resolve()
        return self.workspace
