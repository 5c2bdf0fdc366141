"""Prometheus's published specification between our connector and our stand-in."""

from __future__ import annotations

import asyncio
from pathlib import Path

from faultline.bot.settings import Settings
from faultline.connectors.vendors.prometheus import CONNECTOR
from tests.connectors.collected_cases import collected
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import prometheus as stand_in
from tests.contracts.emulators import prism_before
from tests.contracts.specifications import with_full_paths


def test_calls_and_answers_fit_the_specification(shared: Path, tmp_path: Path) -> None:
    with LocalServer() as server:
        stand_in.serve(server)
        specification = with_full_paths(shared / "specs/prometheus-3.1.yaml", "/api/v1", tmp_path)
        with prism_before(specification, server.url, tmp_path) as url:
            connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(url)))
            assert connector is not None
            found = collected(tmp_path, connector, services=("checkout",))
            said = asyncio.run(connector.check())
        refused = [
            m.reason for m in found.missing if "HTTP" in m.reason or "understood" in m.reason
        ]
        assert refused == []
        assert found.tables["metrics"].height
        assert said.ok, said.line
        assert "Prometheus 3.1.0" in said.line
        assert {"/api/v1/query_range", "/api/v1/labels", "/api/v1/query"} <= set(server.paths())
        assert server.methods <= {"GET", "HEAD"}
