"""Jaeger's v3 specification between our connector and our stand-in. Its own API, which comes first,
is not in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from faultline.bot.settings import Settings
from faultline.connectors.vendors.jaeger import CONNECTOR
from tests.connectors.collected_cases import calls_in, collected
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import jaeger as stand_in
from tests.contracts.emulators import prism_before


def test_calls_and_answers_fit_the_specification(shared: Path, tmp_path: Path) -> None:
    with LocalServer() as server:
        stand_in.serve_v3(server, wrapped=False)
        with prism_before(shared / "specs/jaeger-v3.json", server.url, tmp_path) as url:
            connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(url)))
            assert connector is not None
            found = collected(tmp_path, connector, services=("checkout", "cart"))
            said = asyncio.run(connector.check())
        assert found.missing == ()
        assert found.tables["spans"]["service"].unique().sort().to_list() == ["cart", "checkout"]
        assert calls_in(found, "jaeger") == [("checkout", "cart")]
        assert "by the v3 API" in said.line
        assert set(server.paths()) >= {"/api/v3/services", "/api/v3/traces", "/api/v3/dependencies"}
        assert server.methods <= {"GET", "HEAD"}
