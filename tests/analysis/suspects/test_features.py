"""The numbers of a suspect at the borders that they are read with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.requests.topology import topology_of
from faultline.analysis.suspects.accounting import Moves
from faultline.analysis.suspects.deviations import CLEARLY_OUT, Deviation, loudest
from faultline.analysis.suspects.features import Features, SuspectFeatures
from faultline.analysis.suspects.observed import Observed
from faultline.analysis.suspects.ranked import rank_suspects
from faultline.analysis.suspects.suspect import Suspect, findings_shares
from faultline.analysis.suspects.victims import LoadChange
from faultline.analysis.vocabulary import Finding

Shown = tuple[str, SignalClass, float]
LATENCY, QUEUE = SignalClass.LATENCY, SignalClass.QUEUE


def deviation(service: str, signal_class: SignalClass) -> Deviation:
    none, times = np.zeros(3), np.arange(3, dtype=np.int64)
    signal = signal_class.value
    return Deviation(service, signal, signal_class, {}, times, none, none, 1, 0.0, 2.0, 9)


def observed(shown: Sequence[Shown], requests: Mapping[str, LoadChange] | None = None) -> Observed:
    """web, which alerts, calls api; each shows series with these weights."""
    return Observed(
        alerting="web",
        alert=None,
        curve=None,
        graph=topology_of([("web", "api")]),
        service_series=[(deviation(service, kind), weight) for service, kind, weight in shown],
        calls=[],
        lines=[],
        places=[],
        moves=Moves(requests=dict(requests or {})),
        services=frozenset({"web", "api"}),
    )


def features(seen: Observed, subject: str = "api") -> Features:
    return SuspectFeatures(seen, [], []).of(subject)


def test_a_faint_alert_makes_no_clear_path_of_faint_trouble() -> None:
    faint = observed([("web", LATENCY, 0.05), ("api", LATENCY, 0.12)])
    assert 0.7 < features(faint).path < 0.9
    clear = observed([("web", LATENCY, 0.5), ("api", LATENCY, 0.5)])
    assert features(clear).path == 1.0


@pytest.mark.parametrize(("handled", "is_stuck"), [(97.0, False), (94.0, True)])
def test_a_worker_is_stuck_once_it_handles_clearly_less(handled: float, *, is_stuck: bool) -> None:
    shown = [("web", QUEUE, 0.8), ("api", LATENCY, 0.1)]
    seen = observed(shown, {"api": LoadChange(100.0, handled, 0.01)})
    assert (features(seen).stuck > 0) is is_stuck


def told_of(subject: str, kind: str, **details: object) -> Suspect:
    """A suspect of whom findings say as much as of any other."""
    finding = Finding(
        id="", kind=kind, subject=subject, strength=1.0, sentence="", details=dict(details)
    )
    return Suspect(subject, score=0.5, findings=[finding])


def test_a_fresh_fact_makes_its_object_ten_times_as_likely() -> None:
    fact = {"fact": "node_not_ready", "objects": ["node-7"], "bad": True}
    node = told_of("node-7", "node_state", **fact)
    other = told_of("db", "metric_shift", **{"class": "other", "bad": True})
    found = {s.subject: s for s in rank_suspects([node, other], observed([]), [])}
    assert 8 < found["node-7"].probability / found["db"].probability < 14


@pytest.mark.parametrize(("score", "leads"), [(0.2, False), (0.3, True)])
def test_a_rank_that_clearly_delays_the_others_is_said_twice_as_much_of(
    score: float, *, leads: bool
) -> None:
    rank = Suspect("rank 2", score=0.8, raw_scores={"straggler": score})
    shares = findings_shares([rank, Suspect("pretrain", score=0.8)])
    assert rank.is_root is leads
    assert shares["rank 2"] == pytest.approx(2.0 if leads else 1.0)
    assert shares["pretrain"] == 1.0


def test_the_loudest_of_faint_suspects_stays_faint() -> None:
    shares = findings_shares([Suspect("db", score=0.07), Suspect("api", score=0.035)])
    assert shares == pytest.approx({"db": 0.1, "api": 0.05})


def test_a_change_of_what_is_in_no_trouble_counts_nothing() -> None:
    calm = observed([("web", LATENCY, 0.9)])
    changed = dataclasses.replace(calm, changed={"api": 1.0})
    assert features(changed).changed == 0
    slow = observed([("web", LATENCY, 0.9), ("api", LATENCY, 0.6)])
    changed = dataclasses.replace(slow, changed={"api": 1.0})
    assert features(changed).changed == pytest.approx(0.6)


@pytest.mark.parametrize("ingress_requests", [None, LoadChange(100.0, 300.0, 0.1)])
def test_more_requests_from_a_caller_that_counts_none_come_from_outside(
    ingress_requests: LoadChange | None,
) -> None:
    requests = {"web": LoadChange(100.0, 300.0, 0.1)}
    if ingress_requests is not None:
        requests["ingress"] = ingress_requests
    seen = dataclasses.replace(
        observed([("web", LATENCY, 0.9)], requests),
        graph=topology_of([("ingress", "web"), ("web", "api")]),
    )
    surge = features(seen, "web").surge
    assert surge == (1.0 if ingress_requests is None else 0.0)


def test_a_job_that_takes_a_store_over_makes_no_front_door_of_it() -> None:
    graph = topology_of([("db", "export")])
    seen = dataclasses.replace(
        observed([], {"db": LoadChange(100.0, 300.0, 0.1)}), graph=graph, alerting="db"
    )
    job = told_of("export", "database_state", fact="takes_over_database", objects=["export"])
    assert SuspectFeatures(seen, [], [job]).of("db").surge == 0.0
    assert SuspectFeatures(seen, [], []).of("db").surge == 1.0


def test_a_cache_that_misses_explains_a_store_whose_requests_nobody_counts() -> None:
    hit_ratio, cpu = SignalClass.HIT_RATIO, SignalClass.CPU
    shown = [("web", LATENCY, 0.9), ("cache", hit_ratio, 0.8), ("db", cpu, 0.9)]
    graph = topology_of([("web", "api"), ("api", "cache"), ("api", "db")])
    seen = dataclasses.replace(observed(shown), graph=graph)
    assert features(seen, "cache").cache_overloads > 0.5


def test_what_a_store_handles_is_its_load() -> None:
    more = LoadChange(100.0, 300.0, 0.1)
    seen = dataclasses.replace(
        observed([("web", LATENCY, 0.9)]),
        moves=Moves(requests={"web": LoadChange(100.0, 100.0, 0.1)}, throughput={"api": more}),
    )
    assert features(seen, "web").asks_more == 1.0


def test_where_all_series_are_faint_none_explains_much() -> None:
    faint = deviation("web", LATENCY)
    assert loudest([dataclasses.replace(faint, excess=1.2)]) == CLEARLY_OUT
    assert loudest([dataclasses.replace(faint, excess=200.0)]) > CLEARLY_OUT


@pytest.mark.parametrize(("handled", "is_stuck"), [(97.0, False), (60.0, True)])
def test_a_consumer_is_stuck_by_its_own_lag(handled: float, *, is_stuck: bool) -> None:
    seen = dataclasses.replace(
        observed([("api", QUEUE, 0.8)]),
        moves=Moves(throughput={"api": LoadChange(100.0, handled, 0.01)}),
    )
    assert features(seen).stuck == (0.8 if is_stuck else 0.0)
