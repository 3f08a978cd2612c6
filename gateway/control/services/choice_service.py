"""The calls that choose how a session is answered, for the process that owns the data."""

import time
from collections.abc import Callable

from agent.errors import ConfigError, KoreError
from agent.providers.pool import ModelPool
from agent.security.policy.base import PermissionMode
from gateway.core.messages import CONSOLE, console_principal
from gateway.sessions import lookup
from gateway.sessions.mode_choice import choose_mode
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions


class ChoiceService:
    """Implements `gateway.control.service.ChoiceCalls` for the machine's owner."""

    def __init__(
        self,
        database: Store,
        models: Callable[[], ModelPool],
        default_mode: Callable[[str], PermissionMode],
    ) -> None:
        self._database = database
        self._models = models
        self._default_mode = default_mode

    async def choose_model(self, session: str, model: str) -> None:
        models = self._models()
        try:
            models.check(model)
        except ConfigError as exc:
            # It is the argument that is wrong, and no file.
            raise KoreError(str(exc), hint=exc.hint) from exc
        # Choosing a model, even the same one again, suggests that it works now.
        models.expire_cooldowns(model)

        def choose(tx: Transaction) -> None:
            sessions.choose_model(tx, lookup.find(tx, session), model)

        await self._database.transact(choose)

    async def choose_mode(self, session: str, mode: PermissionMode) -> None:
        principal = console_principal()
        default = self._default_mode(CONSOLE)

        def choose(tx: Transaction) -> None:
            by = {"who": principal, "chat": ""}
            choose_mode(tx, lookup.find(tx, session), mode, default, by, time.time())

        await self._database.transact(choose)
