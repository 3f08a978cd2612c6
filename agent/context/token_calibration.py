"""Calibration of token estimates, based on the usage that models report."""

from collections import OrderedDict

from agent.providers.pool import OpenModel

LOWEST, HIGHEST = 0.8, 3.0
# Shorter requests are ignored: the vendor's overhead distorts their count.
TELLING_TOKENS = 500
_NEWEST = 0.3
_STEP = 0.05
_MODELS = 64


class TokenCalibration:
    """Token factors by model, for the lifetime of the process.

    `factor` changes in steps, and only if the measured value differs by more than one step. It
    converges, so that requests are cut at the same position each time.
    """

    def __init__(self) -> None:
        self._exact: OrderedDict[str, float] = OrderedDict()
        self._displayed: dict[str, float] = {}

    def factor(self, model: str) -> float:
        """Return the model's tokens per estimated token; 1 until a value is known."""
        return self._displayed.get(model, 1.0)

    def learn(self, model: str, estimated: int, counted: int) -> None:
        """Record the model's count for a request and our estimate of it."""
        if estimated < TELLING_TOKENS or counted <= 0:
            return
        ratio = min(max(counted / estimated, LOWEST), HIGHEST)
        before = self._exact.get(model, ratio)
        exact = self._exact[model] = before + (ratio - before) * _NEWEST
        self._exact.move_to_end(model)
        if abs(exact - self.factor(model)) > _STEP:
            self._displayed[model] = round(round(exact / _STEP) * _STEP, 2)
        if len(self._exact) > _MODELS:
            oldest, _ = self._exact.popitem(last=False)
            self._displayed.pop(oldest, None)


def counted_as(model: OpenModel) -> str:
    """Return the name under which a model is calibrated."""
    return f"{model.provider.name}/{model.model}"
