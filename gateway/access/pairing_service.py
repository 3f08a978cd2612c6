"""Pairing service: messages to strangers, cards for the owner, and `kore pair`."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Self

from agent.i18n import t, use_locale
from agent.records import frozen
from gateway.access.control import AccessControl
from gateway.access.pairing import PairingCodes, PairingResult, plain_name, refusal
from gateway.core.channel_table import DEFAULT_CHANNEL
from gateway.core.messages import Button, InboundMessage, Route
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Transaction
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.access import members
from gateway.store.repositories.access.members import PairingRequest, Person
from gateway.store.repositories.audit_outbox import AuditNote
from gateway.store.repositories.delivery import chats, outbox
from gateway.store.repositories.delivery.outbox import PAIRING, OutgoingReply

_DAY_S = 86_400.0
_USAGE = "`/pair list`, `/pair approve CODE`, `/pair deny CODE`, `/pair revoke ID`"


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
    """Return a person's name and id for the owner; people choose their name, but not their id."""
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


class PairingService:
    """Pairing inside the caller's transactions, which wake `mention_lanes` afterwards."""

    def __init__(
        self,
        *,
        access: AccessControl,
        codes: PairingCodes,
        renderer: ReplyRenderer,
        languages: UserLanguages,
    ) -> None:
        self._access = access
        self._codes = codes
        self._languages = languages
        self._render = renderer.render
        self._mention_routes: set[str] = set()

    def mention_lanes(self) -> set[str]:
        """Return the lanes to wake after committed transactions, and clear the list."""
        lanes, self._mention_routes = self._mention_routes, set()
        return lanes

    def handle_stranger(self, tx: Transaction, message: InboundMessage, now: float) -> bool:
        """Answer a stranger: in private with a code; the owner gets a request.

        Returns False when the stranger gets no answer. For a group, only the owner is notified,
        once per day and group.
        """
        if not message.private:
            self._notify_owner_of_mention(tx, message, now)
            return False
        code = self._codes.ask(tx, message, now)
        if code is None:
            return False
        # The decision is sent in the same language as the request.
        self._languages.record_client_language(tx, message)
        name = f"{PAIRING}{message.session_key}:{message.event_id}"
        self._post(tx, name, message.route, for_stranger(code, self._access.owner_id), now)
        owner = self._owner_route(tx, message)
        if owner is not None:
            self._ask_owner(tx, message, owner, code, now)
        return True

    def invite(self, tx: Transaction, channel: str, account: str, now: float) -> tuple[bool, str]:
        """Return the code that invites a person as owner, or the reason for refusal."""
        owner = self._codes.owner(tx)
        if owner is not None:
            return False, t("This Kore already has an owner: {name}.", name=owner)
        return True, self._codes.invite(tx, channel, account, now)

    def redeem_invitation(
        self, tx: Transaction, message: InboundMessage, code: str, now: float
    ) -> bool:
        """Redeem the code of an invitation link; return whether the person became the owner."""
        request = self._codes.redeem(tx, message, code, now)
        if request is None:
            return False
        self._admit(tx, PairingResult(request, owner=True), "an invitation", now)
        return True

    def press(self, tx: Transaction, message: InboundMessage, now: float) -> str:
        """Carry out a button below a pairing request, or return the reason for refusal."""
        press = read_press(message)
        route = outbox.route_of(tx, press[0].name) if press else None
        if press is None or route is None:
            return t("This button no longer works.")
        if not message.private or message.chat_id != route.chat_id:
            return t("This request belongs to another chat.")
        if not self._access.is_owner(message):
            return t("Only my owner can do that.")
        card, is_approved = press
        for request in _requests(tx, now):
            if PairingRequestCard.of(request).name == card.name:
                by = message.principal
                if is_approved:
                    verdict = self._codes.admit(tx, request, by, now)
                    return self._admit(tx, verdict, by, now)
                self._codes.reject(tx, request, now)
                return self._reject(tx, request, by, now)
        self._close_cards(tx, card, lambda: t("⌛ Expired"), now)
        return t("Too late: this was already decided, or the code has expired.")

    def command(self, tx: Transaction, message: InboundMessage, words: str, now: float) -> str:
        """Carry out `/pair`; return the answer as markdown."""
        if not self._access.is_owner(message):
            return t("Only my owner can do that.")
        if not message.private:
            return t("Send me this in a private chat: everyone here would see it.")
        action, _, argument = words.partition(" ")
        argument = argument.strip()
        match action, argument:
            case "" | "list", "":
                return self._list_people(tx, now)
            case "approve", _ if argument:
                return self.approve(tx, argument, message.principal, now)[1]
            case "deny", _ if argument:
                return self.deny(tx, argument, message.principal, now)
            case "revoke", _ if argument:
                return self.revoke(tx, argument, message.principal, now)[1]
            case _, "":
                return self.approve(tx, action, message.principal, now)[1]
        return t("Available: {commands}.", commands=_USAGE)

    def approve(self, tx: Transaction, code: str, by: str, now: float) -> tuple[bool, str]:
        """Approve and notify a person; return whether this succeeded, and a message about it."""
        verdict = self._codes.approve(tx, code, by, now)
        if verdict.request is None:
            return False, refusal(verdict)
        return True, self._admit(tx, verdict, by, now)

    def _admit(self, tx: Transaction, verdict: PairingResult, by: str, now: float) -> str:
        assert verdict.request is not None
        person, chat = verdict.request.person, verdict.request.chat
        route = Route(person.channel, person.account, chat)
        with use_locale(self._languages.of_route(route)):
            welcome = t(
                "You're approved, and you are my owner. /help lists the commands."
                if verdict.owner
                else "You're approved. Send me a message anytime."
            )
        self._post(tx, f"paired:{route.lane}:{now}", route, welcome, now)
        role = " as the owner" if verdict.owner else ""
        _note(tx, person.principal, f"let in{role} by {by}", now, allowed=True)
        card = PairingRequestCard.of(verdict.request)
        self._close_cards(tx, card, lambda: t("✅ Approved by {name}", name=by), now)
        return t(
            "{name} is approved and is my owner now." if verdict.owner else "{name} is approved.",
            name=display_name(person),
        )

    def deny(self, tx: Transaction, code: str, by: str, now: float) -> str:
        """Deny the request for which the code was sent; return a sentence about it."""
        verdict = self._codes.deny(tx, code, by, now)
        if verdict.request is None:
            return refusal(verdict)
        return self._reject(tx, verdict.request, by, now)

    def _reject(self, tx: Transaction, request: PairingRequest, by: str, now: float) -> str:
        person = request.person
        _note(tx, person.principal, f"turned down by {by}", now, allowed=False)
        self._close_cards(tx, PairingRequestCard.of(request), lambda: _refusal_text(by), now)
        return t("{name} was denied.", name=display_name(person))

    def revoke(self, tx: Transaction, who: str, by: str, now: float) -> tuple[bool, str]:
        """Remove a person; return whether this succeeded, and a message about it."""
        principal = who if ":" in who else f"{DEFAULT_CHANNEL}:{who}"
        was_chief = principal == self._access.owner_id
        requests = [
            request for request in _requests(tx, now) if request.person.principal == principal
        ]
        is_revoked = self._codes.revoke(tx, principal, now)
        for request in requests:
            self._close_cards(tx, PairingRequestCard.of(request), lambda: _refusal_text(by), now)
        channel, _, sender = principal.partition(":")
        is_listed = self._is_listed(sender, channel)
        if not is_revoked and not is_listed:
            return False, t("No paired user or pending request has the id {id!r}.", id=who[:80])
        if is_revoked:
            _note(tx, principal, f"turned out by {by}", now, allowed=False)
            if not is_listed and not self._is_listed("*", channel):
                members.refuse_waiting(tx, principal)
        sentences = [
            t(
                "{name} is no longer paired." if is_revoked else "{name} is not paired.",
                name=principal,
            )
        ]
        if is_listed:
            sentences.append(
                t("The configuration still allows them: remove them from allow_from too.")
            )
        if was_chief and self._codes.owner(tx) is None:
            sentences.append(
                t("There is no owner now; the next person approved becomes the owner.")
            )
        return is_revoked, " ".join(sentences)

    def people(self, tx: Transaction, now: float) -> dict[str, Any]:
        """Return requests and members as JSON, without codes."""
        return {
            "owner": self._access.owner_id,
            "asking": [_flat(asdict(request)) for request in _requests(tx, now)],
            "paired": [
                _flat({**asdict(member), "owner": member.person.principal == self._access.owner_id})
                for member in members.members(tx)
            ],
        }

    def _list_people(self, tx: Transaction, now: float) -> str:
        people = self.people(tx, now)
        lines = [
            t("{name} ({id}) wants to talk to me", name=person["name"], id=person["id"])
            for person in people["asking"]
        ]
        for person in people["paired"]:
            lines.append(
                t(
                    "{name} ({id}) is the owner" if person["owner"] else "{name} ({id}) is paired",
                    name=person["name"],
                    id=person["id"],
                )
            )
        usage = t("Available: {commands}.", commands=_USAGE)
        bullets = "\n".join(f"- {line}" for line in lines)
        return f"{bullets or t('No paired users and no pending requests.')}\n\n{usage}"

    def _is_listed(self, whom: str, channel: str) -> bool:
        """Return whether the configuration admits a sender, or `"*"`, on a channel."""
        return any(whom in ids for (name, _), ids in self._access.allow.items() if name == channel)

    def _owner_route(self, tx: Transaction, message: InboundMessage) -> Route | None:
        """Return the owner's private chat with the same bot; None on another channel."""
        owner = self._access.owner_id
        if owner is None or owner.partition(":")[0] != message.channel:
            return None
        return chats.private_chat(tx, owner, message.account)

    def _notify_owner_of_mention(
        self, tx: Transaction, message: InboundMessage, now: float
    ) -> None:
        owner = self._owner_route(tx, message)
        name = f"mention:{message.account}:{message.chat_id}:{int(now // _DAY_S)}"
        if owner is None or outbox.route_of(tx, name) is not None:
            return
        person = Person(
            message.channel, message.account, message.sender.id, plain_name(message.sender.name)
        )
        with use_locale(self._languages.of_route(owner)):
            text = t(
                "{name} wrote to me in a group ({chat}). I don't recognize them, so I "
                "didn't answer. If they write to me in private, they get a pairing code "
                "for you to approve.",
                name=display_name(person),
                chat=message.chat_id,
            )
        self._post(tx, name, owner, text, now)

    def _ask_owner(
        self, tx: Transaction, message: InboundMessage, owner: Route, code: str, now: float
    ) -> None:
        name = plain_name(message.sender.name)
        person = Person(message.channel, message.account, message.sender.id, name)
        card = PairingRequestCard(person, round(now * 1000))
        with use_locale(self._languages.of_route(owner)):
            *parts, last = self._render(owner, card.text(code))
            parts.append(replace(last, buttons=card.buttons))
        self._send(tx, OutgoingReply(card.name, owner, parts, "notice"), now)

    def _close_cards(
        self,
        tx: Transaction,
        card: PairingRequestCard,
        decision: Callable[[], str],
        now: float,
    ) -> None:
        """Replace the owner's message with the decision and remove its buttons, once."""
        name, closing_name = card.name, f"{card.name}:done"
        route = outbox.route_of(tx, name)
        if route is None or outbox.route_of(tx, closing_name) is not None:
            return
        if not outbox.drop_unsent(tx, name, "decided"):
            with use_locale(self._languages.of_route(route)):
                parts = self._render(route, card.decided_text(decision()))
            self._send(tx, OutgoingReply(closing_name, route, parts, "notice", edits=name), now)

    def _post(self, tx: Transaction, name: str, route: Route, text: str, now: float) -> None:
        self._send(tx, OutgoingReply(name, route, self._render(route, text), "notice"), now)

    def _send(self, tx: Transaction, reply: OutgoingReply, now: float) -> None:
        outbox.put(tx, None, [reply], now)
        tx.after_commit(lambda: self._mention_routes.add(reply.route.lane))


def _refusal_text(name: str) -> str:
    return t("⛔ Denied by {name}", name=name)


def _note(tx: Transaction, who: str, reason: str, now: float, *, allowed: bool) -> None:
    audit_outbox.put(tx, AuditNote(now, "pairing", reason, {"who": who}, allowed))


def _requests(tx: Transaction, now: float) -> list[PairingRequest]:
    return [request for request, _ in members.requests(tx, now)]


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Flatten the person's fields into the record, and add the id used in commands."""
    person = record.pop("person")
    return {"id": f"{person['channel']}:{person['sender']}", **person, **record}
