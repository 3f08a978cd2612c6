"""Taint of a session, and checks of the texts that may still leave it.

A session that has read untrusted text (`untrusted`) and something private can be persuaded to send
the private part out. From then on every outgoing text needs a person's approval, unless the person
wrote it or it is an address that appears literally in the untrusted text. This does not depend on
the model's abilities (docs/security.md).
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import log2
from typing import Protocol

from agent.prompts import load_prompt, render_prompt
from agent.security.files.instruction_files import is_instruction_file, is_planted
from agent.security.local_services import split_services
from agent.security.policy.base import TAINT_WAY_OUT, Decision, ToolRequest
from agent.types import Message, Taint, Text

UNTRUSTED: frozenset[Taint] = frozenset({"untrusted"})
PRIVATE: frozenset[Taint] = frozenset({"private"})
BOTH: frozenset[Taint] = UNTRUSTED | PRIVATE
NOTHING: frozenset[Taint] = frozenset()

# Information, in bits, that the choice among addresses from untrusted text may reveal per message
# of a person, over all turns and sub-agents. Otherwise a page with one link per letter could have a
# secret spelled out.
CHOICE_BITS = 20.0
# Each address is parsed in only one way: a choice of its ends would leak more than is counted.
_OFFER = re.compile(
    r"(?i)[a-z][a-z0-9+.-]{1,20}://"
    r"(?:[^\s<>\"'`()\[\]{}|]|\([^\s<>\"'`()\[\]{}|]{0,200}\))+"
)
_OFFER_TAIL = ".,;:!?"
# Text that may surround an address.
_BEFORE = r"(?<![^\s<>\"'`(\[{|=])"
_BEHIND = r"(?=[.,;:!?]*(?:$|[\s<>\"'`)\]}|]))"


class DisclosureBudget(Protocol):
    """Bits of information that choices may still reveal, per session with its sub-agents."""

    async def spend(self, bits: float) -> bool:
        """Deduct `bits` before anything leaves; return whether the budget was sufficient."""
        ...

    def renew(self) -> None:
        """Restore the budget after a person's message in this process.

        A store that counts messages itself ignores the call.
        """
        ...


class InMemoryDisclosureBudget:
    """`DisclosureBudget` that lasts as long as the process."""

    def __init__(self) -> None:
        self._remaining_bits = CHOICE_BITS

    async def spend(self, bits: float) -> bool:
        self._remaining_bits -= bits
        return self._remaining_bits >= 0

    def renew(self) -> None:
        self._remaining_bits = CHOICE_BITS


class TaintState:
    """Taint of one session during one turn; it only grows.

    `taint` is the taint that the session started with. Pass every new message to `take`. Without
    `from_person`, user messages are from another model and not from a person. `budget` belongs to
    the whole conversation: a sub-agent shares its caller's.
    """

    def __init__(
        self,
        taint: frozenset[Taint] = NOTHING,
        messages: Iterable[Message] = (),
        *,
        from_person: bool = True,
        budget: DisclosureBudget | None = None,
    ) -> None:
        self.taint = taint
        self.budget = budget or InMemoryDisclosureBudget()
        self._from_person = from_person
        self._person_texts: list[str] = []
        self._offered: list[str] = []
        self._addresses: set[str] = set()
        self._granted: set[str] = set()
        for message in messages:
            self.take(message)

    @property
    def is_dangerous(self) -> bool:
        return self.taint >= BOTH

    def take(self, message: Message) -> None:
        """Add a message of the conversation."""
        if message.role == "user" and not message.taint:
            if not self._from_person:
                return
            texts = [part.text for part in message.content if isinstance(part, Text)]
            self._person_texts += texts
            if texts:
                self.budget.renew()
        elif message.role == "user":
            # Text in a person's message that the person did not write.
            self.taint |= message.taint
        elif message.role == "tool":
            self.taint |= message.taint
            # Text that is also private must not be quoted: that would reveal it.
            if message.taint == UNTRUSTED:
                self._offered.append(message.text)
                offers = _OFFER.findall(message.text)
                self._addresses.update(offer.rstrip(_OFFER_TAIL) for offer in offers)

    def recall(self, words: Sequence[str], taint: frozenset[Taint]) -> None:
        """Add the person's words and the taint of messages that are no longer in the context."""
        self.taint |= taint
        if self._from_person:
            self._person_texts += words

    async def is_quoted(self, text: str) -> bool:
        """Return whether `text` may leave as it is.

        True if the person wrote it, or if it is an address from untrusted text and the choice of it
        reveals little, which is deducted from the budget.
        """
        if self.is_from_person(text):
            return True
        if text not in self._addresses:
            return False
        return await self.budget.spend(log2(max(2, len(self._addresses))))

    async def may_pass(self, text: str, *, leaves: bool) -> bool:
        """Return whether `text` needs no approval.

        Text that stays here must be the person's own words.
        """
        if not leaves:
            return self.is_from_person(text)
        return self.is_dangerous and await self.is_quoted(text)

    def is_from_person(self, text: str) -> bool:
        """Return whether the person wrote the text.

        An address must occur exactly; other text may differ in case and whitespace.
        """
        if is_address(text):
            return _stands_in(text, self._person_texts)
        words = _fold_words(text)
        return bool(words) and any(
            f" {words} " in f" {_fold_words(person_text)} " for person_text in self._person_texts
        )

    def is_own(self, address: str) -> bool:
        """Return whether the person wrote this exact address."""
        return _stands_in(address, self._person_texts)

    def is_shown(self, address: str) -> bool:
        """Return whether the address may be a link: it is the person's, or was granted."""
        return address in self._granted or self.is_own(address)

    async def grant_link(self, address: str) -> bool:
        """Return whether answers may show the address as a link from now on.

        True if it appears literally in untrusted text and the choice of it reveals little. The
        budget pays for it once.
        """
        offers = self._addresses.union(*map(_links_in, self._offered))
        if address not in offers or not await self.budget.spend(log2(max(2, len(offers)))):
            return False
        self._granted.add(address)
        return True


