"""What each chat command does and says."""

from collections.abc import Callable
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from agent.errors import ConfigError
from agent.providers.models import Models
from agent.security.modes import Mode
from agent.version import VERSION
from gateway.commands import COMMANDS, argument_of, command_of, mode
from gateway.commands.cost import cost
from gateway.door import Door
from gateway.store import sessions
from gateway.store.inbox import CommandClaim


@dataclass(frozen=True, slots=True)
class Commands:
    """Carries commands out inside the transaction that also stores their answer.

    `facts` describes the running process for /status; only the owner sees it. `first_mode` is the
    one that a channel begins with.
    """

    models: Models
    door: Door
    facts: Callable[[], dict[str, Any]]
    first_mode: Callable[[str], Mode]

    def carry_out(self, connection: Connection, claim: CommandClaim, now: float) -> str:
        """Do it; returns the answer as markdown."""
        message = claim.message
        match command_of(message):
            case "new":
                session = sessions.create_session(
                    connection, message.principal, now, lane=message.session_key
                )
                return f"New conversation `{session}`. The earlier one is kept."
            case "status":
                return self._status(connection, claim)
            case "model":
                return self._model(connection, claim, now)
            case "mode":
                return self._mode(connection, claim, argument_of(message), now)
            case "plan" | "auto" as wanted:
                return self._mode(connection, claim, wanted, now)
            case "cost":
                owner = self.door.access.is_owner_alone(message)
                return cost(connection, message, claim.session, now, all_=owner)
            case "pair":
                return self.door.command(connection, message, argument_of(message), now)
            case "start":
                return "Hello, I am Kore. Write to me as you would to a person; /help lists more."
            case _:
                lines = [f"/{name} - {text}" for name, text in COMMANDS.items() if name != "start"]
                return "\n".join(lines)

    def _status(self, connection: Connection, claim: CommandClaim) -> str:
        session = claim.session
        lines = [f"Kore {VERSION}", f"Model: `{self._chosen(connection, session)}`"]
        if session:
            count = sessions.count_messages(connection, session)
            lines.append(f"Conversation: `{session}`, {count} messages")
        if self.door.access.is_owner(claim.message):
            lines += [f"{name}: {value}" for name, value in self.facts().items()]
        return "\n".join(lines)

    def _mode(self, connection: Connection, claim: CommandClaim, wanted: str, now: float) -> str:
        first = self.first_mode(claim.message.channel)
        owner = self.door.access.is_owner(claim.message)
        return mode.choose(connection, claim, wanted, mode.Bounds(first, owner), now)

    def _model(self, connection: Connection, claim: CommandClaim, now: float) -> str:
        message, name = claim.message, argument_of(claim.message)
        chosen = self._chosen(connection, claim.session)
        if not name:
            known = ", ".join(f"`{model.name}`" for model in self.models.known)
            more = f" Configured: {known}." if known else ""
            return f"Model: `{chosen}`.{more} `/model NAME` chooses another."
        if not self.door.access.is_owner(message) and name not in self._offered():
            return f"Only the owner may choose a model that is not configured. It stays `{chosen}`."
        try:
            self.models.check(name)
        except ConfigError as exc:
            return f"{exc}. It stays `{chosen}`."
        session = claim.session or sessions.create_session(
            connection, message.principal, now, lane=message.session_key
        )
        sessions.choose_model(connection, session, name)
        return f"Model of this conversation: `{name}`."

    def _chosen(self, connection: Connection, session: str | None) -> str:
        chosen = sessions.chosen_model(connection, session) if session else None
        return chosen or self.models.default

    def _offered(self) -> set[str]:
        return {self.models.default, *(model.name for model in self.models.known)}
