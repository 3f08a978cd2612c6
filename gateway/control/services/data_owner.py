"""The calls about the data as a whole, for the process that owns it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agent.errors import KoreError
from agent.i18n import t


class ConfigReload(Protocol):
    """Reads the configuration again."""

    async def reload(self) -> Mapping[str, Any]: ...

    def facts(self) -> dict[str, Any]: ...


class UserData(Protocol):
    """Knows what is stored of a person."""

    async def summarize(self, principal: str) -> Mapping[str, Any]: ...

    async def export(self, principal: str, target: Path) -> Mapping[str, Any]: ...

    async def delete(self, principal: str, *, copies: bool) -> Mapping[str, Any]: ...


class DataHandover(Protocol):
    """Lets go of the data."""

    async def request(self, successor: str) -> Sequence[str]: ...


class DataOwner:
    """What the process that owns the data does with its files. A gateway has no `handover`, since
    it keeps the data; a terminal of its own has no `reloader`."""

    def __init__(
        self,
        *,
        user_data: Callable[[], UserData],
        handover: DataHandover | None,
        reloader: ConfigReload | None,
    ) -> None:
        self._user_data = user_data
        self._handover = handover
        self._reloader = reloader

    async def hand_over(self, successor: str) -> Sequence[str] | None:
        return None if self._handover is None else await self._handover.request(successor)

    async def reload(self) -> Mapping[str, Any]:
        if self._reloader is None:
            raise KoreError(
                t("Kore is running as a terminal conversation, not as a gateway"),
                hint=t("It reads the configuration only when it starts; restart it."),
            )
        return await self._reloader.reload()

    async def summarize_person(self, principal: str) -> Mapping[str, Any]:
        return await self._user_data().summarize(principal)

    async def export_person(self, principal: str, target: Path) -> Mapping[str, Any]:
        return await self._user_data().export(principal, target)

    async def delete_person(self, principal: str, copies: bool) -> Mapping[str, Any]:
        return await self._user_data().delete(principal, copies=copies)
