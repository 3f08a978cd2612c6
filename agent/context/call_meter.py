"""Usage metering of model calls: limits are checked before each call, usage is added after."""

from collections.abc import Sequence

from agent import events
from agent.providers.token_estimate import estimate, estimate_text
from agent.providers.usage import Charge, InMemoryMeter, Receipt, Tariff, UsageMeter, UsageTotals
from agent.types import Usage


class CallMeter:
    """Usage meter of one turn.

    `totals` includes usage from before a restart if it is known. `fallbacks` are the tariffs of the
    fallback models, by rank.
    """

    def __init__(
        self, tariff: Tariff, fallbacks: Sequence[Tariff] = (), meter: UsageMeter | None = None
    ) -> None:
        self._meter = meter or InMemoryMeter()
        self._current_tariff = tariff
        self._tariffs = (tariff, *fallbacks)
        self._least = Usage()
        self._received_parts: list[str] = []

    @property
    def totals(self) -> UsageTotals:
        return self._meter.spent

    async def check_call(self, input_tokens: int, output_tokens: int) -> list[events.Notice]:
        """Raise `LimitReached` if a call with at least these tokens would exceed a limit."""
        self._least = Usage(input_tokens, output_tokens)
        return await self._check_limits(0)

    async def check_retry(self, rank: int) -> list[events.Notice]:
        """Check the limits for a fallback model if its price differs."""
        return await self._check_limits(rank) if self._of(rank) != self._current_tariff else []

    def count_event(self, event: events.ModelEvent) -> None:
        """Record a streamed event: its tokens are charged even if the reply is never completed."""
        match event:
            case events.TextDelta(text) | events.ThinkingDelta(text):
                self._received_parts.append(text)
            case events.ToolCallDelta(_, _, piece):
                self._received_parts.append(piece)

    async def record_reply(self, reply: events.Reply) -> list[events.UsageReport | events.Notice]:
        """Record the usage of a reply and return its report and the warnings."""
        self._received_parts.clear()
        tariff = self._of(reply.rank)
        usage = reply.usage
        # Usage missing from a vendor, or reported as zero, is estimated, so that limits still
        # apply.
        counted = usage is not None and usage.input > 0
        if usage is None or not counted:
            usage = Usage(self._least.input, estimate(reply.message))
        receipt = await self._pay(tariff.charge(usage, estimated=not counted))
        session = receipt.session
        report = events.UsageReport(
            self.totals.usage,
            self.totals.cost_usd,
            session.usage if session else None,
            session.cost_usd if session else None,
        )
        return [report, *(events.Notice("warning", text) for text in receipt.warnings)]

    async def count_partial(self) -> None:
        """Record the usage of an interrupted reply, if any of it arrived."""
        if self._received_parts:
            usage = Usage(self._least.input, estimate_text("".join(self._received_parts)))
            self._received_parts.clear()
            await self._pay(self._current_tariff.charge(usage, estimated=True))

    def _of(self, rank: int) -> Tariff:
        """Return the tariff of a rank; fallbacks of a user's own provider may have no price."""
        return self._tariffs[rank] if rank < len(self._tariffs) else self._tariffs[0]

    async def _check_limits(self, rank: int) -> list[events.Notice]:
        tariff = self._current_tariff = self._of(rank)
        warnings = await self._meter.before(tariff.charge(self._least, estimated=True))
        return [events.Notice("warning", text) for text in warnings]

    async def _pay(self, charge: Charge) -> Receipt:
        return await self._meter.after(charge)
