"""Cost of model calls, and the port for a meter that counts them and enforces limits.

Money is counted in whole numbers, so that sums never drift: nano-dollars for spending, and
pico-dollars for the price of a single token.
"""

from dataclasses import field
from typing import Protocol

from agent.records import frozen
from agent.types import Usage

NUSD_PER_USD = 1_000_000_000
_PICO_IN_NANO = 1_000


def pico(usd_per_million: float) -> int:
    """Return a vendor's list price, in dollars per million tokens, as the price of one token."""
    return round(usd_per_million * 1_000_000)


@frozen
class Price:
    """Price in pico-dollars per token; `cached` is for input from the vendor's cache.

    A request with more than `above` input tokens is billed completely at `long`; without `long` the
    price is unknown.
    """

    input: int
    output: int
    cached: int | None = None
    above: int | None = None
    long: "Price | None" = None

    def cost(self, usage: Usage) -> int | None:
        """Return the cost in nano-dollars, rounded up; None if it is unknown."""
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
    """Model, as vendor/model, and its price if that is known."""

    model: str
    price: Price | None = None

    def charge(self, usage: Usage, *, estimated: bool = False) -> "Charge":
        cost = self.price.cost(usage) if self.price else None
        return Charge(self.model, usage, cost, estimated)


@frozen
class Charge:
    """One model call: its usage and its cost in nano-dollars; None if unknown.

    `model` is vendor/model. `estimated`: counted by Kore, because the vendor did not.
    """

    model: str
    usage: Usage
    cost_nusd: int | None
    estimated: bool = False


@frozen
class UsageTotals:
    """Sum of charges. `cost_nusd` is the known sum; the price of `unpriced` calls is unknown."""

    usage: Usage = field(default_factory=Usage)
    cost_nusd: int = 0
    calls: int = 0
    unpriced: int = 0

    @property
    def cost_usd(self) -> float | None:
        """Cost for people and JSON; None if a part of it is unknown."""
        return None if self.unpriced else self.cost_nusd / NUSD_PER_USD

    @property
    def known_usd(self) -> float | None:
        """Known spending; None if the price of every call is unknown."""
        return None if self.calls and self.unpriced == self.calls else self.cost_nusd / NUSD_PER_USD

    def plus(self, charge: Charge) -> "UsageTotals":
        return UsageTotals(
            self.usage + charge.usage,
            self.cost_nusd + (charge.cost_nusd or 0),
            self.calls + 1,
            self.unpriced + (charge.cost_nusd is None),
        )


@frozen
class Receipt:
    """Totals of turn and session after a call; `session` is None if it is not counted.

    `warnings` are sentences for the person.
    """

    turn: UsageTotals
    session: UsageTotals | None = None
    warnings: tuple[str, ...] = ()


class UsageMeter(Protocol):
    """Meter of one turn's model calls. The gateway's meter stores them and enforces limits."""

    @property
    def spent(self) -> UsageTotals:
        """Totals of the turn, including those before a restart."""
        ...

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        """Check a call before it is made; return warnings.

        Raises `LimitReached` if it must not be made. `estimate` is the minimum usage of the call:
        all of its input, as if nothing were cached, and all of the requested output, if limited.
        """
        ...

    async def after(self, charge: Charge) -> Receipt:
        """Record a reply; return once the record is stored."""
        ...


class InMemoryMeter:
    """Meter for library users: counts without limits."""

    def __init__(self) -> None:
        self.spent = UsageTotals()

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        return ()

    async def after(self, charge: Charge) -> Receipt:
        self.spent = self.spent.plus(charge)
        return Receipt(self.spent)


def dollars(cost_nusd: int) -> str:
    """Return an amount for people: "$0.0042", "$1.50"; a cost is never shown as zero."""
    if 0 < cost_nusd < NUSD_PER_USD // 10_000:
        return "under $0.0001"
    digits = 4 if 0 < cost_nusd < NUSD_PER_USD else 2
    return f"${cost_nusd / NUSD_PER_USD:,.{digits}f}"
