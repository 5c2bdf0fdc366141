"""The same hours of earlier days are asked of metrics alone: nobody reads days of changes or lines
for them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Alert, Window
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.base import Request, collect_from
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.pagerduty_server import INCIDENT
from tests.connectors.test_read_only import aws_credentials, case, settings_for, stand_in

__all__ = ["case"]
DAYS = 2
OF_EVENTS = {"alert", "changes", "logs", "spans"}


def with_earlier_days(request: Request) -> Request:
    """The request as the scope is made with `investigation.history_days`."""
    scope, (near,) = request.scope, request.scope.baseline
    days = (timedelta(days=n) for n in range(1, DAYS + 1))
    earlier = tuple(Window(start=near.start - day, end=scope.incident.end - day) for day in days)
    only = {"baseline_logs": (near,), "baseline_spans": (near,)}
    return replace(request, scope=scope.model_copy(update={"baseline": (near, *earlier), **only}))


@pytest.mark.parametrize(
    "name", [name for name in CONNECTORS if name not in ("recorded", "traces")]
)
def test_events_are_looked_for_where_they_are_without_earlier_days(
    name: str, server: LocalServer, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_credentials(monkeypatch)
    stand_in(name).serve(server)
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    windows = []
    for folder in (tmp_path / "without", tmp_path / "with"):
        folder.mkdir()
        request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=alert)
        asked = request if folder.name == "without" else with_earlier_days(request)
        connector = CONNECTORS[name].configured(settings_for(server, case, name))
        assert connector is not None
        found = asyncio.run(collect_from(connector, asked))
        windows.append({(i.kind, i.window) for i in found.items if i.kind in OF_EVENTS})
    assert windows[0] == windows[1]