def exfiltration_objection(request: ToolRequest, *, silent: bool = False) -> Decision | None:
    """Return the decision that the taint requires for a call, or None without an objection.

    `silent`: the tool does not declare what leaves.
    """
    if "untrusted" not in request.taint:
        return None
    root = str(request.workspace.resolve())
    touched = request.changes + request.creates
    if request.purpose == "memory" or any(is_instruction_file(str(path), root) for path in touched):
        return Decision("ask", load_prompt("policy/taint_memory"), "taint-memory")
    is_planted_file = any(is_planted(str(path), root) for path in touched)
    if is_planted_file or (request.purpose == "timetable" and _plants(request)):
        return Decision("ask", load_prompt("policy/taint_schedule"), "taint-schedule")
    hosts = _ways_out(request.hosts) or (("anywhere",) if silent else ())
    if not hosts or (request.sends is not None and request.quoted):
        return None
    # A command with network access can fetch the private part itself.
    if request.command is None and request.taint < BOTH:
        return None
    if request.recipient is None:
        reason = render_prompt("policy/taint_way_out", hosts=", ".join(hosts))
        return Decision("ask", reason, TAINT_WAY_OUT)
    if request.is_recipient_trusted:
        return None
    server = request.recipient.server
    reason = render_prompt("policy/taint_server", server=server)
    remedy = render_prompt("policy/trust_server", server=server)
    return Decision("ask", reason, TAINT_WAY_OUT, remedy=remedy)


def _ways_out(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the destinations outside this machine, including local services that control
    containers.
    """
    hosts, services = split_services(names)
    return (*hosts, *(str(service) for service in services if service.is_engine))


def _plants(request: ToolRequest) -> bool:
    """Return whether a job would do something that no person in the conversation requested.

    Listing jobs and adding a reminder of the person's own words are allowed.
    """
    arguments = request.arguments
    if arguments.get("action") == "list":
        return False
    is_reminder = arguments.get("action") == "add" and arguments.get("prompt") is not True
    return not (is_reminder and request.quoted)


@lru_cache(maxsize=64)
def _links_in(text: str) -> frozenset[str]:
    """Return the texts that a screen could turn into links, including those without a scheme."""
    # Only a conversation with something to leak loads the patterns.
    from agent.security.taint.link_defusing import addresses

    return frozenset(text[start:end] for start, end in addresses(text))


def is_address(text: str) -> bool:
    return re.match(r"(?i)[a-z][a-z0-9+.-]*://", text) is not None


def _stands_in(address: str, texts: Iterable[str]) -> bool:
    """Return whether the whole address occurs, not only as the beginning of a longer one."""
    pattern = re.compile(_BEFORE + re.escape(address) + _BEHIND)
    return any(address in text and pattern.search(text) for text in texts)


def _fold_words(text: str) -> str:
    return " ".join(text.casefold().split())
