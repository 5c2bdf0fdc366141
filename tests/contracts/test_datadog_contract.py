"""Datadog's published specification between the real client and our stand-in: what we ask fits it,
and so does what the tests answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.datadog import CONNECTOR
from faultline.connectors.vendors.datadog.calls import CALLS
from faultline.connectors.vendors.datadog.connector import DatadogConnector
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import datadog as stand_in
from tests.contracts.emulators import prism_before

NOT_IN_THE_FILES = (
    "/api/v2/trace/{one}",
    "/api/v2/current_user",
    "/api/v2/current_user/application_keys",
    "/api/v2/users/{one}/permissions",
)
"""Paths that the trimmed specifications leave out; anything fits them."""


def merged(shared: Path) -> dict[str, Any]:
    """Both versions of the API in one specification, so that one prism is enough; v1's schemas are
    renamed."""
    first = (shared / "specs/datadog-v1.trim.json").read_text()
    v1: dict[str, Any] = json.loads(
        first.replace("#/components/schemas/", "#/components/schemas/V1")
    )
    v2: dict[str, Any] = json.loads((shared / "specs/datadog-v2.trim.json").read_text())
    v2["components"]["schemas"] |= {
        f"V1{name}": schema for name, schema in v1["components"]["schemas"].items()
    }
    for kind, known in v1["components"].items():
        if kind != "schemas":
            v2["components"][kind] = known | v2["components"].get(kind, {})
    v2["paths"] |= v1["paths"] | {path: {"get": _anything(path)} for path in NOT_IN_THE_FILES}
    own = v2["components"]["schemas"]["DORADeploymentObjectAttributes"]["properties"]
    for name in ("started_at", "finished_at"):
        own[name] = {"type": "number"}  # ns are beyond prism's largest integer
    del v2["servers"]
    return v2


def _anything(path: str) -> dict[str, Any]:
    named = (
        [{"name": "one", "in": "path", "required": True, "schema": {"type": "string"}}]
        if "{" in path
        else []
    )
    answers = {"200": {"description": "ok", "content": {"application/json": {"schema": {}}}}}
    return {"parameters": named, "responses": answers}


@pytest.fixture(scope="module")
def datadog(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DatadogConnector, LocalServer]]:
    """The connector, prism in front of the stand-in, and the stand-in."""
    folder = tmp_path_factory.mktemp("prism")
    (folder / "datadog.json").write_text(json.dumps(merged(shared)))
    with LocalServer() as server:
        stand_in.serve(server)
        with prism_before(folder / "datadog.json", server.url, folder) as url:
            connector = CONNECTOR.configured(Settings.model_validate(stand_in.settings(url)))
            assert connector is not None
            yield connector, server


@pytest.fixture(scope="module")
def collected(
    datadog: tuple[DatadogConnector, LocalServer], tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    """A collection for the alert of the monitor."""
    labels = {"monitor_id": str(stand_in.MONITOR)}
    alert = Alert(
        source="datadog", title="t", started_at=ALERT_AT, service="checkout", labels=labels
    )
    request = request_for(tmp_path_factory.mktemp("files"), services=("checkout",), alert=alert)
    return asyncio.run(collect_from(datadog[0], request))


def test_every_call_and_its_answer_fit_the_specification(collected: Collected) -> None:
    assert [f"{m.query}: {m.reason}" for m in collected.missing] == []
    empty = [name for name, table in collected.tables.items() if not table.height]
    assert empty == []
    assert set(collected.tables) == {"metrics", "logs", "spans", "changes", "topology", "monitors"}


def test_the_checks_calls_fit_too_and_with_them_every_call_was_made(
    datadog: tuple[DatadogConnector, LocalServer], collected: Collected
) -> None:
    check = asyncio.run(datadog[0].check())
    assert "CI pipelines can be read; the key cannot write" in check.line
    stand_in_paths = set(datadog[1].paths())
    for call in CALLS:
        start, _, end = call.path.partition("{}")
        fits = [path for path in stand_in_paths if path.startswith(start) and path.endswith(end)]
        assert fits or call.name == "list_user_permissions", call
