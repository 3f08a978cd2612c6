"""Usage meter of the gateway: replies are recorded at once, and limits are checked before calls."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from agent.errors import LimitReached
from agent.i18n import t, use_locale
from agent.providers.usage import Charge, Receipt, UsageTotals
from gateway.access.control import AccessControl
from gateway.config.sections import LimitsSection
from gateway.core.messages import CONSOLE, InboundMessage, Route
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories import usage as store
from gateway.store.repositories.delivery import chats, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask
from gateway.store.repositories.usage import Payer, Totals
from gateway.turns.usage.limits import BillingDay, UsageLimit, caps, subagent_cap, unpriced
from gateway.turns.usage.reservations import Reservations
from gateway.turns.usage.turn_log import MAX_FAILURES_IN_ROW, Ending, ModelFailure, TurnLog

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class StoreUsageMeter:
    """Meter for the usage of all turns. `clock` returns Unix time in seconds."""

    database: Store
    renderer: ReplyRenderer
    sender: OutboxSender
    languages: UserLanguages
    access: AccessControl
    reservations: Reservations
    limits: LimitsSection = field(default_factory=LimitsSection)
    clock: Callable[[], float] = time.time
    subagent_max_cost_usd: float | None = None
    turns: TurnLog = field(default_factory=TurnLog)
    _unpriced: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def meter(
        self, claim: TurnClaim, subagent_task: SubagentTask | None = None
    ) -> AsyncIterator["TurnMeter"]:
        """Yield the meter of a turn; release its remaining reservation at the end.

        The usage of a sub-agent counts for the turn that started it, and that turn's limits apply.
        """
        message = claim.messages[-1]
        turn, session = claim.turn, claim.session
        if subagent_task is not None:
            turn, session = subagent_task.root_turn, subagent_task.root_session
        payer = store.payer(turn, session, message, claim.turn)
        route = None if message.channel == CONSOLE else message.route
        own = message.options.max_cost_usd
        spent = store.of_turn if subagent_task is None else store.of_subagent_task
        has_record = claim.resumed
        if (
            not has_record
            and subagent_task is None
            and any(inbound_message.media for inbound_message in claim.messages)
        ):
            # A resumed turn has a record already.
            has_record = await self.database.transact(
                store.record_transcription_cost, payer, claim.messages, self.clock()
            )
        before = await self.database.transact(spent, claim.turn) if has_record else UsageTotals()
        kind = TurnMeter if subagent_task is None else SubagentMeter
        try:
            yield kind(self, payer, route, own, before)
        finally:
            await self.reservations.release(claim.turn)

    async def before(self, payer: Payer, caps: Sequence[UsageLimit], estimate: Charge) -> None:
        """Reserve the minimum cost of a call, or raise `LimitReached`."""
        if not caps:
            return
        since = _since(caps, self.clock())
        exceeded = await self.reservations.reserve(payer, caps, since, estimate)
        if exceeded is not None:
            cap, used = exceeded.cap, exceeded.used
            lane = await self.database.transact(self._notify_owner_of_limit, cap, cap.amount(used))
            if lane is not None:
                self.sender.wake(lane)
            raise LimitReached(cap.refusal(used, estimate))

    async def after(
        self, payer: Payer, caps: Sequence[UsageLimit], charge: Charge, route: Route | None
    ) -> Receipt:
        self.turns.charge(charge)
        totals, warnings, lanes_to_wake = await self.database.transact(
            self._count, payer, caps, charge, route
        )
        for lane in lanes_to_wake:
            self.sender.wake(lane)
        return Receipt(totals.turn, totals.session, tuple(warnings))

    async def end_turn(
        self,
        claim: TurnClaim,
        model: str | None,
        ending: Ending,
        spent: UsageTotals,
        began: float,
    ) -> None:
        """Log and count a stored turn; report a repeatedly failing model to the owner.

        `began` is monotonic time.
        """
        message, elapsed_s = claim.messages[-1], time.monotonic() - began
        failure = self.turns.end(message, model or "", ending, spent, elapsed_s)
        if failure is None or failure.in_row < MAX_FAILURES_IN_ROW:
            return
        try:
            lane = await self.database.transact(self._notify_owner_of_failure, failure, message)
        except StoreError as exc:
            log.warning("the owner could not be notified of a failing model: %s", exc)
            return
        if lane is not None:
            self.sender.wake(lane)

    def has_no_price(self, model: str) -> bool:
        """Return whether this is the first call of a model without a price."""
        new = model not in self._unpriced
        self._unpriced.add(model)
        return new

    def _count(
        self,
        tx: Transaction,
        payer: Payer,
        caps: Sequence[UsageLimit],
        charge: Charge,
        route: Route | None,
    ) -> tuple[Totals, list[str], list[str]]:
        """Record the charge and post the resulting notices in one transaction."""
        now = self.clock()
        store.record(tx, payer, charge, now)
        self.reservations.settle(tx, payer)
        totals = store.totals(tx, payer, _since(caps, now))
        warnings, lanes_to_wake = [], []
        for cap in caps:
            used = cap.used_amount(totals)
            if cap.is_near(used) and store.is_first(tx, cap.occasion, "warning", now):
                text = cap.warning(used)
                warnings.append(text)
                if route is not None:
                    lanes_to_wake.append(self._post(tx, cap, "warning", route, text))
            if not cap.is_reached(used):
                continue
            if lane := self._notify_owner_of_limit(tx, cap, cap.amount(used)):
                lanes_to_wake.append(lane)
        return totals, warnings, lanes_to_wake

    def _notify_owner_of_limit(self, tx: Transaction, cap: UsageLimit, used: str) -> str | None:
        """Notify the owner once per daily limit; return the lane with the notice."""
        if not cap.is_of_a_day:
            return None
        if not store.is_first(tx, cap.occasion, "reached", self.clock()):
            return None
        where = f" ({cap.scope})" if cap.scope else ""
        log.warning("limits.%s is reached%s", cap.key, where)
        if (route := self._owner_route(tx)) is None:
            return None
        with use_locale(self.languages.of_route(route)):
            text = t(
                "The limit of {most} {what}{where} is reached: {used} used. It resets "
                "{ends}. Change it with `limits.{key}` in the configuration.",
                most=cap.amount(cap.limit),
                what=cap.subject,
                where=where,
                used=used,
                ends=cap.end_text,
                key=cap.key,
            )
        return self._post(tx, cap, "reached", route, text)

    def _notify_owner_of_failure(
        self, tx: Transaction, failure: ModelFailure, message: InboundMessage
    ) -> str | None:
        """Notify the owner once per hour and model; return the lane with the notice."""
        route, now = self._owner_route(tx), self.clock()
        # In the owner's own chat, the error is visible anyway.
        if route is None or route == message.route:
            return None
        occasion = ("failing model", failure.model, str(int(now // 3_600)))
        if not store.is_first(tx, occasion, "reached", now):
            return None
        with use_locale(self.languages.of_route(route)):
            text = t(
                "The model {model} keeps failing (in a row: {n}), most recently for {where}: "
                "{why} ({code}). `kore doctor --live` tests it.",
                model=failure.model or t("(default)"),
                n=failure.in_row,
                where=failure.where,
                why=failure.reason,
                code=failure.code,
            )
        parts = self.renderer.render(route, f"⚠️ {text}")
        outbox.put(tx, None, [OutgoingReply(":".join(occasion), route, parts, "notice")], now)
        return route.lane

    def _owner_route(self, tx: Transaction) -> Route | None:
        owner = self.access.owner_id
        return chats.private_route(tx, owner) if owner else None

    def _post(self, tx: Transaction, cap: UsageLimit, kind: str, route: Route, text: str) -> str:
        name = ":".join(("limit", *cap.occasion, kind))
        parts = self.renderer.render(route, f"⚠️ {text}")
        outbox.put(tx, None, [OutgoingReply(name, route, parts, "notice")], self.clock())
        return route.lane


class TurnMeter:
    """Implements `agent.providers.usage.UsageMeter` for one turn."""

    def __init__(
        self,
        usage: StoreUsageMeter,
        payer: Payer,
        route: Route | None,
        max_cost_usd: float | None,
        spent: UsageTotals,
    ) -> None:
        self.spent = spent
        self._usage = usage
        self._payer = payer
        self._route = route
        self._max_cost_usd = max_cost_usd

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        caps = self._caps()
        await self._usage.before(self._payer, caps, estimate)
        if estimate.cost_nusd is not None or not any(cap.is_money for cap in caps):
            return ()
        if self._usage.has_no_price(estimate.model) or self._max_cost_usd is not None:
            return (unpriced(estimate.model),)
        return ()

    async def after(self, charge: Charge) -> Receipt:
        receipt = await self._usage.after(self._payer, self._caps(), charge, self._route)
        self.spent = receipt.turn
        return receipt

    def _caps(self) -> list[UsageLimit]:
        now = self._usage.clock()
        return list(caps(self._usage.limits, self._payer, now, self._max_cost_usd))


class SubagentMeter(TurnMeter):
    """Meter of a sub-agent's turn: `spent` is its own, and it has an additional limit."""

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        usd = self._usage.subagent_max_cost_usd
        if usd is not None:
            cap = subagent_cap(usd)
            if cap.forbids(self.spent.cost_nusd, estimate):
                raise LimitReached(cap.refusal(self.spent.cost_nusd, estimate))
        return await super().before(estimate)

    async def after(self, charge: Charge) -> Receipt:
        own = self.spent.plus(charge)
        receipt = await super().after(charge)
        self.spent = own
        return replace(receipt, turn=own)


def _since(caps: Sequence[UsageLimit], now: float) -> float | None:
    """Return the beginning of the day if there is a daily limit, else None."""
    return BillingDay.of(now).began_at if any(cap.is_of_a_day for cap in caps) else None
