"""Platform metrics of Azure Monitor, against answers in the form of the published specification."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.asking_alert import AlertQueryConnector
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.azure import CONNECTOR
from faultline.connectors.vendors.azure.platform import MOST_RESOURCES, named_resources
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import azure_monitor as stand_in
from tests.connectors.stand_ins.azure_monitor import SITE

INSIGHTS = f"{SITE}/providers/microsoft.insights"


def localizable(name: str) -> dict[str, str]:
    """A name as Azure writes it."""
    return {"value": name, "localizedValue": name}


def definition(name: str, unit: str, aggregation: str, **more: Any) -> dict[str, Any]:
    """A metric that the site has."""
    grains = [{"timeGrain": "PT1M", "retention": "P93D"}, {"timeGrain": "PT1H"}]
    own = {"resourceId": SITE, "namespace": "Microsoft.Web/sites", "metricAvailabilities": grains}
    own |= {"name": localizable(name), "unit": unit, "primaryAggregationType": aggregation}
    return own | more


DEFINITIONS = [
    definition("CpuTime", "Count", "Total"),
    definition("HttpResponseTime", "Seconds", "Average"),
    definition("Http5xx", "Count", "Total"),
    definition("IoOtherOps", "CountPerSecond", "Total"),
    definition("PerInstanceCpu", "Percent", "Average", isDimensionRequired=True),
    definition("DailyErrors", "Count", "Total", metricAvailabilities=[{"timeGrain": "P1D"}]),
]


def metrics(asked: Asked) -> Reply:
    """The metrics that are asked for, minute by minute; errors come with the incident."""
    found = []
    for name in asked.query["metricnames"][0].split(","):
        own = next(one for one in DEFINITIONS if one["name"]["value"] == name)
        data: list[dict[str, Any]] = []
        for minute in range(120):
            at = ALERT_AT - timedelta(minutes=120 - minute)
            key = own["primaryAggregationType"].lower()
            value = 9.0 if at >= ONSET else 0.5
            data.append({"timeStamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", key: value})
        data[3].pop(key)
        series = [{"metadatavalues": [], "data": data}]
        named = {"id": f"{INSIGHTS}/metrics/{name}", "type": "Microsoft.Insights/metrics"}
        found.append(
            {**named, "name": localizable(name), "unit": own["unit"], "timeseries": series}
        )
    return Reply({"cost": 0, "timespan": asked.query["timespan"][0], "value": found})


@pytest.fixture
def azure(server: LocalServer) -> LocalServer:
    """Azure, with a site whose metrics are known."""
    stand_in.serve(server)
    server.on(f"{INSIGHTS}/metricDefinitions", Reply({"value": DEFINITIONS}))
    server.on(f"{INSIGHTS}/metrics", metrics)
    return server


def collect(server: LocalServer, folder: Path, **own: Any) -> Collected:
    """What is collected for an alert that names the site."""
    tables = stand_in.settings(server.url)
    tables["azure_monitor"] |= own
    connector = CONNECTOR.configured(Settings.model_validate(tables))
    assert connector is not None
    alert = Alert(
        source="azure_monitor",
        title="Payments fails",
        started_at=ALERT_AT,
        service="payments",
        labels={"resource_id": SITE, "resource": "payments-prod"},
        query=AlertQuery(language="metric", text="CpuTime"),
    )
    request = request_for(folder, services=("payments",), alert=alert)
    return asyncio.run(collect_from(connector, request))


def test_the_alerts_metric_and_those_that_mean_something_are_read(
    azure: LocalServer, tmp_path: Path
) -> None:
    found = collect(azure, tmp_path)
    (item,) = [one for one in found.items if INSIGHTS in one.query]
    assert "metricnames=CpuTime,HttpResponseTime,Http5xx aggregation=Total,Average" in item.query
    assert item.signals == ("cpu_time", "http5xx", "http_response_time")
    assert item.link == f"https://portal.azure.com/#resource{SITE}/metrics"
    rows = conform(found.tables["metrics"], "metrics", "metrics").filter(signal="http5xx")
    assert set(rows["service"]) == {"payments"}
    assert rows.height == 119
    assert rows.filter(rows["time"] < ONSET)["value"].unique().to_list() == [0.5]
    assert rows.filter(rows["time"] >= ONSET)["value"].unique().to_list() == [9.0]


def test_without_the_right_to_read_it_is_a_gap_that_says_which_role(
    azure: LocalServer, tmp_path: Path
) -> None:
    azure.on(f"{INSIGHTS}/metricDefinitions", Reply({"error": {}}, status=403))
    (gap,) = collect(azure, tmp_path).missing
    assert gap.reason.endswith('give the credential the role "Monitoring Reader" on it')


def test_they_are_not_asked_for_where_that_is_switched_off(
    azure: LocalServer, tmp_path: Path
) -> None:
    collect(azure, tmp_path, platform_metrics=False)
    assert not [path for path in azure.paths() if "insights" in path]


def test_what_is_no_resource_is_not_asked_for() -> None:
    labels = {f"r{n}": SITE.replace("payments", f"p{n}") for n in range(9)}
    labels |= {
        "up": f"{SITE}/../../x",
        "query": f"{SITE}?api-version=1",
        "short": "/subscriptions/s-1",
        "other": "https://example.com/subscriptions/s-1/resourceGroups/rg/providers/a/b/c",
    }
    alert = Alert(source="x", title="x", started_at=ALERT_AT, labels=dict(reversed(labels.items())))
    found = named_resources(alert)
    assert len(found) == MOST_RESOURCES
    assert all(one.startswith(SITE[:40]) and "?" not in one and ".." not in one for one in found)


def specification(shared: Path, name: str) -> Any:
    """One of the published documents."""
    return json.loads((shared / "specs" / "azure-monitor" / name).read_text())


def test_calls_and_answers_are_those_of_the_published_api(
    azure: LocalServer, tmp_path: Path, shared: Path
) -> None:
    collect(azure, tmp_path)
    calls = {
        "metricDefinitions": ("metricDefinitions.json", "MetricDefinitionCollection"),
        "metrics": ("metrics.json", "Response"),
    }
    for call, (file, schema) in calls.items():
        document = specification(shared, file)
        given = document["paths"][f"/{{resourceUri}}/providers/microsoft.insights/{call}"]["get"]
        references = [one.get("$ref", "").rpartition("/")[2] for one in given["parameters"]]
        shared_ones = document["components"]["parameters"]
        known = {shared_ones[name]["name"] for name in references if name}
        (asked,) = [one for one in azure.asked if one.path == f"{INSIGHTS}/{call}"]
        assert set(asked.query) <= known
        answer = {"value": DEFINITIONS} if call == "metricDefinitions" else metrics(asked).body
        wanted = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
        jsonschema.Draft202012Validator(wanted).validate(answer)


def test_a_metric_alert_is_held_against_its_threshold(azure: LocalServer, tmp_path: Path) -> None:
    connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(azure.url)))
    assert connector is not None
    query = AlertQuery(
        language="metric",
        text="Http5xx",
        namespace="Microsoft.Web/sites",
        statistic="Total",
        comparison=">",
        threshold=5,
        window_s=300,
        dimensions={"Instance": "it's-1"},
    )
    alert = Alert(
        source="azure_monitor",
        title="Payments fails",
        started_at=ALERT_AT,
        labels={"resource_id": SITE},
        query=query,
    )
    asked = AlertQueryConnector([connector])
    found = asyncio.run(collect_from(asked, request_for(tmp_path, alert=alert)))
    rows = found.tables["alert_query"]
    assert set(rows["threshold"]) == {5.0}
    true = rows.filter(rows["is_true"] > 0)
    assert true["time"].min() == ONSET
    calls = [asked for asked in azure.asked if asked.path.endswith("/metrics")]
    assert {call.query["$filter"][0] for call in calls} == {"Instance eq 'it''s-1'"}
    assert {call.query["interval"][0] for call in calls} == {"PT5M"}
