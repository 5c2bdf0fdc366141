"""Sentry's published specification between our connector and our stand-in: what we ask fits it, and
so does what the tests answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.sentry import CONNECTOR
from faultline.connectors.vendors.sentry.connector import SentryConnector
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import sentry as stand_in
from tests.contracts.emulators import prism_before

UNPUBLISHED = ("/committers/",)
"""Asked by Sentry's own pages (api/endpoints/event_file_committers.py), and not in its
specification."""


@pytest.fixture(scope="module")
def sentry(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SentryConnector, LocalServer]]:
    """The connector, prism in front of the stand-in, and the stand-in."""
    with LocalServer() as server:
        stand_in.serve(server)
        with prism_before(
            shared / "specs/sentry.trim.json", server.url, tmp_path_factory.mktemp("prism")
        ) as url:
            connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(url)))
            assert connector is not None
            yield connector, server


@pytest.fixture(scope="module")
def collected(
    sentry: tuple[SentryConnector, LocalServer], tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    """A collection for an alert about an issue."""
    alert = Alert(
        source="sentry",
        title="t",
        started_at=ALERT_AT,
        service="checkout",
        labels={"issue_id": stand_in.NEW},
    )
    request = request_for(tmp_path_factory.mktemp("files"), services=("checkout",), alert=alert)
    return asyncio.run(collect_from(sentry[0], request))


def test_every_published_call_and_its_answer_fit_the_specification(collected: Collected) -> None:
    assert [m for m in collected.missing if not any(part in m.query for part in UNPUBLISHED)] == []
    assert collected.tables["logs"].height
    assert collected.tables["metrics"].height == 150
    assert collected.tables["changes"]["id"].to_list() == [stand_in.RELEASE]


def test_the_stand_in_was_asked_for_everything(
    sentry: tuple[SentryConnector, LocalServer], collected: Collected
) -> None:
    asked = " ".join(sentry[1].paths())
    for part in (
        "/issues/4001/",
        "/events/latest/",
        "/events-timeseries/",
        "/deploys/",
        "/commits/",
        "/commitfiles/",
    ):
        assert part in asked
    assert sentry[1].methods <= {"GET", "HEAD"}


def test_the_checks_calls_fit_too(sentry: tuple[SentryConnector, LocalServer]) -> None:
    said = asyncio.run(sentry[0].check())
    assert "issues, counts, releases can be read" in said.line
