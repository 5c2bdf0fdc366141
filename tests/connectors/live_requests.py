"""Requests about an incident that is still going on, for servers that only tell of now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faultline.analysis.vocabulary import Alert, Diagnosis, Scope, Window
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.base import Collected, Connector, Request, collect_from
from tests.connectors.collected_cases import diagnosed_request


def live_request(folder: Path, *, ended_ago: timedelta = timedelta()) -> Request:
    """Checkout fails, since a quarter of an hour."""
    end = datetime.now(UTC) - ended_ago
    incident = Window(start=end - timedelta(minutes=30), end=end)
    baseline = Window(start=incident.start - timedelta(hours=2), end=incident.start)
    alert = Alert(
        source="test",
        title="Checkout fails",
        started_at=end - timedelta(minutes=15),
        service="checkout",
    )
    return Request(
        alert, Scope(incident=incident, baseline=(baseline,), services=("checkout",)), folder
    )


def configured(name: str, own: Mapping[str, Any], **others: Any) -> Connector:
    """The connector as settings build it."""
    built = CONNECTORS[name].configured(Settings.model_validate({name: own, **others}))
    assert built is not None
    return built


def snapshot(connector: Connector, folder: Path) -> Collected:
    """What the connector brings now."""
    return asyncio.run(collect_from(connector, live_request(folder)))


def facts_of(found: Collected) -> dict[str, str]:
    """The value of each fact; of several with one name the first."""
    if "states" not in found.tables:
        return {}
    rows = found.tables["states"].select("fact", "value").iter_rows()
    facts: dict[str, str] = {}
    for fact, value in rows:
        facts.setdefault(fact, value or "")
    return facts


def diagnosed_now(folder: Path, *connectors: Connector) -> Diagnosis:
    """The case that these connectors' evidence makes, diagnosed."""
    return diagnosed_request(folder, live_request(folder), *connectors)
