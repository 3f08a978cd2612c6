"""What a session has taken in, and which texts may leave it although it has.

A session that has read strangers' words (`untrusted`) and something private can be talked into
carrying the private part out. From then on every way out asks a person, unless the text that
leaves is one that the person wrote, or an address that stands like this in the strangers' own
words. Whether the model is clever does not matter here (docs/security.md).
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import log2
from typing import Protocol

from agent.prompts import load_prompt, render_prompt
from agent.security.files.instruction_files import is_instruction_file, is_planted
from agent.security.policy.base import Decision, ToolRequest
from agent.types import Message, Taint, Text

UNTRUSTED: frozenset[Taint] = frozenset({"untrusted"})
PRIVATE: frozenset[Taint] = frozenset({"private"})
BOTH: frozenset[Taint] = UNTRUSTED | PRIVATE
NOTHING: frozenset[Taint] = frozenset()

# What the choice among addresses that strangers offer may tell them for one message of a person,
# in bits, however many turns and sub-agents work on it: a page with a link for every letter could
# otherwise have a secret spelled out.
CHOICE_BITS = 20.0
# Each address is read in one way only: choosing its ends would leak more than counted.
_OFFER = re.compile(
    r"(?i)[a-z][a-z0-9+.-]{1,20}://"
    r"(?:[^\s<>\"'`()\[\]{}|]|\([^\s<>\"'`()\[\]{}|]{0,200}\))+"
)
_OFFER_TAIL = ".,;:!?"
# What may stand around an address in a text.
_BEFORE = r"(?<![^\s<>\"'`(\[{|=])"
_BEHIND = r"(?=[.,;:!?]*(?:$|[\s<>\"'`)\]}|]))"


class DisclosureBudget(Protocol):
    """What choices may still tell, in bits: one for a session and all whom it has sent out."""

    async def spend(self, bits: float) -> bool:
        """Whether there was as much left; it is spent before anything leaves."""
        ...

    def renew(self) -> None:
        """A person has spoken in this process; a store that counts messages itself ignores it."""
        ...


class InMemoryDisclosureBudget:
    """A `DisclosureBudget` for as long as the process lives."""

    def __init__(self) -> None:
        self._remaining_bits = CHOICE_BITS

    async def spend(self, bits: float) -> bool:
        self._remaining_bits -= bits
        return self._remaining_bits >= 0

    def renew(self) -> None:
        self._remaining_bits = CHOICE_BITS


class TaintState:
    """The taint of one session during one turn; it only ever grows.

    `taint` is what the session brought along. `take` is told of every message that is added.
    With `heard` false no person speaks here: what stands as one's words is another model's.
    `budget` is the whole conversation's: a sub-agent shares its caller's.
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
        """A message is part of the conversation now."""
        if message.role == "user" and not message.taint:
            if not self._from_person:
                return
            texts = [part.text for part in message.content if isinstance(part, Text)]
            self._person_texts += texts
            if texts:
                self.budget.renew()
        elif message.role == "user":
            # Words that stand with a person's and are not theirs.
            self.taint |= message.taint
        elif message.role == "tool":
            self.taint |= message.taint
            # What is private too is no stranger's offer: quoting from it would give it away.
            if message.taint == UNTRUSTED:
                self._offered.append(message.text)
                offers = _OFFER.findall(message.text)
                self._addresses.update(offer.rstrip(_OFFER_TAIL) for offer in offers)

    def recall(self, words: Sequence[str], taint: frozenset[Taint]) -> None:
        """What is kept of messages that have left: the person's words, and what all of it brought
        in."""
        self.taint |= taint
        if self._from_person:
            self._person_texts += words

    async def is_quoted(self, text: str) -> bool:
        """Whether `text` may leave as it is: the person wrote it, or it is an address that
        strangers offered and choosing it tells them little."""
        if self.is_from_person(text):
            return True
        if text not in self._addresses:
            return False
        return await self.budget.spend(log2(max(2, len(self._addresses))))

    async def may_pass(self, text: str, *, leaves: bool) -> bool:
        """Whether no question is needed because of `text`; what stays here is the person's own
        words, or it is not."""
        if not leaves:
            return self.is_from_person(text)
        return self.is_dangerous and await self.is_quoted(text)

    def is_from_person(self, text: str) -> bool:
        """Whether the person wrote it: an address letter by letter, other words in this order."""
        if is_address(text):
            return _stands_in(text, self._person_texts)
        words = _fold_words(text)
        return bool(words) and any(
            f" {words} " in f" {_fold_words(person_text)} " for person_text in self._person_texts
        )

    def is_own(self, address: str) -> bool:
        """Return whether the person wrote the address like this."""
        return _stands_in(address, self._person_texts)

    def is_shown(self, address: str) -> bool:
        """Return whether the address may be a link: it is the person's, or was granted."""
        return address in self._granted or self.is_own(address)

    async def grant_link(self, address: str) -> bool:
        """Return whether answers may show the address as a link from now on: strangers wrote it
        like this, and choosing it tells them little. It is paid for once."""
        offers = self._addresses.union(*map(_links_in, self._offered))
        if address not in offers or not await self.budget.spend(log2(max(2, len(offers)))):
            return False
        self._granted.add(address)
        return True


def exfiltration_objection(request: ToolRequest, *, silent: bool = False) -> Decision | None:
    """What the taint says of a call; None when it has nothing against it.

    `silent`: its tool does not say whether anything leaves.
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
    hosts = request.hosts or (("anywhere",) if silent else ())
    if not hosts or (request.sends is not None and request.quoted):
        return None
    # A command that reaches out can fetch the private part itself.
    if request.command is None and request.taint < BOTH:
        return None
    reason = render_prompt("policy/taint_way_out", hosts=", ".join(hosts))
    return Decision("ask", reason, "taint-way-out")


def _plants(request: ToolRequest) -> bool:
    """Whether a job would do what no person here has said: a reminder of the person's own words may
    be kept, to show what there is, too."""
    arguments = request.arguments
    if arguments.get("action") == "list":
        return False
    is_reminder = arguments.get("action") == "add" and arguments.get("prompt") is not True
    return not (is_reminder and request.quoted)


@lru_cache(maxsize=64)
def _links_in(text: str) -> frozenset[str]:
    """Return what a screen could make links of, also without a scheme."""
    # Only a conversation that something could leave loads the patterns.
    from agent.security.taint.link_defusing import addresses

    return frozenset(text[start:end] for start, end in addresses(text))


def is_address(text: str) -> bool:
    return re.match(r"(?i)[a-z][a-z0-9+.-]*://", text) is not None


def _stands_in(address: str, texts: Iterable[str]) -> bool:
    """Whether the whole address is there, not only the beginning of a longer one."""
    pattern = re.compile(_BEFORE + re.escape(address) + _BEHIND)
    return any(address in text and pattern.search(text) for text in texts)


def _fold_words(text: str) -> str:
    return " ".join(text.casefold().split())
