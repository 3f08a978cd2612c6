"""How a model counts tokens, compared with our estimate: learned from the usage it reports."""

from collections import OrderedDict

from agent.providers.pool import OpenModel

LOWEST, HIGHEST = 0.8, 3.0
# A request shorter than this says little: what vendors add around it weighs too much.
TELLING_TOKENS = 500
_NEWEST = 0.3
_STEP = 0.05
_MODELS = 64


class TokenCalibration:
    """A factor for each model, kept for the life of the process.

    `factor` moves in steps, and only when the model's count has left it by more than one step:
    it comes to rest, so that what is cut by it is cut the same from request to request.
    """

    def __init__(self) -> None:
        self._exact: OrderedDict[str, float] = OrderedDict()
        self._displayed: dict[str, float] = {}

    def factor(self, model: str) -> float:
        """Tokens of this model for one estimated token; 1 as long as nothing is known."""
        return self._displayed.get(model, 1.0)

    def learn(self, model: str, estimated: int, counted: int) -> None:
        """The model counted so many tokens in a request that we took for so many."""
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
    """The name that a model is learned by."""
    return f"{model.provider.name}/{model.model}"
