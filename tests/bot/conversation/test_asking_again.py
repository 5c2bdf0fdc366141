"""Fresh state is read by the real connector, over HTTP, and what cannot be asked is said."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case, write_json
from faultline.analysis.vocabulary import Alert
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.answering import answer_from_case
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Connector, collect_from
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector, build
from faultline.connectors.vendors.recorded.connector import RecordedConnector
from tests.bot.conversation.cases import answered
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import prometheus

FIXED = ALERT_AT + timedelta(minutes=40)
"""From here on the server's error ratio is as before."""


def _error_ratio(asked: Asked) -> Reply:
    """Points in the window that is asked for, as Prometheus gives them."""
    rows = []
    if "http_requests_total" in asked.query["query"][0]:
        at, end = (float(asked.query[name][0]) for name in ("start", "end"))
        while at <= end:
            is_bad = ONSET.timestamp() <= at < FIXED.timestamp()
            rows.append([at, "0.4" if is_bad else "0.01"])
            at += prometheus.STEP_S
    series = [{"metric": {"service": "checkout"}, "values": rows}] if rows else []
    return Reply({"status": "success", "data": {"resultType": "matrix", "result": series}})


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        prometheus.serve(server)
        server.on("/api/v1/query_range", _error_ratio)
        yield server


@pytest.fixture(scope="module")
def connector(server: LocalServer) -> PrometheusConnector:
    settings = Settings.model_validate(prometheus.settings(server.url))
    built = build(settings.prometheus, settings)
    assert built is not None
    return built


@pytest.fixture(scope="module")
def case(connector: PrometheusConnector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the same connector brought for the alert."""
    folder = tmp_path_factory.mktemp("again")
    alert = Alert(
        source="prometheus", title="checkout fails", started_at=ALERT_AT, service="checkout"
    )
    request = request_for(folder, services=("checkout",), alert=alert)
    collected = asyncio.run(collect_from(connector, request))
    write_json(folder / "alert.json", alert)
    write_json(folder / "scope.json", request.scope)
    collected.tables["metrics"].write_parquet(folder / "metrics.parquet")
    return folder


def _asked(case: AnsweredCase, question: str, connector: Connector) -> str:
    look = answer_from_case(case, question).look
    assert look is not None
    text = asyncio.run(look((connector,))).text
    return " ".join([text.lead, *(line.text for line in text.lines)])


def test_whether_it_still_happens_is_asked_now(case: Path, connector: PrometheusConnector) -> None:
    soon = _asked(answered(case, now=FIXED - timedelta(minutes=5)), "still broken?", connector)
    assert soon.startswith("Still going on: error rate of checkout is 40 % now (usual: 1 %")
    later = _asked(answered(case, now=FIXED + timedelta(hours=1)), "still broken?", connector)
    assert later.startswith("Back to normal: error rate of checkout is 1 % now")
    assert f"I asked prometheus at {FIXED + timedelta(hours=1):%H:%M}" in later


def test_only_the_services_of_the_answer_are_asked_about(
    case: Path, connector: PrometheusConnector, server: LocalServer, tmp_path: Path
) -> None:
    shutil.copytree(case, tmp_path / "wide")
    scope = read_case(case).scope.model_copy(update={"services": ("checkout", "cart", "search")})
    write_json(tmp_path / "wide/scope.json", scope)
    before = len(server.asked)
    said = _asked(answered(tmp_path / "wide", now=FIXED), "still broken?", connector)
    assert "error rate of checkout" in said
    asked = str([one.query for one in server.asked[before:]])
    assert "checkout" in asked
    assert not re.search("cart|search", asked)


def test_yesterday_is_asked_for_the_same_time_of_day(
    case: Path, connector: PrometheusConnector, server: LocalServer
) -> None:
    said = _asked(answered(case), "compare with yesterday", connector)
    assert "1 % yesterday, 40 % in the incident" in said
    asked = [a for a in server.asked if a.path == "/api/v1/query_range"][-1]
    assert float(asked.query["end"][0]) < (ONSET - timedelta(hours=20)).timestamp()


def test_points_of_another_time_do_not_pass_for_fresh(case: Path) -> None:
    said = _asked(answered(case, now=FIXED), "still broken?", RecordedConnector(case))
    assert said.startswith("I couldn't ask again (recorded: no points for that time)")


def test_a_source_that_does_not_answer_is_named(
    case: Path, connector: PrometheusConnector, server: LocalServer
) -> None:
    server.refusal = Reply(b"", 401)
    try:
        said = _asked(answered(case), "is it over?", connector)
    finally:
        server.refusal = None
    assert said.startswith("I couldn't ask again (prometheus: ")
    assert "It was still going on at" in said, "what the case says of its own time"
