"""What the front desk has done by others: the configuration, and what is kept of people."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agent.errors import KoreError


class Reloads(Protocol):
    """Reads the configuration again."""

    async def reload(self) -> Mapping[str, Any]: ...

    def facts(self) -> dict[str, Any]: ...


class Keeps(Protocol):
    """Knows what is kept of a person."""

    async def look(self, principal: str) -> Mapping[str, Any]: ...

    async def export(self, principal: str, target: Path) -> Mapping[str, Any]: ...

    async def delete(self, principal: str, *, copies: bool) -> Mapping[str, Any]: ...


class HandsOver(Protocol):
    """Lets go of the data."""

    async def request(self, successor: str) -> Sequence[str]: ...


class Upkept:
    """A part of the desk. A terminal of its own has no `reloader`, but a `handover`."""

    reloader: Reloads | None = None
    custodian: Callable[[], Keeps] | None = None
    # A gateway has none: it keeps the data.
    handover: HandsOver | None = None

    async def hand_over(self, successor: str) -> Sequence[str] | None:
        return None if self.handover is None else await self.handover.request(successor)

    async def reload(self) -> Mapping[str, Any]:
        if self.reloader is None:
            raise KoreError(
                "what runs here is a conversation in a terminal",
                hint="It reads the configuration when it starts.",
            )
        return await self.reloader.reload()

    async def person(self, principal: str) -> Mapping[str, Any]:
        return await self._keeper.look(principal)

    async def export_person(self, principal: str, target: Path) -> Mapping[str, Any]:
        return await self._keeper.export(principal, target)

    async def delete_person(self, principal: str, copies: bool) -> Mapping[str, Any]:
        return await self._keeper.delete(principal, copies=copies)

    @property
    def _keeper(self) -> Keeps:
        assert self.custodian is not None, "who opens the parts names one"
        return self.custodian()
