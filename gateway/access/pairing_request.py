"""Card for a pairing request, shown to the owner with buttons to decide it."""

from typing import Self

from agent.i18n import t
from agent.records import frozen
from gateway.core.messages import Button, InboundMessage
from gateway.store.repositories.access.members import PairingRequest, Person
from gateway.store.repositories.delivery.outbox import PAIRING


@frozen
class PairingRequestCard:
    """Card for one person's request; `requested_at_ms` (Unix time) distinguishes requests.

    Its buttons contain no secret: only the person and the chat of the press count.
    """

    person: Person
    requested_at_ms: int

    @classmethod
    def of(cls, request: PairingRequest) -> Self:
        return cls(request.person, round(request.asked_at * 1000))

    @property
    def name(self) -> str:
        """Delivery id of the message; the store empties such messages once they are sent."""
        person = self.person
        return (
            f"{PAIRING}{person.channel}:{person.account}:{person.sender}"
            f":{self.requested_at_ms}:owner"
        )

    @property
    def buttons(self) -> tuple[Button, ...]:
        request = f"{self.person.sender}:{self.requested_at_ms}"
        yes, no = t("Approve"), t("Deny")
        return Button(yes, f"pair:y:{request}"), Button(no, f"pair:n:{request}")

    def text(self, code: str) -> str:
        """Return the message as markdown."""
        return t(
            "{name} wants to talk to me. Approve only if they told you this code: "
            "`{code}`\n\n`/pair approve {code}` lets them in; `/pair deny {code}` blocks "
            "them for a day.",
            name=display_name(self.person),
            code=code,
        )

    def decided_text(self, decision: str) -> str:
        """Return the text that replaces the message; it contains no code."""
        return t(
            "{name} wanted to talk to me.\n\n{decided}.",
            name=display_name(self.person),
            decided=decision,
        )


def is_pairing_button(message: InboundMessage) -> bool:
    """Return whether the pressed button decides a pairing request."""
    return message.content.startswith("pair:")


def read_press(message: InboundMessage) -> tuple[PairingRequestCard, bool] | None:
    """Return the request and whether "Approve" was pressed; None for another button."""
    match message.content.split(":"):
        case ["pair", "y" | "n" as choice, sender, asked_ms] if (
            asked_ms.isdecimal() and len(asked_ms) < 20
        ):
            person = Person(message.channel, message.account, sender)
            return PairingRequestCard(person, int(asked_ms)), choice == "y"
    return None


def display_name(person: Person) -> str:
    """Return a person's name and id for the owner: the name is chosen, the id is not."""
    return f"{person.name or t('Someone')} ({person.principal})"


def for_stranger(code: str, owner: str | None) -> str:
    """Return the message to an unknown person."""
    if owner is None:
        return t(
            "I don't recognize you yet. To get access, run this on the machine where I "
            "run:\n\n`kore pair approve {code}`\n\nThe code is valid for one hour.",
            code=code,
        )
    return t(
        "I don't recognize you yet. To get access, give my owner this code: `{code}`\n\n"
        "It is valid for one hour.",
        code=code,
    )
