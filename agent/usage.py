"""What model calls cost, and the port to the meter that counts them and enforces limits.

Money is counted in whole numbers, so that no sum drifts: nano-dollars for what was spent, and
pico-dollars for the price of a single token.
"""

from dataclasses import field
from typing import Protocol

from agent.records import frozen
from agent.types import Usage

NANO = 1_000_000_000
_PICO_IN_NANO = 1_000


def pico(usd_per_million: float) -> int:
    """A price as vendors list it, in dollars for a million tokens, for one token."""
    return round(usd_per_million * 1_000_000)


@frozen
class Price:
    """Pico-dollars for a token; `cached` is input that the vendor's cache has answered.

    A request with more than `above` input tokens costs as `long` says, all of it; without `long`
    the price is unknown.
    """

    input: int
    output: int
    cached: int | None = None
    above: int | None = None
    long: "Price | None" = None

    def cost(self, usage: Usage) -> int | None:
        """Nano-dollars, rounded up; None when it is not known."""
        if self.above is not None and usage.input > self.above:
            return self.long.cost(usage) if self.long else None
        cached = min(usage.cached, usage.input)
        exact = (
            (usage.input - cached) * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + usage.output * self.output
        )
        return -(-exact // _PICO_IN_NANO)


@frozen
class Tariff:
    """A model, as vendor/model, and its price if that is known."""

    model: str
    price: Price | None = None

    def charge(self, usage: Usage, *, estimated: bool = False) -> "Charge":
        cost = self.price.cost(usage) if self.price else None
        return Charge(self.model, usage, cost, estimated)


@frozen
class Charge:
    """One model call: what it used and what it cost in nano-dollars; None when unknown.

    `model` is vendor/model. `estimated`: the vendor did not count, we did.
    """

    model: str
    usage: Usage
    nano: int | None
    estimated: bool = False


@frozen
class UsageTotals:
    """Charges, added up. `nano` is the known sum; the price of `unpriced` calls is unknown."""

    usage: Usage = field(default_factory=Usage)
    nano: int = 0
    calls: int = 0
    unpriced: int = 0

    @property
    def cost_usd(self) -> float | None:
        """For people and JSON; None when a part of it is unknown."""
        return None if self.unpriced else self.nano / NANO

    @property
    def known_usd(self) -> float | None:
        """What is known to have been spent; None when nothing is known of any call."""
        return None if self.calls and self.unpriced == self.calls else self.nano / NANO

    def plus(self, charge: Charge) -> "UsageTotals":
        return UsageTotals(
            self.usage + charge.usage,
            self.nano + (charge.nano or 0),
            self.calls + 1,
            self.unpriced + (charge.nano is None),
        )


@frozen
class Receipt:
    """What turn and session have come to after a call; `session` None when it is not counted.

    `warnings` are sentences for the person.
    """

    turn: UsageTotals
    session: UsageTotals | None = None
    warnings: tuple[str, ...] = ()


class UsageMeter(Protocol):
    """Counts one turn's model calls. The gateway's stores them and knows limits."""

    @property
    def spent(self) -> UsageTotals:
        """What the turn has come to, also before a restart."""
        ...

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        """Asked before each call; returns warnings. Raises `LimitReached`: it must not be made.

        `estimate` is the least that the call will use: all of its input, as if nothing of it were
        cached, and all the output that was asked for, when a number was named.
        """
        ...

    async def after(self, charge: Charge) -> Receipt:
        """Told of each reply; returns once that is safe."""
        ...


class InMemoryMeter:
    """For library users: counts, and has no limits."""

    def __init__(self) -> None:
        self.spent = UsageTotals()

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        return ()

    async def after(self, charge: Charge) -> Receipt:
        self.spent = self.spent.plus(charge)
        return Receipt(self.spent)


def dollars(nano: int) -> str:
    """As people read money: "$0.0042", "$1.50"; never a cost as nothing."""
    if 0 < nano < NANO // 10_000:
        return "under $0.0001"
    return f"${nano / NANO:,.2f}" if nano >= NANO or not nano else f"${nano / NANO:.4f}"
