"""No connector can issue a write: each is built from settings, run against a local server, and its methods counted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from analysis.vocabulary import Alert
from bot.settings import Settings
from connectors.base import collect_one
from connectors.registry import CONNECTORS, build_connectors
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.pagerduty_server import INCIDENT, serve_incident


def settings_for(server: LocalServer, case: Path) -> Settings:
    """Settings in which every connector is configured to speak to the server."""
    return Settings.model_validate(
        {
            "recorded": {"case": case},
            "prometheus": {"url": server.url, "token": "t", "queries": {"mine": 'up{service=~"{service}"}'}},
            "pagerduty": {"api_token": "t", "api_url": server.url},
            "traces": {"locations": ["s3://runs/{job}"], "endpoint_url": server.url},
            "services": {"cart": {"pagerduty_service": "PCART01"}},
        }
    )


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """The smallest case."""
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "alert.json").write_text(json.dumps({"source": "x", "title": "t", "started_at": "2026-03-02T12:00:00Z"}))
    return folder


def serve_everything(server: LocalServer) -> None:
    """Answers for every vendor, by path."""
    serve_incident(server)
    names = ["http_requests_total", "ALERTS", "up"]
    server.on("/api/v1/label/__name__/values", Reply({"status": "success", "data": names}))
    server.on("/api/v1/labels", Reply({"status": "success", "data": ["service", "code"]}))
    server.on("/api/v1/query_range", Reply({"status": "success", "data": {"resultType": "matrix", "result": []}}))
    server.on("/api/v1/query", Reply({"status": "success", "data": {}}))
    listing = b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'
    server.on("/runs", Reply(listing, headers={"Content-Type": "application/xml"}))


def run(connector: Any, folder: Path) -> None:
    """Everything a connector offers."""
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    folder.mkdir()
    request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=alert)
    asyncio.run(collect_one(connector, request))
    asyncio.run(connector.check())
    if hasattr(connector, "enrich"):
        asyncio.run(connector.enrich(alert))


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_connector_reads_and_only_reads(
    name: str, server: LocalServer, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    serve_everything(server)
    before = {p: p.read_bytes() for p in case.rglob("*") if p.is_file()}
    connector = CONNECTORS[name](settings_for(server, case))
    assert connector is not None
    assert connector.name == name
    run(connector, tmp_path / "files")
    assert server.methods == (set() if name == "recorded" else {"GET"})
    assert {p: p.read_bytes() for p in case.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_server_that_answers_nonsense_makes_gaps_and_no_failure(
    name: str, server: LocalServer, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    serve_everything(server)
    nonsense = iter([b"<html>", b"[]", b"{}", b"null", b'{"data": 1}'] * 200)

    def answer(_: Asked) -> Reply:
        return Reply(next(nonsense))

    for path in list(server._replies):
        server.on(path, answer)
    connector = CONNECTORS[name](settings_for(server, case))
    assert connector is not None
    folder = tmp_path / "files"
    folder.mkdir()
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    collected = asyncio.run(collect_one(connector, request_for(folder, services=("cart",), job="llm-1", alert=alert)))
    assert name == "recorded" or collected.missing
    assert not any("unexpected" in m.reason for m in collected.missing)


def test_nothing_is_built_from_settings_that_configure_nothing() -> None:
    assert build_connectors(Settings()) == ()


def test_connectors_are_built_in_the_registrys_order(server: LocalServer, case: Path) -> None:
    built = build_connectors(settings_for(server, case))
    assert [c.name for c in built] == list(CONNECTORS)
