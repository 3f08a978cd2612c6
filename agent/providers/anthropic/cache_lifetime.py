"""Lifetime of cache entries: five minutes, or an hour if breaks in the conversation justify it."""

from collections import OrderedDict

from agent.records import frozen

_SHORT_S, _LONG_S = 300.0, 3600.0
# Prices per input token: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
_SHORT_WRITE, _LONG_WRITE, _READ = 1.25, 2.0, 0.1
# A person's rhythm changes, so each break counts half as much as the next one.
_FADING = 0.5
_MAX_CONVERSATIONS = 1_000


@frozen
class _Rhythm:
    """Last request of a conversation, and the extra cost of a lifetime of an hour so far."""

    at: float
    tokens: int
    extra_cost: float


class CacheLifetimes:
    """Rhythms of the last conversations, by the `cache_key` of their requests.

    Times are Unix times in seconds.
    """

    def __init__(self) -> None:
        self._rhythms: OrderedDict[str, _Rhythm] = OrderedDict()

    def is_hour_cheaper(self, key: str | None, now: float) -> bool:
        """Return whether an hour would have cost less, including the break that ends now."""
        rhythm = self._rhythms.get(key or "")
        return rhythm is not None and _extra_cost(rhythm, now, rhythm.tokens) < 0

    def note(self, key: str | None, tokens: int, at: float) -> None:
        """Record a request with this many input tokens, sent `at` this time."""
        if key is None:
            return
        rhythm = self._rhythms.pop(key, None)
        extra_cost = (
            (_LONG_WRITE - _SHORT_WRITE) * tokens
            if rhythm is None
            else _extra_cost(rhythm, at, tokens)
        )
        self._rhythms[key] = _Rhythm(at, tokens, extra_cost)
        if len(self._rhythms) > _MAX_CONVERSATIONS:
            self._rhythms.popitem(last=False)


def _extra_cost(rhythm: _Rhythm, now: float, tokens: int) -> float:
    """Return the extra cost of an hour's lifetime after a further request, in input tokens."""
    gap_s = now - rhythm.at
    # A request that is shorter than the last does not continue it.
    unchanged = rhythm.tokens if tokens >= rhythm.tokens else 0
    long_cost = (tokens - unchanged) * _LONG_WRITE + unchanged * (
        _READ if gap_s < _LONG_S else _LONG_WRITE
    )
    short_cost = (tokens - unchanged) * _SHORT_WRITE + unchanged * (
        _READ if gap_s < _SHORT_S else _SHORT_WRITE
    )
    fading = 1.0 if gap_s < _SHORT_S else _FADING
    return rhythm.extra_cost * fading + long_cost - short_cost
