"""PagerDuty's published specification between our connector and our stand-in: what we ask fits it,
and so does what the tests answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.pagerduty import CONNECTOR
from faultline.connectors.vendors.pagerduty.connector import PagerDutyConnector
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.pagerduty_server import INCIDENT, SERVICE
from tests.connectors.stand_ins import pagerduty as stand_in
from tests.contracts.emulators import prism_before


@pytest.fixture(scope="module")
def pagerduty(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PagerDutyConnector, LocalServer]]:
    """The connector, prism in front of the stand-in, and the stand-in.

    A log entry must fit exactly one of 17 schemas, of which some contradict the schema that they
    all extend, and its channel exactly one of schemas that hardly differ: the specification's own
    example fits none. The shared schema is used instead.
    """
    folder = tmp_path_factory.mktemp("prism")
    spec = json.loads((shared / "specs/pagerduty-rest.prism.json").read_bytes())
    for answer in spec["paths"]["/incidents/{id}/log_entries"]["get"]["responses"]["200"][
        "content"
    ].values():
        answer["schema"]["allOf"][1]["properties"]["log_entries"]["items"] = {
            "$ref": "#/components/schemas/LogEntry"
        }
    channel = spec["components"]["schemas"]["Channel"]
    channel["anyOf"] = channel.pop("oneOf")
    (folder / "pagerduty.json").write_text(json.dumps(spec))
    with LocalServer() as server:
        stand_in.serve(server)
        with prism_before(folder / "pagerduty.json", server.url, folder) as url:
            connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(url)))
            assert connector is not None
            yield connector, server


@pytest.fixture(scope="module")
def collected(
    pagerduty: tuple[PagerDutyConnector, LocalServer], tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    """A collection for the incident."""
    alert = Alert(
        source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT, service="checkout"
    )
    request = request_for(
        tmp_path_factory.mktemp("files"), services=("checkout", "cart"), alert=alert
    )
    return asyncio.run(collect_from(pagerduty[0], request))


def test_every_call_and_its_answer_fit_the_specification(collected: Collected) -> None:
    assert collected.missing == ()
    assert collected.tables["changes"].height == 3
    assert collected.tables["monitors"].height == 3


def test_the_stand_in_was_asked_for_everything(
    pagerduty: tuple[PagerDutyConnector, LocalServer], collected: Collected
) -> None:
    parts = (
        "alerts",
        "log_entries",
        "past_incidents",
        "related_incidents",
        "related_change_events",
    )
    expected = {f"/incidents/{INCIDENT}/{part}" for part in parts}
    expected |= {f"/incidents/{INCIDENT}", f"/services/{SERVICE}/change_events", "/oncalls"}
    assert expected <= set(pagerduty[1].paths())
    assert pagerduty[1].methods <= {"GET", "HEAD"}


def test_enriching_and_the_checks_calls_fit_too(
    pagerduty: tuple[PagerDutyConnector, LocalServer],
) -> None:
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    enriched = asyncio.run(pagerduty[0].enrich(alert))
    assert enriched.labels["job_name"] == "llm-1"
    said = asyncio.run(pagerduty[0].check())
    assert "incidents, services, change events, on-call can be read" in said.line
