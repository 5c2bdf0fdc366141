"""Plain incidents: their series are OpenMetrics that Prometheus' own parser takes, and their truth
can be seen in them."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from proving_ground.plain.generator.incident import Incident, draw
from proving_ground.plain.generator.kinds import INCIDENTS, KINDS, NOTHINGS
from proving_ground.plain.generator.openmetrics import Exposition
from proving_ground.plain.generator.request_metrics import SECONDS
from proving_ground.plain.generator.rules import make_incident
from proving_ground.plain.generator.system import HAS_CLIENT_METRICS, random_system
from proving_ground.plain.grading import truth_of

END = 1_772_452_800


@cache
def incident(kind: str, seed: int = 1) -> Incident:
    return make_incident(KINDS[kind], seed)[0]


@cache
def exposition(kind: str, seed: int = 1) -> Exposition:
    return incident(kind, seed).exposition(END)


def test_there_are_enough_kinds() -> None:
    assert len(INCIDENTS) >= 24
    assert [kind.name for kind in NOTHINGS] == [
        "flapping",
        "recovered",
        "innocent deploy",
        "daily peak",
        "broken exporter",
    ]


@pytest.mark.parametrize("kind", ["own deploy breaks it", "OOM kills", "cache flushed"])
def test_the_parser_of_prometheus_takes_the_text(kind: str) -> None:
    series = exposition(kind)
    last = np.arange(series.clock.seconds.size)[-6:]
    families = list(text_string_to_metric_families(series.text(last)))
    assert len(families) == len({family.name for family in families}) > 40
    samples = [sample for family in families for sample in family.samples]
    assert max(float(sample.timestamp) for sample in samples) == END
    named = {sample.labels.get("pod", sample.labels.get("exported_pod")) for sample in samples}
    assert len(named) > 10


def test_a_target_is_scraped_at_once_so_that_buckets_never_overtake_each_other() -> None:
    series = exposition("callee's errors")
    text = series.text(np.arange(series.clock.seconds.size)[-3:])
    counts: dict[tuple[str, str, float], list[float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("duration_seconds_bucket"):
                labels = {name: v for name, v in sample.labels.items() if name != "le"}
                key = (sample.name, str(labels), float(sample.timestamp))
                counts.setdefault(key, []).append(sample.value)
    assert len(counts) > 20
    for values in counts.values():
        assert len(values) in (4, len(SECONDS) + 1)
        assert values == sorted(values)


@pytest.mark.parametrize("kind", ["callee's errors", "memory leak that kills every 40 minutes"])
def test_counters_only_fall_where_a_container_began_anew(kind: str) -> None:
    played = incident(kind)
    deaths = max(len(p.restarts_s) for s in played.system.services.values() for p in s.pods)
    for name, series in exposition(kind).metrics.items():
        if not name.endswith(("_total", "_bucket", "_count", "_sum")) or "activity" in name:
            continue
        for labels, values, *_ in series:
            if "kube_" in name or "locks" in name or name == "db_client_connection_count":
                continue
            steps = np.diff(values[~np.isnan(values)])
            assert np.sum(steps < 0) <= deaths, name + labels


@pytest.mark.parametrize("kind", [kind.name for kind in INCIDENTS])
def test_what_has_to_be_named_stands_in_the_series(kind: str) -> None:
    played, truth = incident(kind), truth_of(incident(kind))
    assert truth.names
    re.compile(truth.must)
    labels = "".join(text for rows in exposition(kind).metrics.values() for text, *_ in rows)
    written = labels + "".join(played.system.services)
    for name in truth.names:
        assert name in written
    if truth.change:
        assert played.guilty is not None
        assert played.guilty.at_s < played.onset_s


def test_a_seed_always_gives_the_same_series() -> None:
    first, second = (draw(KINDS["bad zone"], 5, 0, 0.5).exposition(END) for _ in range(2))
    assert first.text(np.arange(20)) == second.text(np.arange(20))


def test_systems_differ_as_installations_do() -> None:
    systems = [random_system(seed) for seed in range(40)]
    assert {system.scrape_s for system in systems} == {15, 30, 60}
    assert {system.calls_by for system in systems} == {
        "client metrics",
        "mesh",
        "settings",
        "unknown",
    }
    assert 10 < sum(system.staging is not None for system in systems) < 30
    for system in systems:
        assert 6 <= len(system.services) <= 16
        for call in system.calls:
            assert system.services[call.caller].depth < system.services[call.callee].depth
        if system.calls_by == "client metrics":
            families = {service.family for service in system.of_role("front", "app")}
            assert families <= set(HAS_CLIENT_METRICS)
