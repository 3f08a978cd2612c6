"""Pairing of the owner: the person who opens the link with its code."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.access.pairing import CODE_TTL_S
from gateway.channels.spec import ChannelIdentity, ChannelSpec
from gateway.cli.onboarding.qr import qr_lines
from gateway.cli.service_link import open_service
from gateway.config import Settings
from gateway.control.client import ControlClient
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.runtime.paths import DataDir

_POLL_INTERVAL_S = 0.5
_FAILED_STATES = ("refused", "stopped")
Say = Callable[[str], None]


@frozen
class Candidate:
    """Account of the channel to which the future owner writes."""

    spec: ChannelSpec[Any]
    identity: ChannelIdentity
    account: str

    @property
    def address(self) -> str:
        return f"{self.spec.name}:{self.account}"


async def invitation(settings: Settings, home: DataDir, candidate: Candidate) -> str | None:
    """Return only the code, for later use; None if there is an owner."""
    async with open_service(settings, home) as service:
        if (await service.list_people())["owner"] is not None:
            return None
        return await service.invite_owner(candidate.spec.name, candidate.account)


async def await_owner(settings: Settings, home: DataDir, candidate: Candidate, say: Say) -> str:
    """Show the link, wait until it is opened, and return a sentence about the owner.

    Without a running Kore, this process serves the channels in the meantime and answers messages.
    Raises `KoreError` if the link was not opened within the hour, or if the bot cannot receive.
    """
    if await ControlClient.connect(home.socket) is not None:
        return await _wait_for_running(home, candidate, say)
    from gateway.app import open_app

    async with open_app(settings, home, channels=True) as app:
        return await _wait(app.service, candidate, say)


async def _wait_for_running(home: DataDir, candidate: Candidate, say: Say) -> str:
    """Wait with the help of the running Kore, once it knows the bot."""
    has_notified = False
    while True:
        try:
            client = await ControlClient.connect(home.socket)
            if client is not None and candidate.address in (await client.status())["channels"]:
                return await _wait(client, candidate, say)
        except ConnectionLost:
            pass  # Kore is being restarted, as expected here
        if not has_notified:
            say(
                t(
                    "Kore is already running without this account. Restart it (Ctrl-C and "
                    "`kore gateway`, or `systemctl --user restart kore`); waiting."
                )
            )
            has_notified = True
        await asyncio.sleep(_POLL_INTERVAL_S)


async def _wait(service: Service, candidate: Candidate, say: Say) -> str:
    people = await service.list_people()
    if people["owner"] is not None:
        return _describe_owner(people)
    code = await service.invite_owner(candidate.spec.name, candidate.account)
    show_invitation(candidate, code, say)
    reported: set[str] = set()
    try:
        async with asyncio.timeout(CODE_TTL_S):
            while True:
                await asyncio.sleep(_POLL_INTERVAL_S)
                await _report_bot_state(service, candidate, reported, say)
                people = await service.list_people()
                if people["owner"] is not None:
                    return _describe_owner(people)
                _report_requests(people, reported, say)
    except TimeoutError:
        raise KoreError(
            t("the link expired: nobody opened it within one hour"),
            hint=f"kore channel add {candidate.spec.name}",
        ) from None


async def _report_bot_state(
    service: Service, candidate: Candidate, reported: set[str], say: Say
) -> None:
    """Report each error of the bot once. Raises `KoreError` if it stopped receiving."""
    state = (await service.status())["channels"].get(candidate.address, {})
    error = state.get("last_error")
    if not error or state.get("state") == "polling":
        return
    if state.get("state") in _FAILED_STATES:
        raise KoreError(str(error))
    if error not in reported:
        reported.add(error)
        say(f"  {error}")


def _report_requests(people: Any, reported: set[str], say: Say) -> None:
    for person in people["asking"]:
        if person["id"] not in reported:
            reported.add(person["id"])
            notice = t(
                "{name} ({id}) wrote without the link. If that is you, open the link "
                "anyway, or run `kore pair approve CODE` with the code that the bot sent "
                "you.",
                name=person["name"],
                id=person["id"],
            )
            say(f"  {notice}")


def show_invitation(candidate: Candidate, code: str, say: Say) -> None:
    """Show the invitation for the owner, with a QR code if the terminal is wide enough."""
    invitation, title = candidate.spec.invite(candidate.identity, code), candidate.spec.title
    lines: list[str] = []
    if invitation.is_link and sys.stdout.isatty():
        columns = os.get_terminal_size(sys.stdout.fileno()).columns or 80
        colours = os.environ.get("TERM", "dumb") not in ("dumb", "")
        encoding = sys.stdout.encoding or "ascii"
        lines = qr_lines(invitation.text, columns, encoding=encoding, colours=colours)
    for line in lines:
        say(line)
    if not invitation.is_link:
        say(t("Write this to {name} in {title}:", name=candidate.identity.label, title=title))
    elif lines:
        say(t("Scan this with your phone, or open it on a device with {title}:", title=title))
    else:
        say(t("Open this on a device with {title}:", title=title))
    say(f"  {invitation.text}")
    say(t("The first person to use it becomes the owner, so keep it private. Valid for one hour."))


def _describe_owner(people: Any) -> str:
    owner = people["owner"]
    name = next((person["name"] for person in people["paired"] if person["id"] == owner), "")
    return t("{name} is now the owner.", name=f"{name} ({owner})" if name else owner)
