"""Spending limits from the configuration and from message options, and usage as text."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from agent.errors import ConfigError
from agent.i18n import plural, t
from agent.providers.pool import ModelPool
from agent.providers.pricing import tariff_of
from agent.providers.registry import ModelConfig
from agent.providers.usage import NUSD_PER_USD, Charge, UsageTotals, dollars
from agent.records import frozen
from gateway.config.sections import LimitsSection
from gateway.store.repositories.usage import Payer, Totals

log = logging.getLogger(__name__)

WARN_AT_PERCENT = 80


@frozen
class BillingDay:
    """Day in the local time of this machine. `began_at` is Unix time."""

    name: str
    began_at: float
    end: datetime

    @classmethod
    def of(cls, now: float) -> "BillingDay":
        moment = datetime.fromtimestamp(now).astimezone()
        start = datetime(moment.year, moment.month, moment.day)
        end = start + timedelta(days=1)
        return cls(f"{start:%Y-%m-%d}", start.timestamp(), end)

    @property
    def end_text(self) -> str:
        """End of the day as text."""
        return t("at midnight ({time:%Y-%m-%d %H:%M %Z})", time=self.end.astimezone())


@frozen
class UsageLimit:
    """Limit for one payer at a given time; `limit` is in nano-dollars or in tokens.

    `scope` (a turn, a session, a chat) and `period` (a day) distinguish occasions; `usage_of`
    selects the sum that is limited.
    """

    key: str
    limit: int
    subject: str
    end_text: str
    usage_of: Callable[[Totals], UsageTotals]
    scope: str = ""
    period: str = ""
    is_money: bool = True

    @property
    def is_of_a_day(self) -> bool:
        """True for a daily limit, which is shared by parallel turns and reported to the owner."""
        return bool(self.period)

    @property
    def occasion(self) -> tuple[str, str, str]:
        return self.key, self.scope, self.period

    def used_amount(self, totals: Totals) -> int:
        spent = self.usage_of(totals)
        return spent.cost_nusd if self.is_money else spent.usage.input + spent.usage.output

    def forbids(self, used: int, estimate: Charge) -> bool:
        """Return whether a call with at least this usage would exceed the limit."""
        if not self.is_money:
            return used + estimate.usage.input + estimate.usage.output > self.limit
        if estimate.cost_nusd is None:
            # The cost is unknown: forbid the call once nothing is left.
            return used >= self.limit
        return estimate.cost_nusd > 0 and used + estimate.cost_nusd > self.limit

    def is_near(self, used: int) -> bool:
        return used > 0 and used * 100 >= self.limit * WARN_AT_PERCENT

    def is_reached(self, used: int) -> bool:
        return used > 0 and used >= self.limit

    def amount(self, value: int) -> str:
        return dollars(value) if self.is_money else t("{n:,} tokens", n=value)

    def warning(self, used: int) -> str:
        return t(
            "{used} of {most} {what} used. This limit resets {ends}.",
            used=self.amount(used),
            most=self.amount(self.limit),
            what=self.subject,
            ends=self.end_text,
        )

    def refusal(self, used: int, estimate: Charge) -> str:
        need = estimate.cost_nusd if self.is_money else estimate.usage.input + estimate.usage.output
        return t(
            "I stopped before calling the model: the limit of {most} {what} is reached. "
            "{used} used, and the next call needs at least {need}. It resets {ends}."
            if need
            else "I stopped before calling the model: the limit of {most} {what} is reached. "
            "{used} used. It resets {ends}.",
            most=self.amount(self.limit),
            what=self.subject,
            used=self.amount(used),
            need=self.amount(need or 0),
            ends=self.end_text,
        )


def caps(
    limits: LimitsSection, payer: Payer, now: float, max_cost_usd: float | None = None
) -> Iterator[UsageLimit]:
    """Yield the limits of a payer at this Unix time, narrowest first."""
    tokens = limits.tokens_per_turn
    if tokens is not None:
        yield replace(_turn(payer, tokens), key="tokens_per_turn", is_money=False)
    for usd in (max_cost_usd, limits.cost_per_turn_usd):
        if usd is not None:
            yield _turn(payer, _nusd(usd))
    if limits.cost_per_session_usd is not None:
        yield UsageLimit(
            key="cost_per_session_usd",
            limit=_nusd(limits.cost_per_session_usd),
            scope=payer.session,
            subject=t("for one conversation"),
            end_text=t("with /new"),
            usage_of=lambda totals: totals.session,
        )
    if limits.cost_per_chat_day_usd is None and limits.cost_per_day_usd is None:
        return
    day = BillingDay.of(now)
    if limits.cost_per_chat_day_usd is not None:
        yield UsageLimit(
            key="cost_per_chat_day_usd",
            limit=_nusd(limits.cost_per_chat_day_usd),
            scope=payer.chat,
            period=day.name,
            subject=t("for this chat today"),
            end_text=day.end_text,
            usage_of=lambda totals: totals.chat,
        )
    if limits.cost_per_day_usd is not None:
        yield UsageLimit(
            key="cost_per_day_usd",
            limit=_nusd(limits.cost_per_day_usd),
            period=day.name,
            subject=t("for all chats today"),
            end_text=day.end_text,
            usage_of=lambda totals: totals.day,
        )


def _turn(payer: Payer, most: int) -> UsageLimit:
    return UsageLimit(
        key="cost_per_turn_usd",
        limit=most,
        scope=str(payer.turn),
        subject=t("for one message"),
        end_text=t("with your next message"),
        usage_of=lambda totals: totals.turn,
    )


def subagent_cap(usd: float) -> UsageLimit:
    """Return the cost limit for one sub-agent."""
    what, ends = t("for one sub-agent"), t("with the next sub-agent")
    return UsageLimit("max_cost_usd", _nusd(usd), what, ends, lambda totals: totals.turn)


def _nusd(usd: float) -> int:
    return round(usd * NUSD_PER_USD)


def has_money_limits(limits: LimitsSection) -> bool:
    return any(
        usd is not None
        for usd in (
            limits.cost_per_turn_usd,
            limits.cost_per_session_usd,
            limits.cost_per_chat_day_usd,
            limits.cost_per_day_usd,
        )
    )


def warn_unenforceable(limits: LimitsSection, models: ModelPool) -> None:
    """Log a warning if limits cannot be enforced."""
    try:
        warning = unenforceable(limits, models.check(models.default))
    except ConfigError:
        return  # reported when the model is called
    if warning:
        log.warning("%s", warning)


def unenforceable(limits: LimitsSection, model: ModelConfig) -> str | None:
    """Return the reason why money limits cannot be enforced for a model, or None."""
    if not has_money_limits(limits) or tariff_of(model).price is not None:
        return None
    return unpriced(f"{model.vendor}/{model.model_id}")


def unpriced(model: str) -> str:
    return t(
        "The price of {model} is unknown, so spending limits cannot be enforced. Set "
        "price_input_usd and price_output_usd in model_list, or limits.tokens_per_turn.",
        model=model,
    )


def usage_text(spent: UsageTotals) -> str:
    usage = spent.usage
    return t(
        "{cost}, {input:,} tokens in ({cached:,} from a cache), {output:,} out"
        if usage.cached
        else "{cost}, {input:,} tokens in, {output:,} out",
        cost=_cost_text(spent),
        input=usage.input,
        cached=usage.cached,
        output=usage.output,
    )


def _cost_text(spent: UsageTotals) -> str:
    if not spent.unpriced:
        return dollars(spent.cost_nusd)
    if spent.unpriced == spent.calls:
        return t("cost unknown")
    return plural(
        spent.unpriced,
        "{cost} and {n:,} call of unknown price",
        "{cost} and {n:,} calls of unknown price",
        cost=dollars(spent.cost_nusd),
    )
