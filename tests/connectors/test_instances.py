"""Several servers of one vendor, each its own connector."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, Link, Scope, Window
from faultline.bot.investigation.collecting import part_of
from faultline.bot.settings import Settings, load_settings, sections_that_repeat
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.contract.instances import likely_senders, worth_asking
from faultline.connectors.shared.contract.placed_rows import placed
from faultline.connectors.shared.settings.instances import Covers
from faultline.connectors.shared.transport.rate_limiter import open_circuits, rate_limiters_of
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    request_for,
    running_prometheus,
)
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.pagerduty_server import INCIDENT
from tests.connectors.test_read_only import OVER_HTTP, stand_in

RULES = """groups:
  - name: checkout
    rules:
      - alert: CheckoutSlow
        expr: sum(rate(http_requests_total{service="checkout"}[5m])) < LIMIT
"""


def samples(per_second: float) -> str:
    """Three hours of requests to checkout at that rate."""
    series = OpenMetrics()
    first = int((ALERT_AT - timedelta(hours=3)).timestamp())
    for number, t in enumerate(range(first, int(ALERT_AT.timestamp()) + 60, 15)):
        count = number * 15 * per_second
        series.add("http_requests_total", "counter", 'service="checkout",code="200"', count, t)
    return series.finished()


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningPrometheus, RunningPrometheus]]:
    """Two Prometheus servers that know one service under one name, at 10 and at 40 requests a
    second."""
    eu, us = tmp_path_factory.mktemp("eu"), tmp_path_factory.mktemp("us")
    slow, fast = RULES.replace("LIMIT", "1"), RULES.replace("LIMIT", "2")
    with (
        running_prometheus(eu, samples(10), slow) as first,
        running_prometheus(us, samples(40), fast) as second,
    ):
        yield first, second


@pytest.fixture
def settings(clusters: tuple[RunningPrometheus, RunningPrometheus], tmp_path: Path) -> Settings:
    """Both, each for its cluster."""
    tables = []
    for name, server in zip(("prod-eu", "prod-us"), clusters, strict=True):
        tables.append(
            f'[[prometheus]]\nname = "{name}"\nurl = "{server.url}"\n'
            f'covers = {{ cluster = "{name}" }}\n'
        )
    file = tmp_path / "faultline.toml"
    file.write_text("".join(tables))
    return load_settings(file, {})


def alert_of(**labels: str) -> Alert:
    return Alert(source="alertmanager", title="slow", started_at=ALERT_AT, labels=labels)


def rates(settings: Settings, folder: Path, alert: Alert) -> dict[str, float]:
    """The request rate of checkout by the labels of its series, from all that are asked."""
    request = request_for(folder, services=("checkout",), alert=alert)
    frames = []
    for one in worth_asking(build_connectors(settings), alert, request.scope):
        collected = asyncio.run(collect_from(one, request))
        assert {item.kind for item in collected.items} >= {"metrics"}
        frames.append(conform(collected.tables["metrics"], "metrics", "metrics"))
    table = pl.concat(frames).unique().filter(pl.col("signal") == "request_rate")
    medians = table.group_by("labels").agg(pl.col("value").median())
    return {str(labels): round(value) for labels, value in medians.iter_rows()}


def test_an_alert_that_names_no_cluster_is_looked_into_in_all_which_stay_apart(
    settings: Settings, tmp_path: Path
) -> None:
    assert rates(settings, tmp_path, alert_of()) == {
        '{"cluster":"prod-eu"}': 10,
        '{"cluster":"prod-us"}': 40,
    }


@pytest.mark.parametrize("label", ["cluster", "kube_cluster_name"])
def test_an_alert_about_one_cluster_is_looked_into_there_alone(
    settings: Settings, tmp_path: Path, label: str
) -> None:
    alert = alert_of(**{label: "PROD-us"})
    assert rates(settings, tmp_path, alert) == {'{"cluster":"prod-us"}': 40}


def test_an_alert_about_a_place_that_nobody_covers_is_a_gap_that_says_so(
    settings: Settings, tmp_path: Path
) -> None:
    alert = alert_of(cluster="prod-ap")
    request = request_for(tmp_path, services=("checkout",), alert=alert)
    connectors = worth_asking(build_connectors(settings), alert, request.scope)
    assert [one.name for one in connectors] == ["prometheus prod-eu", "prometheus prod-us"]
    collected = asyncio.run(collect_from(connectors[0], request))
    assert collected.items == ()
    reasons = {missing.reason for missing in collected.missing}
    assert reasons == {"covers cluster prod-eu, and the alert says prod-ap"}


def test_the_rule_of_an_alert_is_looked_up_where_the_alert_leads(
    settings: Settings, clusters: tuple[RunningPrometheus, RunningPrometheus]
) -> None:
    for server, limit in zip(clusters, ("1", "2"), strict=True):
        link = Link(title="Alert rule", url=f"{server.url}/graph?g0.expr=up")
        alert = alert_of(alertname="CheckoutSlow").model_copy(update={"links": (link,)})
        first: Any = likely_senders(build_connectors(settings), alert)[0]
        query = asyncio.run(first.rule_of(alert))
        assert query is not None
        assert query.text.endswith(f"< {limit}")


@pytest.mark.parametrize(
    "name", [one for one in sections_that_repeat(Settings) if one in OVER_HTTP]
)
def test_every_connector_can_stand_several_times(name: str, tmp_path: Path) -> None:
    """One whose server is down beside one that works: each has its own name, rate and circuit."""
    stand = stand_in(name)
    plain = len(rate_limiters_of(name))
    with LocalServer() as works, LocalServer() as down:
        stand.serve(works)
        down.refusal = Reply({"error": "down"}, status=500)
        settings = two_of(name, stand.settings(works.url), stand.settings(down.url))
        good, bad = build_connectors(settings)
        assert (good.name, bad.name) == (f"{name} one", f"{name} two")
        kinds = {kind for kind, _, _ in evidence(good, tmp_path / "one")}
        assert kinds
        assert {source for _, source, _ in evidence(bad, tmp_path / "two")} == {bad.name}
        assert works.asked
        assert down.asked
        check = asyncio.run(good.check())
        assert check.name == good.name
    assert len(rate_limiters_of(name)) == plain
    assert rate_limiters_of(good.name)
    assert rate_limiters_of(bad.name)
    assert not open_circuits()[good.name]


def two_of(name: str, first: dict[str, Any], second: dict[str, Any]) -> Settings:
    """The connector twice; what it needs besides is that of the first."""
    model = sections_that_repeat(Settings)[name]
    one = model.model_validate(first.pop(name)).as_instance("one", Covers())
    two = model.model_validate(second[name]).as_instance("two", Covers())
    services = {"services": first.get("services", {})}
    return Settings.model_validate(services).with_instances({name: (one, two)})


def evidence(connector: Any, folder: Path) -> list[tuple[str, str, str]]:
    """Kind, source and query of everything that came or is missing, as the case has it."""
    folder.mkdir()
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=alert)
    collected = asyncio.run(collect_from(connector, request))
    part = part_of(connector.name, collected, folder, folder)
    assert {one.source for one in (*part.items, *part.gaps)} == {connector.name}
    return [(one.kind, one.source, one.query) for one in (*part.items, *part.gaps)]


def metrics(*labels: str | None) -> Collected:
    rows = [(ALERT_AT, "checkout", "errors", 1.0, text) for text in labels]
    columns = ["time", "service", "signal", "value", "labels"]
    return Collected({"metrics": pl.DataFrame(rows, schema=columns, orient="row")})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {"cluster": "eu"}),
        ("{}", {"cluster": "eu"}),
        ('{"pod":"a"}', {"pod": "a", "cluster": "eu"}),
        ('{"cluster":"other"}', {"cluster": "other"}),
        ('{"k8s_cluster_name":"other"}', {"k8s_cluster_name": "other"}),
        ('{"note":"\\"cluster\\":"}', {"note": '"cluster":', "cluster": "eu"}),
    ],
)
def test_rows_say_where_they_belong_unless_they_do_so_themselves(
    before: str | None, after: dict[str, str]
) -> None:
    covers = Covers({"cluster": ("eu",), "env": ("a", "b"), "zone": ("z*",)})
    table = placed(metrics(before), covers, "prometheus eu").tables["metrics"]
    assert json.loads(table["labels"][0]) == after


def test_labels_that_are_no_object_are_left_as_they_are() -> None:
    table = placed(metrics("pod a", "{broken"), Covers({"cluster": ("eu",)}), "x").tables["metrics"]
    assert table["labels"].to_list() == ["pod a", "{broken"]


def test_series_of_servers_that_name_no_place_are_told_apart_by_their_source() -> None:
    table = placed(metrics(None), Covers(services=("checkout",)), "prometheus b").tables["metrics"]
    assert json.loads(table["labels"][0]) == {"source": "prometheus b"}


def test_a_server_that_covers_some_services_is_asked_about_those_alone() -> None:
    covers = Covers(services=("checkout", "pay*"))
    at = Window(start=ALERT_AT, end=ALERT_AT)
    scope = Scope(incident=at, services=("cart", "Payments"))
    assert covers.objection(alert_of(), scope) is None
    assert covers.narrowed(scope).services == ("Payments",)
    other = scope.model_copy(update={"services": ("cart",)})
    said = covers.objection(alert_of(), other)
    assert said == "covers none of the services asked about (cart)"
    assert covers.objection(alert_of(), scope.model_copy(update={"services": ()})) is None
