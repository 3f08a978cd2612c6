"""`/NAME` in a chat: distinguishes skills from mistyped commands."""

from collections.abc import Mapping

from agent.agent import Agent
from agent.records import frozen
from agent.skills.authoring import find_skill_request
from agent.skills.definition import Skill
from agent.skills.invocation import invocation_in
from gateway.access.control import AccessControl
from gateway.commands import read_command
from gateway.core.messages import InboundMessage
from gateway.core.records import TypedCommand


@frozen
class CommandReader:
    """Reader of messages as commands.

    An unknown single word is looked up among the skills of the chat's folder, which accesses the
    disk.
    """

    agent: Agent
    access: AccessControl

    def read(self, message: InboundMessage) -> TypedCommand | None:
        """Return the message as a command; None when it is for the model."""
        command = read_command(message)
        if command is None or not self.access.is_allowed(message):
            return command
        if command.name == "skills" and find_skill_request(message.content) is not None:
            return None
        if command.name:
            return command
        return None if invocation_in(message.content, self._skills(message)) else command

    def is_command(self, message: InboundMessage) -> bool:
        """Return whether the message needs no turn: a command, or the check of a goal."""
        return message.kind == "goal_check" or self.read(message) is not None

    def _skills(self, message: InboundMessage) -> Mapping[str, Skill]:
        catalog = self.agent.skills
        if catalog is None:
            return {}
        return catalog.load(self.access.folder(self.agent.workspace.folder, message))
