"""The Alertmanager connector over real HTTP; against a real one in tests/contracts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.alertmanager import CONNECTOR
from faultline.connectors.vendors.alertmanager.connector import MOST_ALERTS, AlertmanagerConnector
from tests.connectors.collected_cases import collected
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import alertmanager as stand_in


def connector(server: LocalServer, **more: Any) -> AlertmanagerConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url) | more))
    assert built is not None
    return built


def test_alerts_are_monitors_in_a_state_of_one_word(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "cart"))
    monitors = conform(found.tables["monitors"], "monitors", "monitors")
    states = {
        row["monitor"]: (row["service"], row["state"]) for row in monitors.iter_rows(named=True)
    }
    assert states == {
        "CheckoutErrors": ("checkout", "firing"),
        "CartSlow": ("cart", "silenced"),
        "CartErrors": ("cart", "inhibited"),
        f"silence {stand_in.SILENCE}": ("cart", "silenced"),
    }
    assert monitors.filter(monitors["monitor"] == "CheckoutErrors")["since"][
        0
    ] == ONSET + timedelta(minutes=2)
    assert found.missing == ()


def test_a_silence_says_what_it_mutes_until_when_by_whom_and_why(
    server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(server))
    (said,) = (
        d for i in found.items for name, d in i.details.items() if name.startswith("silence")
    )
    assert said.startswith('service="cart", alertname=~"CartSlow|CartCold"; 2026-03-02T10:00')
    assert said.endswith("by dana: cart is being moved")


def test_links_go_where_people_reach_it(server: LocalServer, tmp_path: Path) -> None:
    own = stand_in.settings(server.url)["alertmanager"] | {
        "public_url": "https://alerts.example.com"
    }
    found = collected(tmp_path, connector(server, alertmanager=own))
    links = [*(i.link for i in found.items), *found.tables["monitors"]["link"]]
    assert all(str(link).startswith("https://alerts.example.com/#/") for link in links)


def test_of_very_many_alerts_those_of_the_scope_are_kept(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    others = [
        stand_in.alert(f"A{n}", f"other-{n}", ONSET + timedelta(seconds=n))
        for n in range(MOST_ALERTS + 50)
    ]
    server.on(
        "/api/v2/alerts",
        Reply([*others, stand_in.alert("Old", "checkout", ONSET - timedelta(days=3))]),
    )
    found = collected(tmp_path, built)
    alerts = found.tables["monitors"]
    assert "Old" in alerts["monitor"].to_list()
    assert alerts.height == MOST_ALERTS + 1
    assert [i.cut for i in found.items if "alerts" in i.query] == [
        f"51 of {MOST_ALERTS + 51} active alerts left out"
    ]


def test_more_alerts_than_can_be_read_are_asked_for_by_service_and_name(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)

    def answer(asked: Asked) -> Reply:
        one = stand_in.alert("CheckoutErrors", "checkout", ONSET)
        if "filter" not in asked.query:
            return Reply([{**one, "annotations": {"text": "x" * 40_000}}])
        return Reply([one] if asked.query["filter"][0].startswith("service=~") else [])

    server.on("/api/v2/alerts", answer)
    alert = Alert(
        source="x", title="t", started_at=ALERT_AT, labels={"alertname": 'Checkout"Errors'}
    )
    small = AlertmanagerConnector(server.url, limits=Limits(max_bytes=30_000))
    found = collected(tmp_path, small, services=("checkout",), alert=alert)
    assert "CheckoutErrors" in found.tables["monitors"]["monitor"].to_list()
    filters = [a.query["filter"][0] for a in server.asked if "filter" in a.query]
    assert filters == [
        'service=~"checkout"',
        'service_name=~"checkout"',
        'app=~"checkout"',
        'job=~"checkout"',
        'alertname="Checkout\\"Errors"',
    ]


def test_hostile_labels_are_short_lines(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    one = stand_in.alert("A\n<b>" + "x" * 5000, "cart\x00\x1b[31m", ONSET)
    server.on("/api/v2/alerts", Reply([one]))
    monitors = collected(tmp_path, built).tables["monitors"]
    assert all(len(name) <= 200 and "\n" not in name for name in monitors["monitor"])
    assert "cart [31m" in monitors["service"].to_list()


@pytest.mark.parametrize(
    ("path", "reply", "reason"),
    [
        ("/api/v2/alerts", Reply(b"", 401), "authentication failed"),
        ("/api/v2/alerts", Reply(b"[{}]"), "unexpected response"),
        ("/api/v2/silences", Reply(b"", 500), "refused (HTTP 500)"),
        ("/api/v2/silences", Reply(b'[{"id": "a", '), "unexpected response"),
    ],
)
def test_one_call_that_fails_is_a_gap_and_the_other_stands(
    server: LocalServer, tmp_path: Path, path: str, reply: Reply, reason: str
) -> None:
    built = connector(server)
    server.on(path, reply)
    found = collected(tmp_path, built)
    (gap,) = found.missing
    assert path in gap.query
    assert reason in gap.reason
    assert found.tables["monitors"].height


def test_a_time_that_is_none_leaves_the_alert_out(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    server.on("/api/v2/alerts", Reply([{**stand_in.alerts()[0], "startsAt": "9999-99-99"}]))
    assert collected(tmp_path, built).tables["monitors"].height == 1


def test_check_warns_that_who_reads_can_silence(server: LocalServer) -> None:
    said = asyncio.run(connector(server).check())
    assert said.ok
    assert "Alertmanager 0.28.1" in said.line
    assert "warning: Alertmanager has no read-only access of its own" in said.line


def test_a_label_that_is_none_stops_the_start() -> None:
    with pytest.raises(SettingsError, match="service_labels"):
        AlertmanagerConnector("http://127.0.0.1:9", service_labels=('app="x',))


def test_the_webhook_alone_asks_nothing() -> None:
    assert (
        CONNECTOR.configured(Settings.model_validate({"alertmanager": {"webhook_tokens": "t"}}))
        is None
    )
