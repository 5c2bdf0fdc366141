"""Requests are conserved, and every lever moves what it says."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from proving_ground.worlds.graph import CallEdge, Graph, Machine, Replica, Route, Unit, UnitKind
from proving_ground.worlds.levers import Levers, Part
from proving_ground.worlds.physics import History, Physics
from proving_ground.worlds.queueing import backlog, cut_mean, lognormal, mean_wait, quantile
from proving_ground.worlds.random_graph import random_graph
from proving_ground.worlds.seeds import WorldSeed
from proving_ground.worlds.world import WorldBuilder

STEPS = 40
FRONT, SERVICE, CACHE, DATABASE = 0, 1, 2, 3
TO_SERVICE, TO_CACHE, TO_DATABASE = 0, 1, 2


def unit(name: str, kind: UnitKind, own_s: float, pods: int = 2, slots: float = 4) -> Unit:
    replicas = tuple(Replica(f"{name}-{n}", n % 2) for n in range(pods))
    return Unit(name, kind, replicas, own_s, 0.5, slots, 200, 4.0, 0.0, pods, 500)


def shop() -> Graph:
    """web calls cart, which reads a cache and, on a tenth of reads, its database."""
    units = (
        unit("web", UnitKind.FRONT, 0.002),
        unit("cart", UnitKind.SERVICE, 0.01),
        unit("redis", UnitKind.CACHE, 0.0005, 1),
        unit("db", UnitKind.DATABASE, 0.005, 1, 2),
    )
    edges = (
        CallEdge(FRONT, SERVICE, 1.0, 2, 0.0, 0, -1, 1.0, True),
        CallEdge(SERVICE, CACHE, 0.5, 1, 0.97, 0, -1, 1.0, True),
        CallEdge(SERVICE, DATABASE, 2.0, 1, 0.0, 10, CACHE, 0.1, True),
    )
    route = Route("GET /", FRONT, 1.0, False, np.array([1, 1, 1, 0.1]), np.array([1, 1, 0.1]))
    machines = (Machine("n1", "a", "c"), Machine("n2", "b", "c"))
    return Graph("shop", units, edges, (route,), machines, 100.0)


def after(levers: Levers) -> History:
    graph = shop()
    entries = np.full((1, STEPS), 100.0)
    return Physics(graph, entries, np.ones((4, STEPS)), levers, slice(0, STEPS)).run()


def moved(lever: str, index: int, value: float) -> History:
    levers = Levers()
    levers.move(lever, index, np.full(STEPS, value))
    return after(levers)


QUIET = after(Levers())


def test_rates_follow_the_calls():
    assert QUIET.rate[SERVICE, -1] == pytest.approx(100, rel=0.01)
    assert QUIET.rate[DATABASE, -1] == pytest.approx(10, rel=0.01)


def test_latency_sums_up_along_calls():
    assert QUIET.mean_s[FRONT, -1] > QUIET.mean_s[SERVICE, -1] > 0.01


def test_slowness_becomes_time_outs_at_the_caller():
    slow = moved("stall_s", SERVICE, 1.6)
    assert slow.timing_out[TO_SERVICE, -1] > 0.5
    assert slow.failing[FRONT, -1] > 0.4
    assert slow.failing[SERVICE, -1] < 0.05


def test_retries_multiply_the_load_of_a_failing_callee():
    failing = moved("failing", SERVICE, 0.5)
    assert failing.rate[SERVICE, -1] == pytest.approx(150, rel=0.03)
    assert failing.failing[FRONT, -1] == pytest.approx(0.25, abs=0.03)


def test_a_fallback_absorbs_failures():
    assert moved("failing", CACHE, 1.0).failing[SERVICE, -1] < 0.05


def test_cache_misses_reach_the_database():
    missing = moved("miss", TO_DATABASE, 10.0)
    assert missing.rate[DATABASE, -1] == pytest.approx(100, rel=0.05)
    assert missing.used[DATABASE, -1] > 2 * QUIET.used[DATABASE, -1]


def test_a_small_pool_makes_callers_wait_and_fail():
    small = moved("pool", TO_DATABASE, 0.003)
    assert small.pool_used[TO_DATABASE, -1] > 1
    assert small.failing[SERVICE, -1] > QUIET.failing[SERVICE, -1] + 0.01


def test_too_few_servers_fill_up_and_refuse():
    starved = moved("capacity", SERVICE, 0.05)
    assert starved.used[SERVICE, -1] == 1
    assert starved.refused[SERVICE, -1] > 0.3


def test_what_is_unreachable_gets_no_requests():
    gone = moved("unreached", TO_SERVICE, 1.0)
    assert gone.rate[SERVICE, -1] == 0
    assert gone.failing[FRONT, -1] > 0.99


def test_one_bad_replica_slows_its_share_only():
    levers = Levers()
    share, slower = np.full(STEPS, 0.25), np.full(STEPS, 0.6)
    levers.add_part(Part(SERVICE, share, slower, np.zeros(STEPS), frozenset({0})))
    history = after(levers)
    assert history.slow_share[FRONT, -1] == pytest.approx(0.25, abs=0.02)
    assert history.usual_s[FRONT, -1] == pytest.approx(QUIET.usual_s[FRONT, -1], rel=0.1)


def test_queueing_formulae():
    one = np.array([1.0])
    # M/M/1 at 50 %: the wait equals the service time.
    assert mean_wait(0.5 * one, one, one)[0] == pytest.approx(1.0)
    mu, sigma = lognormal(one, one)
    assert cut_mean(one, mu, sigma, 1000 * one)[0] == pytest.approx(1.0, rel=0.01)
    median = quantile(0.5, (mu, sigma), (mu, sigma), np.array([0.3]))
    assert median[0] == pytest.approx(np.exp(mu[0]), rel=0.02)
    waiting = backlog(np.array([2.0, 2, 0, 0]), np.array([1.0, 1, 1, 5]), 0)
    assert waiting.tolist() == [1, 2, 1, 0]


def test_counts_are_conserved_along_calls():
    builder = builder_of(31)
    graph, counts = builder.graph, builder.calm_counts
    for number in range(len(graph.units)):
        sent = sum(counts.reached[edge] for edge in graph.callers_of[number])
        entered = sum(
            counts.entered[n] for n, route in enumerate(graph.routes) if route.front == number
        )
        assert (counts.arrived[number] == sent + entered).all()
    assert (counts.failed <= counts.arrived).all()
    assert (counts.call_failed <= counts.called).all()
    assert (counts.arrived == np.rint(counts.arrived)).all()


def test_the_replay_without_a_fault_is_the_same_world():
    builder = builder_of(31)
    again = builder._computed(builder._quiet, builder.baseline)
    np.testing.assert_allclose(again.mean_s, builder.calm.mean_s, rtol=1e-9)
    np.testing.assert_allclose(again.waiting, builder.calm.waiting, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [4, 17, 80])
def test_graphs_have_the_size_and_run_downwards(size):
    graph = random_graph(WorldSeed(5), size)
    assert abs(len(graph.units) - size) <= 1
    assert all(edge.caller < edge.callee for edge in graph.edges)
    assert len({unit.name for unit in graph.units}) == len(graph.units)
    assert sum(route.share for route in graph.routes) == pytest.approx(1)


@cache
def builder_of(number: int) -> WorldBuilder:
    return WorldBuilder(WorldSeed(number), size=14, fault=None)
