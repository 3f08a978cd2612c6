"""The simulation matches queueing theory for the same network."""

import math

import pytest

from bench.workers.simulation import Load, Plan, Simulation, TurnCost, plan_for

NOTHING = TurnCost(0, 0, 0, transactions=0, statements=0, wal_bytes=0, hints=0)


def erlang_c_wait_s(servers: int, arrivals_s: float, service_s: float) -> float:
    """Return the mean time in the queue of an M/M/c."""
    offered = arrivals_s * service_s
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    all_but_last = sum(offered**n / math.factorial(n) for n in range(servers))
    return last / (all_but_last + last) * service_s / (servers - offered)


@pytest.mark.parametrize(("servers", "turns_s", "duration_s"), [(1, 30.0, 700), (4, 150.0, 200)])
def test_postgresql_matches_an_m_m_c_queue(servers: int, turns_s: float, duration_s: float) -> None:
    # Each turn visits four times, for a quarter of the cost.
    cost = TurnCost(0, 0, 20.0, transactions=0, statements=0, wal_bytes=0, hints=0)
    plan = Plan(kores=1, workers=100, postgres_cores=servers)
    outcome = Simulation(turns_s, Load(1, 1), cost, plan, seed=3).run(duration_s)

    expected_s = erlang_c_wait_s(servers, 4 * turns_s, 20.0 / 4 / 1000)
    assert outcome.wait_s["PostgreSQL"] == pytest.approx(expected_s, rel=0.1)
    assert outcome.busy["PostgreSQL"] == pytest.approx(turns_s * 0.02 / servers, rel=0.03)


def test_front_matches_an_m_m_1_queue() -> None:
    cost = TurnCost(10.0, 0, 0, transactions=0, statements=0, wal_bytes=0, hints=0)
    outcome = Simulation(70.0, Load(1, 1), cost, Plan(1, 20, 1), seed=4).run(500)

    # rho / (mu - lambda), for two visits of half the time.
    assert outcome.wait_s["front"] == pytest.approx(0.7 / (200 - 140), rel=0.1)
    assert outcome.queue["front"] == pytest.approx(0.7**2 / 0.3, rel=0.1)


def test_running_turns_follow_littles_law() -> None:
    cost = TurnCost(3.0, 8.0, 6.0, transactions=0, statements=0, wal_bytes=0, hints=0)
    outcome = Simulation(100.0, Load(1, 1), cost, Plan(1, 10, 2), seed=5).run(300)

    assert outcome.turns_s == pytest.approx(100.0, rel=0.02)
    assert outcome.in_flight == pytest.approx(outcome.turns_s * outcome.mean_s, rel=0.03)
    assert outcome.mean_s == pytest.approx(5.0, rel=0.1)


def test_turns_wait_if_no_worker_has_room() -> None:
    """Ten concurrent turns and a model of 5 s allow two turns a second; three arrive."""
    cost = TurnCost(0, 0, 0, 0, 0, 0, 0, turns_at_once=5)
    outcome = Simulation(3.0, Load(1, 1), cost, Plan(1, 2, 1), seed=6).run(200)

    assert outcome.turns_s == pytest.approx(2.0, rel=0.15)
    assert outcome.queue["room"] > 10


def test_same_seed_gives_the_same_figures() -> None:
    first, second, other = (
        Simulation(20.0, Load(1, 1), NOTHING, Plan(1, 2, 1), seed=seed).run(30)
        for seed in (7, 7, 8)
    )
    assert first == second != other


def test_plan_overloads_no_component() -> None:
    load = Load(1_000_000, 5)
    cost = TurnCost(6.0, 16.0, 14.0, transactions=0, statements=0, wal_bytes=0, hints=0)
    plan = plan_for(load, cost)
    outcome = Simulation(load.turns_s / plan.kores, load, cost, plan, seed=9).run(60)

    assert plan.kores > 1
    assert all(0 < busy < 0.65 for busy in outcome.busy.values())
    assert outcome.in_flight < 0.7 * plan.workers * cost.turns_at_once
