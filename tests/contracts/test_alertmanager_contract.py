"""The connector against a real Alertmanager; Alertmanager's specification between the connector and
our stand-in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.alertmanager import CONNECTOR
from faultline.connectors.vendors.alertmanager.connector import AlertmanagerConnector
from tests.alertmanagers import post_alerts, post_silence, running_alertmanager
from tests.connectors.collected_cases import collected
from tests.connectors.conftest import request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import alertmanager as stand_in
from tests.contracts.emulators import prism_before
from tests.contracts.specifications import with_full_paths

SINCE = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=7)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Alertmanager with an alert of checkout, which inhibits another, and one of cart that is
    silenced."""
    with running_alertmanager(tmp_path_factory.mktemp("alertmanager")) as url:
        post_silence(url, {"name": "service", "value": "cart", "isRegex": False})
        page = {"alertname": "CheckoutErrors", "service": "checkout", "severity": "page"}
        warn = {"alertname": "CheckoutSlow", "service": "checkout", "severity": "warn"}
        post_alerts(url, page, warn, {"alertname": 'Cart "cold"', "service": "cart"}, since=SINCE)
        yield url


def until_settled(url: str, folder: Path) -> Collected:
    """What is collected once Alertmanager has applied silences and inhibitions, which it does in
    the background."""
    ends = time.monotonic() + 60
    while True:
        found = collected(folder, AlertmanagerConnector(url))
        states = found.tables["monitors"]["state"].to_list()
        if (
            sorted(states) == ["firing", "inhibited", "silenced", "silenced"]
            or time.monotonic() > ends
        ):
            return found
        time.sleep(0.3)


def test_a_real_alertmanagers_alerts_are_monitors_with_what_mutes_them(
    real: str, tmp_path: Path
) -> None:
    found = until_settled(real, tmp_path)
    assert found.missing == ()
    monitors = {row["monitor"]: row for row in found.tables["monitors"].iter_rows(named=True)}
    silence = next(name for name in monitors if name.startswith("silence "))
    assert {name: row["state"] for name, row in monitors.items()} == {
        "CheckoutErrors": "firing",
        "CheckoutSlow": "inhibited",
        'Cart "cold"': "silenced",
        silence: "silenced",
    }
    assert monitors["CheckoutErrors"]["since"] == SINCE
    assert (monitors[silence]["service"], monitors["CheckoutSlow"]["service"]) == (
        "cart",
        "checkout",
    )
    said = {k: v for item in found.items for k, v in item.details.items()}
    assert "by dana: cart is being moved" in said[silence]
    assert "CheckoutErrors of checkout" in said["CheckoutErrors"]


def test_a_real_alertmanager_takes_our_filters(real: str, tmp_path: Path) -> None:
    connector = AlertmanagerConnector(real)
    request = request_for(tmp_path, services=('ca"rt', "check.out\\", "checkout"))

    async def filtered() -> list[int]:
        async with connector._http.open() as session:
            filters = connector._filters(request)
            asked = [
                session.get("/api/v2/alerts", [("filter", text)], type=list) for text in filters
            ]
            return [len(found) for found in await asyncio.gather(*asked)]

    assert asyncio.run(filtered()) == [2, 0, 0, 0]


def test_a_real_alertmanager_tells_its_version(real: str) -> None:
    said = asyncio.run(AlertmanagerConnector(real).check())
    assert said.ok
    assert "Alertmanager 0." in said.line
    assert "3 alerts are active" in said.line


def test_calls_and_answers_fit_the_specification(shared: Path, tmp_path: Path) -> None:
    with LocalServer() as server:
        stand_in.serve(server)
        specification = with_full_paths(shared / "specs/alertmanager-v2.yaml", "/api/v2", tmp_path)
        with prism_before(specification, server.url, tmp_path) as url:
            connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(url)))
            assert connector is not None
            found = collected(tmp_path, connector, services=("checkout", "cart"))
            said = asyncio.run(connector.check())
        assert found.missing == ()
        assert found.tables["monitors"].height == 4
        assert said.ok, said.line
        assert server.methods <= {"GET", "HEAD"}
