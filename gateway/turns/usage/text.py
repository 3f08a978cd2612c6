"""Text form of usage and cost."""

from agent.i18n import plural, t
from agent.usage import UsageTotals, dollars


def usage_text(spent: UsageTotals) -> str:
    usage = spent.usage
    return t(
        "{cost}, {input:,} tokens in ({cached:,} from a cache), {output:,} out"
        if usage.cached
        else "{cost}, {input:,} tokens in, {output:,} out",
        cost=_cost(spent),
        input=usage.input,
        cached=usage.cached,
        output=usage.output,
    )


def _cost(spent: UsageTotals) -> str:
    if not spent.unpriced:
        return dollars(spent.nano)
    if spent.unpriced == spent.calls:
        return t("cost unknown")
    return plural(
        spent.unpriced,
        "{cost} and {n:,} call of unknown price",
        "{cost} and {n:,} calls of unknown price",
        cost=dollars(spent.nano),
    )
