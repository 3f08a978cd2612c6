"""`/NAME` in a message: distinguishes prompts, such as skills, from commands and typing errors."""

from agent.agent import Agent
from agent.records import frozen
from agent.skills.authoring import find_skill_request
from gateway.access.control import AccessControl
from gateway.commands import read_command
from gateway.core.messages import InboundMessage
from gateway.core.records import TypedCommand
from gateway.core.token_routes import API


@frozen
class CommandReader:
    """Reader of messages as commands.

    An unknown word is looked up among the prompts of the chat's folder, which accesses the disk.
    Other unknown words of a program are for the model, because the program shows no commands.
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
        return None if message.channel == API or self._invokes(message) else command

    def is_command(self, message: InboundMessage) -> bool:
        """Return whether the message needs no turn: a command, or the check of a goal."""
        return message.kind == "goal_check" or self.read(message) is not None

    def needs_own_turn(self, message: InboundMessage) -> bool:
        """Return whether the message cannot join a running turn: a command, or a prompt."""
        return self.is_command(message) or self._invokes(message)

    def _invokes(self, message: InboundMessage) -> bool:
        if not message.content.startswith("/"):
            return False
        catalog = self.agent.skills
        if catalog is None:
            return False
        commands = catalog.commands(self.access.folder(self.agent.workspace.folder, message))
        return commands.invocation_in(message.content) is not None
