"""Calibration of token estimates by the counts that models report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.token_budget import HIGHEST, LOWEST, TELLING_TOKENS, TokenCalibration


def test_unknown_model_has_factor_one() -> None:
    assert TokenCalibration().factor("vendor/new") == 1.0


def test_count_of_a_model_corrects_only_its_own_estimates() -> None:
    gauge = TokenCalibration()
    gauge.learn("a", 10_000, 13_000)
    assert gauge.factor("a") == pytest.approx(1.3)
    assert gauge.factor("b") == 1.0


def test_steady_ratio_keeps_the_factor() -> None:
    gauge = TokenCalibration()
    shown = set()
    for n in range(50):
        gauge.learn("a", 10_000 + n * 100, round((10_000 + n * 100) * (1.31 + n % 3 * 0.01)))
        shown.add(gauge.factor("a"))
    assert len(shown) == 1


def test_short_request_does_not_change_the_factor() -> None:
    gauge = TokenCalibration()
    gauge.learn("a", TELLING_TOKENS - 1, 10 * TELLING_TOKENS)
    gauge.learn("a", 10_000, 0)
    assert gauge.factor("a") == 1.0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**7)), max_size=20))
def test_factor_stays_in_bounds(counts: list[tuple[int, int]]) -> None:
    gauge = TokenCalibration()
    for estimated, counted in counts:
        gauge.learn("a", estimated, counted)
        assert LOWEST <= gauge.factor("a") <= HIGHEST


def test_number_of_remembered_models_is_limited() -> None:
    gauge = TokenCalibration()
    for n in range(200):
        gauge.learn(f"m{n}", 1000, 2000)
    assert gauge.factor("m0") == 1.0
    assert gauge.factor("m199") == 2.0
